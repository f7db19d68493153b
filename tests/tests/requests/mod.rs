//! S3 requests, signed and sent byte by byte: conditions, ranges and headers that SDKs rarely or never send. The server
//! has to obey, ignore or refuse them, and never misinterpret them.

mod checksums;
mod classes;
mod logged;
mod odd;
mod resumed;
mod site;

use std::time::Duration;

use crate::signatures::{Answer, Payload, Request, Signer, Wire};
use crate::support::access::root_client;
use crate::support::*;

const BUCKET: &str = "requests";
const MINUTE: Duration = Duration::from_secs(60);

/// A server with a bucket.
struct World {
    _server: Server,
    signer: Signer,
    client: aws_sdk_s3::Client,
}

impl World {
    async fn new() -> Self {
        let server = Server::start();
        let client = root_client(&server);
        client.create_bucket().bucket(BUCKET).send().await.expect("made");
        let signer = Signer::new(&server);
        Self { _server: server, signer, client }
    }

    /// Signs a request in its headers, and sends it.
    fn send(&self, request: &Request) -> Answer {
        self.signer.now().sign(request).send(&self.signer.host)
    }

    /// Signs a request in its URL.
    fn url(&self, request: Request) -> Wire {
        self.signer.now().presign(&request.payload(Payload::Unsigned), MINUTE)
    }

    /// Sends a request unchanged.
    fn send_wire(&self, wire: &Wire) -> Answer {
        wire.send(&self.signer.host)
    }

    fn get(&self, key: &str, headers: &[(&'static str, &str)]) -> Answer {
        self.send(&request("GET", key, headers))
    }

    /// Puts an object; returns its entity tag, in quotes.
    fn put(&self, key: &str, body: &str) -> String {
        let answer = self.send(&request("PUT", key, &[]).body(body));
        assert_eq!(answer.status, 200, "{answer}");
        header(&answer, "etag")
    }
}

fn request(method: &'static str, key: &str, headers: &[(&'static str, &str)]) -> Request {
    let request = Request::new(method, format!("/{BUCKET}/{key}"));
    headers.iter().fold(request, |request, (name, value)| request.header(name, *value))
}

/// The value of a header of an answer; empty if there is none.
fn header(answer: &Answer, name: &str) -> String {
    let head = answer.text.split("\r\n\r\n").next().unwrap_or_default();
    let found = head.lines().filter_map(|line| line.split_once(": ")).find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.to_owned()).unwrap_or_default()
}

/// The text of the first element of this name.
fn element(document: &str, name: &str) -> String {
    let (_, rest) = document.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("no {name} in {document}"));
    rest.split('<').next().unwrap_or_default().to_owned()
}

/// The status and the body.
fn status_and_body(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.text.split_once("\r\n\r\n").map_or("", |(_, body)| body))
}
