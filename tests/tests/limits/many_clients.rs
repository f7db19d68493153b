//! Thousands of connections, and one client that measures the server's response times beside them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aws_sdk_s3::presigning::PresigningConfig;
use tests::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::access::root_client;

/// The bucket of these tests.
pub const BUCKET: &str = "crowd";
/// Connections from one address, since a client has few ports.
const PER_ADDRESS: usize = 5_000;
/// Connections that begin at the same time: fewer than the queue of those not yet accepted.
const AT_ONCE: usize = 64;
/// The bytes of an answer that the kernel buffers while the client does not read.
const RECEIVED_BYTES: u32 = 32 * 1024;
/// The time limit of an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The most measurements.
const MEASURES: usize = 5;

/// A lock: one of these tests runs at a time, because they measure time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A server with the bucket, and what is needed to send requests without a client library.
pub struct ServerUnderTest {
    pub server: Server,
    pub client: aws_sdk_s3::Client,
    pub address: SocketAddr,
    _alone: MutexGuard<'static, ()>,
}

/// Methods a URL is signed for.
#[derive(Clone, Copy, Debug)]
pub enum Method {
    Get,
    Put,
}

impl ServerUnderTest {
    /// With further flags.
    pub async fn new(args: &[&str]) -> Self {
        let alone = ALONE.lock().await;
        let server = Options::default().args(["--log-level", "warn"]).args(args.iter().copied()).start();
        let client = root_client(&server);
        client.create_bucket().bucket(BUCKET).send().await.expect("the bucket");
        let address = server.ready().address("s3");
        Self { server, client, address, _alone: alone }
    }

    /// Puts an object of so many bytes.
    pub async fn put(&self, key: &str, bytes: usize) {
        let content = vec![7; bytes];
        self.client.put_object().bucket(BUCKET).key(key).body(content.into()).send().await.expect("put");
    }

    /// The head of a request, signed in its URL.
    pub async fn head(&self, method: Method, key: &str, length: usize) -> String {
        let expires = PresigningConfig::expires_in(Duration::from_secs(3600)).expect("a time");
        let (name, signed) = match method {
            Method::Get => ("GET", self.client.get_object().bucket(BUCKET).key(key).presigned(expires).await.ok()),
            Method::Put => ("PUT", self.client.put_object().bucket(BUCKET).key(key).presigned(expires).await.ok()),
        };
        let signed = signed.expect("signed");
        let target = signed.uri().strip_prefix(self.server.s3()).expect("a URL of the server").to_owned();
        format!("{name} {target} HTTP/1.1\r\nhost: {}\r\ncontent-length: {length}\r\n\r\n", self.address)
    }

    /// Opens `count` connections, each of which sends `first`.
    pub async fn connect_many(&self, count: usize, first: &str) -> Vec<TcpStream> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            let numbers = all.len()..count.min(all.len() + AT_ONCE);
            let opened = numbers.map(|number| open(number, self.address, first));
            all.extend(futures::future::join_all(opened).await);
        }
        all
    }

    /// Reads and writes small objects for a while, one request after another.
    pub async fn measure(&self, time: Duration) -> PairLatencies {
        let content = vec![7; 4096];
        let (begin, mut took) = (Instant::now(), Vec::new());
        while begin.elapsed() < time {
            let asked = Instant::now();
            let put = self.client.put_object().bucket(BUCKET).key("probe").body(content.clone().into());
            put.send().await.expect("an answer");
            let got = self.client.get_object().bucket(BUCKET).key("probe").send().await.expect("an answer");
            assert_eq!(got.body.collect().await.expect("its content").into_bytes().len(), 4096);
            took.push(asked.elapsed());
        }
        took.sort();
        PairLatencies { took }
    }

    /// Measures again until the result is quick, a few times at most: other work on this machine makes it slower, never
    /// quicker.
    pub async fn measure_until(&self, time: Duration, is_quick: impl Fn(&PairLatencies) -> bool) -> PairLatencies {
        let mut latencies = self.measure(time).await;
        for _ in 1..MEASURES {
            if is_quick(&latencies) {
                break;
            }
            latencies = self.measure(time).await;
        }
        latencies
    }
}

/// How long pairs of a write and a read took.
pub struct PairLatencies {
    took: Vec<Duration>,
}

impl PairLatencies {
    /// The median time.
    pub fn median(&self) -> Duration {
        self.took[self.took.len() / 2]
    }

    /// The time that one in twenty exceeds.
    pub fn slow(&self) -> Duration {
        self.took[self.took.len() * 95 / 100]
    }
}

impl std::fmt::Display for PairLatencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pairs, median {:?}, p95 {:?}", self.took.len(), self.median(), self.slow())
    }
}

/// Prints a measurement, for people who run the test.
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
pub fn print_measurement(words: &str) {
    println!("{words}");
}

async fn open(number: usize, server: SocketAddr, first: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let host = u8::try_from(2 + number / PER_ADDRESS).expect("few addresses");
    // Bytes that the kernel buffers for a client that does not read are not the server's memory.
    socket.set_recv_buffer_size(RECEIVED_BYTES).expect("a size");
    socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("a port");
    let mut stream = socket.connect(server).await.expect("connected");
    stream.write_all(first.as_bytes()).await.expect("sent");
    stream
}

/// The status of the next answer, which has to come in time. Its body is not read.
pub async fn status(stream: &mut TcpStream) -> u16 {
    let mut head = Vec::new();
    let read = async {
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.expect("an answer") == 0 {
                break;
            }
            head.push(byte[0]);
        }
    };
    tokio::time::timeout(ANSWER, read).await.expect("an answer in time");
    let text = String::from_utf8_lossy(&head);
    text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no answer: {text:?}"))
}
