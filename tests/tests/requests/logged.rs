//! Access logs of buckets when the server ends: all lines survive an orderly end and an upgrade, not a kill.

use super::*;
use crate::support::cli::json;

const TARGET: &str = "log-target";

/// A server with a bucket whose access log goes into another bucket, and is not delivered because of its age.
async fn logged() -> Server {
    let server = Server::start();
    let client = root_client(&server);
    for bucket in [BUCKET, TARGET] {
        client.create_bucket().bucket(bucket).send().await.expect("made");
    }
    let document = format!(
        "<BucketLoggingStatus><LoggingEnabled><TargetBucket>{TARGET}</TargetBucket><TargetPrefix>l/</TargetPrefix>\
         </LoggingEnabled></BucketLoggingStatus>"
    );
    let signer = Signer::new(&server);
    let put = Request::new("PUT", format!("/{BUCKET}")).query("logging=").body(document.as_str());
    assert_eq!(signer.now().sign(&put).send(&signer.host).status, 200);
    server
}

async fn put(server: &Server, key: &str) {
    let body = aws_sdk_s3::primitives::ByteStream::from_static(b"x");
    root_client(server).put_object().bucket(BUCKET).key(key).body(body).send().await.expect("stored");
}

/// All delivered lines.
async fn lines(server: &Server) -> String {
    let client = root_client(server);
    let listed = client.list_objects_v2().bucket(TARGET).send().await.expect("listed");
    let mut text = String::new();
    for object in listed.contents() {
        let answer = client.get_object().bucket(TARGET).key(object.key().expect("named")).send().await.expect("read");
        let body = answer.body.collect().await.expect("whole").into_bytes();
        text.push_str(std::str::from_utf8(&body).expect("text"));
    }
    text
}

#[tokio::test]
async fn an_upgrade_and_an_orderly_end_deliver_what_is_buffered() {
    let mut server = logged().await;
    assert_eq!(json(&server, &["bucket", "show", BUCKET])["accessLog"], "log-target/l/");
    put(&server, "before-the-upgrade").await;
    assert_eq!(lines(&server).await, "");
    server.upgrade();
    let found = lines(&server).await;
    assert!(found.contains(" REST.PUT.OBJECT before-the-upgrade "), "{found}");
    put(&server, "before-the-end").await;
    server.restart();
    let found = lines(&server).await;
    assert!(found.contains(" REST.PUT.OBJECT before-the-end "), "{found}");
}

#[tokio::test]
async fn a_kill_loses_only_buffered_lines() {
    let mut server = logged().await;
    put(&server, "before-the-kill").await;
    server.kill9();
    server.restart();
    assert_eq!(lines(&server).await, "", "delivery is best effort");
    assert!(root_client(&server).head_object().bucket(BUCKET).key("before-the-kill").send().await.is_ok());
    assert_eq!(json(&server, &["bucket", "show", BUCKET])["accessLog"], "log-target/l/");
}
