//! A server on a new store, and a raw HTTP client.

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use objstore::Store;
use objstore::store::{Mode, Options, Secret};
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::sign::{EMPTY, Key, Signed, sha256, sign};

pub const BUCKET: &str = "wire";
/// The header of a request that waits for `100 Continue` before it sends its body.
pub const EXPECT: (&str, &str) = ("expect", "100-continue");

/// Threads for blocking work.
const BLOCKING_THREADS: usize = 16;

/// A server with the bucket [`BUCKET`].
pub struct Endpoint {
    pub root: Key,
    pub store: Store,
    pub address: SocketAddr,
    /// The address of the website listener.
    pub website: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Result<(), s3::Error>>>,
    runtime: Runtime,
    _dir: tempfile::TempDir,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(found, _)| found.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value)
    }

    /// The S3 error code, or `OK`.
    pub fn code(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
        if self.status < 300 { "OK".into() } else { code.unwrap_or_default().to_owned() }
    }
}

impl Endpoint {
    pub fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// Starts a server with other settings. With TLS it has no bucket yet.
    pub fn start_with(set: impl FnOnce(&mut s3::Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Key { id: "ROOTKEY".into(), secret: "root-secret".into() };
        let mut options = Options::new(dir.path());
        options.root_key = Some((root.id.clone(), Secret::new(root.secret.clone())));
        let store = objstore::open(options).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(BLOCKING_THREADS)
            .enable_all()
            .build()
            .unwrap();
        let mut config = s3::Config::new(crate::sign::REGION, s3::Metrics::new(&mut Registry::default()));
        set(&mut config);
        let plain = config.tls.is_none();
        let server = s3::Server::new(store.clone(), config).unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let websites = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let website = websites.local_addr().unwrap();
        let server = server.with_website(websites);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = runtime.spawn(server.serve(listener, async {
            let _ = stopped.await;
        }));
        let endpoint =
            Self { root, store, address, website, stop: Some(stop), serving: Some(serving), runtime, _dir: dir };
        if plain {
            assert_eq!(endpoint.send("PUT", "/wire", "", &[], b"").code(), "OK");
        }
        endpoint
    }

    /// Runs a future on the endpoint's runtime.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// Occupies all threads for blocking work until the result is dropped, so that requests to the store wait.
    pub fn occupied(&self) -> Vec<mpsc::Sender<()>> {
        let occupy = |_| {
            let (release, released) = mpsc::channel::<()>();
            let (begin, begun) = mpsc::channel();
            self.runtime.spawn_blocking(move || {
                let _ = begin.send(());
                let _ = released.recv();
            });
            begun.recv().unwrap();
            release
        };
        (0..BLOCKING_THREADS).map(occupy).collect()
    }

    /// A key of a new account with a grant.
    pub fn account(&self, name: &str, mode: Option<Mode>) -> Key {
        self.runtime.block_on(async {
            self.store.create_account(name, false).await.unwrap();
            if let Some(mode) = mode {
                self.store.add_grant(&BUCKET.parse().unwrap(), name, mode).await.unwrap();
            }
            let key = self.store.create_key(name).await.unwrap();
            Key { id: key.id, secret: key.secret.reveal().to_owned() }
        })
    }

    pub fn revoke(&self, key: &Key) {
        self.runtime.block_on(self.store.delete_key(&key.id)).unwrap();
    }

    pub fn forget(&self, account: &str) {
        self.runtime.block_on(self.store.delete_account(account)).unwrap();
    }

    /// Sends a request of the root account, with the hash of the body in its signature.
    pub fn send(&self, method: &str, path: &str, query: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send_as(&self.root.clone(), method, path, query, headers, body)
    }

    pub fn send_as(
        &self,
        key: &Key,
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let payload = if body.is_empty() { EMPTY.to_owned() } else { sha256(body) };
        let signed = sign(key, method, path, query, headers, &payload);
        self.send_signed(method, path, query, &signed, body)
    }

    /// Sends a signed request with any body.
    pub fn send_signed(&self, method: &str, path: &str, query: &str, signed: &Signed, body: &[u8]) -> Answer {
        self.send_cut(method, path, query, signed, body, body.len())
    }

    /// Sends a signed request whose `content-length` is `declared`.
    pub fn send_cut(
        &self,
        method: &str,
        path: &str,
        query: &str,
        signed: &Signed,
        body: &[u8],
        declared: usize,
    ) -> Answer {
        let head = head(method, path, query, &signed.headers, declared);
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // The server may refuse before it has read the body; only its answer counts.
        let _ = stream.write_all(body);
        if declared > body.len() {
            let _ = stream.shutdown(Shutdown::Write);
        }
        receive(&mut stream, method)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Stops the server.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until the server has stopped.
    pub fn stopped(&mut self) {
        if let Some(serving) = self.serving.take() {
            let ended = self.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), serving).await });
            ended.expect("the server stops in time").expect("it does not panic").expect("it stops without an error");
        }
    }
}

/// The head of a request.
pub fn head(method: &str, path: &str, query: &str, headers: &[(String, String)], length: usize) -> String {
    let mark = if query.is_empty() { "" } else { "?" };
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path}{mark}{query} HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n")
}

/// Waits for the `100 Continue` of a request with [`EXPECT`]: then the server processes the request, and has reserved
/// memory for it.
pub fn goes_on(stream: &mut impl Read) {
    let mut told = [0; 25];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// Reads one answer.
pub fn receive(stream: &mut impl Read, method: &str) -> Answer {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        assert!(
            more(stream, &mut bytes),
            "the connection ended before the answer: {:?}",
            String::from_utf8_lossy(&bytes)
        );
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: bytes.split_off(end + 4) };
    let length =
        if method == "HEAD" { 0 } else { answer.header("content-length").map_or(0, |value| value.parse().unwrap()) };
    while answer.body.len() < length && more(stream, &mut answer.body) {}
    answer
}

fn more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 64 * 1024];
    match stream.read(&mut buffer) {
        Ok(0) => false,
        Ok(read) => {
            bytes.extend_from_slice(&buffer[..read]);
            true
        }
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => false,
        Err(error) => panic!("reading the answer: {error}"),
    }
}

/// Whether the other end closes the connection before the read timeout, sending nothing more.
pub fn closes(stream: &mut impl Read) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => rest.is_empty(),
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof),
    }
}
