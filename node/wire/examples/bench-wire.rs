//! Measures calls and transfers over the wire beside a bare TCP loop, in turn, on loopback.
//!
//! `cargo run --release --ignore-rust-version -p node-wire --example bench-wire -- [ROUNDS]`

#![expect(clippy::print_stdout, reason = "a command line tool speaks on its streams")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use node_wire::client::{Client, Config, Tls};
use node_wire::credential::{Claim, Credential, Secret};
use node_wire::header::Role;
use node_wire::hello::Hello;
use node_wire::refusal::Refusal;
use node_wire::server::{Limits, Server};
use node_wire::service::{Answer, Call, Notices, Peer, Reply, Service};
use node_wire::tls::{Acceptor, Connector, Pair, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The size of a small call and of its answer, and of a large payload.
const SMALL_BYTES: usize = 160;
const LARGE_BYTES: usize = 1 << 20;
/// Per round.
const CALLS: u32 = 5_000;
const TRANSFERS: u32 = 100;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Answers with the payload that it receives.
struct Echo;

impl Service for Echo {
    type Identity = ();

    async fn secret(&self, _access_key: &str) -> Option<Secret> {
        Some(Secret::new("secret"))
    }

    async fn admit(
        &self,
        _claim: Claim,
        _hello: &Hello,
        _role: Role,
        _certificate: Option<Bytes>,
    ) -> std::result::Result<(), Refusal> {
        Ok(())
    }

    fn connected(&self, _peer: &Arc<Peer<()>>, _notices: Notices) {}

    async fn call(&self, _peer: Arc<Peer<()>>, call: Call, reply: Reply) {
        reply.send(Ok(Answer { head: call.head, payload: call.payload }));
    }

    async fn notice(&self, _peer: &Peer<()>, _head: Bytes) {}
}

#[tokio::main]
async fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(5), |word| word.parse())?;
    // On a thread of the runtime, as calls of a mount's tasks are.
    tokio::spawn(measure(rounds)).await?
}

async fn measure(rounds: usize) -> Result<()> {
    let mut bare = bare_tcp().await?;
    let wire = wire().await?;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..rounds {
        let round = [
            bare_echo(&mut bare, SMALL_BYTES, CALLS).await?,
            wire_echo(&wire, SMALL_BYTES, CALLS).await?,
            bare_echo(&mut bare, LARGE_BYTES, TRANSFERS).await?,
            wire_echo(&wire, LARGE_BYTES, TRANSFERS).await?,
        ];
        times.iter_mut().zip(round).for_each(|(all, time)| all.push(time));
    }
    let [bare_call, wire_call, bare_large, wire_large] = times.map(median);
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("{:<28} {:>10} {:>10} {:>7}", "", "bare TCP", "wire", "ratio");
    let ratio = micros(wire_call) / micros(bare_call);
    println!("{:<28} {:>10.1} {:>10.1} {ratio:>7.2}", "160 B and back, us", micros(bare_call), micros(wire_call));
    let rate = |time: Duration| 2.0 / time.as_secs_f64();
    let ratio = rate(wire_large) / rate(bare_large);
    println!("{:<28} {:>10.0} {:>10.0} {ratio:>7.2}", "1 MiB and back, MiB/s", rate(bare_large), rate(wire_large));
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn bare_tcp() -> Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let stream = TcpStream::connect(listener.local_addr()?).await?;
    stream.set_nodelay(true)?;
    let (mut other, _) = listener.accept().await?;
    other.set_nodelay(true)?;
    tokio::spawn(async move {
        let mut buffer = vec![0; LARGE_BYTES];
        loop {
            // The first byte tells whether the message is small.
            if other.read_exact(&mut buffer[..SMALL_BYTES]).await.is_err() {
                return;
            }
            let length = if buffer[0] == 0 { SMALL_BYTES } else { LARGE_BYTES };
            let rest = other.read_exact(&mut buffer[SMALL_BYTES..length]).await;
            if rest.is_err() || other.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    });
    Ok(stream)
}

/// The time of one message and its echo.
async fn bare_echo(stream: &mut TcpStream, bytes: usize, count: u32) -> Result<Duration> {
    let message = vec![u8::from(bytes != SMALL_BYTES); bytes];
    let mut answer = vec![0; bytes];
    let start = Instant::now();
    for _ in 0..count {
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer).await?;
    }
    Ok(start.elapsed() / count)
}

async fn wire() -> Result<Client> {
    #[expect(clippy::disallowed_methods, reason = "a measurement owns its clock")]
    let now = node_certificate::Timestamp::from(std::time::SystemTime::now());
    let authority = node_certificate::Authority::in_memory(now)?;
    let issued = authority.issue(&["localhost".to_owned()], now)?;
    let pair = Pair { chain_pem: issued.chain_pem.as_bytes(), key_pem: issued.key_pem.as_bytes() };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?.to_string();
    let acceptor = Acceptor::new(pair, None)?;
    let random: node_wire::Random = Arc::new(|bytes: &mut [u8]| bytes.fill(7));
    let listening = Server::new(Echo, Limits::default(), 0, Arc::clone(&random));
    tokio::spawn(async move { listening.serve(listener, acceptor, std::future::pending()).await });
    let trust = Trust::Authority(authority.certificate_pem().as_bytes());
    let connector = Connector::new("localhost".try_into()?, trust, None)?;
    let credential = Credential::AccessKey { id: "key".to_owned(), secret: Secret::new("secret") };
    let (events, mut received) = mpsc::channel(64);
    tokio::spawn(async move { while received.recv().await.is_some() {} });
    Ok(Client::start(Tls { server, connector }, Config::new("node", "session".into(), credential), &events, &random)?)
}

/// The time of one call and its answer.
async fn wire_echo(client: &Client, bytes: usize, count: u32) -> Result<Duration> {
    let payload = Bytes::from(vec![1; bytes]);
    let start = Instant::now();
    for _ in 0..count {
        client.call(Bytes::new(), payload.clone(), u32::try_from(bytes)?).await?;
    }
    Ok(start.elapsed() / count)
}
