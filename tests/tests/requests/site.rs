//! Static websites: the listener of `--website-listen`, and its answers to browsers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;
use crate::support::cli::json;

/// A server with a public website at BUCKET.site.example.org.
async fn site() -> Server {
    let options = Options::default()
        .args(["--website-listen", "127.0.0.1:0", "--website-domain", "site.example.org"])
        .args(["--s3-block-public-access", "false"]);
    let server = options.start();
    let client = root_client(&server);
    client.create_bucket().bucket(BUCKET).send().await.expect("made");
    let policy = format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::{BUCKET}/*"}}}}"#
    );
    client.put_bucket_policy().bucket(BUCKET).policy(policy).send().await.expect("set");
    let document =
        "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>";
    let signer = Signer::new(&server);
    let put = Request::new("PUT", format!("/{BUCKET}")).query("website=").body(document);
    assert_eq!(signer.now().sign(&put).send(&signer.host).status, 200);
    let page = aws_sdk_s3::primitives::ByteStream::from_static(b"home");
    client.put_object().bucket(BUCKET).key("index.html").body(page).send().await.expect("stored");
    server
}

/// The answer to a browser, head and body.
fn browse(server: &Server, host: &str, target: &str) -> String {
    let mut stream = TcpStream::connect(server.ready().address("website")).expect("connected");
    stream.set_read_timeout(Some(MINUTE)).expect("set");
    let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    text
}

#[tokio::test]
async fn a_website_is_served_at_its_host_also_after_a_restart_and_an_upgrade() {
    let mut server = site().await;
    let host = format!("{BUCKET}.site.example.org");
    let serves = |server: &Server| {
        let home = browse(server, &host, "/");
        assert!(home.starts_with("HTTP/1.1 200 ") && home.ends_with("\r\n\r\nhome"), "{home}");
        let none = browse(server, "none.site.example.org", "/");
        assert!(none.starts_with("HTTP/1.1 404 ") && none.contains("<li>Code: NoSuchBucket</li>"), "{none}");
    };
    serves(&server);
    assert_eq!(json(&server, &["bucket", "show", BUCKET])["website"], "index");
    server.restart();
    serves(&server);
    server.upgrade();
    serves(&server);
}
