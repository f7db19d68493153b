//! A complete endpoint with full access for everyone, to which a fuzz target sends requests.
//!
//! - An input is a first line with method and URI, a line for each header, an empty line and the body. The framing on
//!   the wire is added, because parsing it is the HTTP library's job.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use objstore::Store;
use objstore::store::{CreateBucket, Options, ROOT_ACCOUNT, RootAttributes, Settings, Versioning};
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;

use crate::{Config, Metrics, Server};

/// Everyone may do everything except restrict access.
const POLICY: &str = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": "*",
    "NotAction": ["s3:DeleteBucket", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy", "s3:PutBucketPublicAccessBlock"],
    "Resource": ["arn:aws:s3:::abc", "arn:aws:s3:::abc/*"]}}"#;
/// Far longer than any response takes.
const LIMIT: Duration = Duration::from_secs(20);
/// Headers of the framing, which the input may not set.
const FRAMING: [&str; 5] = ["content-length", "transfer-encoding", "connection", "expect", "upgrade"];

/// An endpoint with the bucket `abc`.
pub struct Endpoint {
    address: SocketAddr,
    _runtime: Runtime,
    _dir: tempfile::TempDir,
}

impl Endpoint {
    /// Starts an endpoint on a new store.
    ///
    /// # Panics
    /// If the store or socket cannot be created.
    #[must_use]
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let store = objstore::open(Options::new(dir.path())).expect("a store");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(fill(&store)).expect("a bucket");
        let config = Config { block_public_access: false, ..Config::new("us-east-1", stats()) };
        let server = Server::new(store, config).expect("a server");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(server.serve(listener, std::future::pending()));
        Self { address, _runtime: runtime, _dir: dir }
    }

    /// Sends a request.
    ///
    /// # Panics
    /// If there is no response, or an internal error.
    pub fn ask(&self, bytes: &[u8]) {
        let Some(request) = framed(bytes) else { return };
        let mut socket = TcpStream::connect(self.address).expect("it accepts");
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
        // A server that refuses early closes the connection before it has read everything.
        let _ = socket.write_all(&request);
        let mut answer = Vec::new();
        let read = socket.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
        match status {
            Some(500) => panic!("the server failed: {text}"),
            Some(_) => {}
            // The HTTP library may close the connection without a response to what is not a request.
            None => assert!(answer.is_empty() && read.is_ok() || read.is_err_and(|error| !is_late(&error)), "{text}"),
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

fn stats() -> Metrics {
    Metrics::new(&mut Registry::default())
}

async fn fill(store: &Store) -> objstore::Result<()> {
    let request = CreateBucket {
        name: "abc".parse()?,
        owner: ROOT_ACCOUNT.into(),
        quota_bytes: Some(64 << 20),
        versioning: Versioning::Enabled,
        source: None,
        attributes: Default::default(),
        root: RootAttributes::default(),
    };
    store.create_bucket(request).await?;
    let open = |settings: &mut Settings| {
        settings.policy = Some(POLICY.into());
        Ok(())
    };
    store.change_settings(&"abc".parse()?, open).await.map(drop)
}

/// The request in its form on the wire.
fn framed(bytes: &[u8]) -> Option<Vec<u8>> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 2..]));
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let mut request = format!("{} HTTP/1.1\r\n", lines.next()?.trim_end());
    for line in lines.filter(|line| line.contains(':')) {
        let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !FRAMING.contains(&name.as_str()) {
            request += &format!("{line}\r\n");
        }
    }
    if !head.to_ascii_lowercase().contains("\nhost:") {
        request += "host: 127.0.0.1\r\n";
    }
    request += &format!("connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    Some([request.as_bytes(), body].concat())
}
