//! Peers that break rules, stop in the middle, or keep connections and memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::support::{Running, access_key, config, start, until};
use crate::client::{CallError, Config, Event, Transport as _};
use crate::credential::Credential;
use crate::frame::Frame;
use crate::handshake::{Bound, introduce};
use crate::header::{HEADER_BYTES, Header, Kind, REPLY_HEAD_BYTES, Role};
use crate::hello::{Hello, Shown};
use crate::io::write_frame;
use crate::server::Limits;
use crate::version::SPOKEN;

type Stream = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

fn quick() -> Limits {
    let short = Duration::from_millis(200);
    Limits { tls: short, hello: short, idle: short, frame: short, stall: short, ..Limits::default() }
}

async fn stranger(running: &Running) -> Stream {
    running.trusted().connect().await.expect("TLS").0
}

/// An admitted connection whose frames the test writes by hand.
async fn admitted(running: &Running, role: Role) -> Stream {
    let (mut stream, binding) = running.trusted().connect().await.expect("TLS");
    let shown = Shown::AccessKey(super::support::KEY.0.to_owned());
    let (session, nonce) = ("session".into(), vec![0; 32].into());
    let hello = Hello { versions: SPOKEN, features: 0, node: "hostile".to_owned(), session, nonce, shown };
    let bound = Bound { stream: &mut stream, binding: &binding };
    introduce(bound, role, &hello, &access_key(), Duration::from_secs(5)).await.expect("it is admitted");
    stream
}

/// Whether the server closes the connection, after at most a refusal.
async fn is_closed(mut stream: Stream) -> bool {
    let mut answer = Vec::new();
    let ended = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    let refusal_kind = Kind::Refusal as u8;
    ended.is_ok() && (answer.is_empty() || answer.get(5) == Some(&refusal_kind))
}

#[tokio::test]
async fn a_stranger_that_says_nothing_or_too_much_is_cut_off() {
    let running = Running::with(SPOKEN, quick()).await;
    let silent = stranger(&running).await;
    let mut slow = stranger(&running).await;
    slow.write_all(b"AMPv").await.expect("sent");
    let mut long = stranger(&running).await;
    let hello = Frame::new(Kind::Hello, Role::Calls, vec![0; 1 << 20]);
    long.write_all(&hello.encode()[..HEADER_BYTES]).await.expect("sent");
    let mut early = stranger(&running).await;
    early.write_all(&Frame::new(Kind::Request, Role::Calls, "call").numbered(1).encode()).await.expect("sent");
    let mut garbage = stranger(&running).await;
    garbage.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    for stream in [silent, slow, long, early, garbage] {
        assert!(is_closed(stream).await);
    }
    assert!(running.service().claims.lock().is_empty());
}

#[tokio::test]
async fn an_admitted_peer_that_breaks_a_rule_loses_its_connection() {
    let running = Running::with(SPOKEN, quick()).await;
    let request = || Frame::new(Kind::Request, Role::Calls, "wait");
    for broken in [
        Frame::new(Kind::Hello, Role::Calls, ""),
        Frame::new(Kind::Reply, Role::Calls, "").numbered(1),
        request(),
        Frame { role: Role::Bulk, ..request().numbered(1) },
        Frame { flags: 1, ..request().numbered(1) },
        Frame::new(Kind::Ping, Role::Calls, "head"),
        request().numbered(1).with_payload(vec![0; 1 << 20].into()),
        Frame { reply_bytes: 1 << 30, ..request().numbered(1) },
    ] {
        let mut stream = admitted(&running, Role::Calls).await;
        write_frame(&mut stream, &broken, Duration::from_secs(5)).await.expect("sent");
        assert!(is_closed(stream).await, "{:?}", broken.kind);
    }
    let mut twice = admitted(&running, Role::Calls).await;
    for _ in 0..2 {
        write_frame(&mut twice, &request().numbered(1), Duration::from_secs(5)).await.expect("sent");
    }
    assert!(is_closed(twice).await, "a number in use");
    until(|| running.server.connections() == 0).await;
}

#[tokio::test]
async fn a_frame_that_stops_in_the_middle_holds_memory_for_a_bounded_time() {
    let running = Running::with(SPOKEN, Limits { total_bytes: 8 << 20, ..quick() }).await;
    let large = Bytes::from(vec![0; 4 << 20]);
    let frame = Frame { reply_bytes: 4 << 20, ..Frame::new(Kind::Request, Role::Bulk, "a") };
    let bytes = frame.numbered(1).with_payload(large).encode();
    let mut stuck = admitted(&running, Role::Bulk).await;
    stuck.write_all(&bytes[..1 << 20]).await.expect("sent");
    let (node, _events) = start(running.trusted(), Config { session: "b".into(), ..config(access_key()) });
    let answer = timeout(Duration::from_secs(5), node.call("a".into(), vec![1; 1 << 20].into(), 1 << 20)).await;
    assert!(answer.is_ok_and(|answer| answer.is_ok()), "the memory of the stopped frame is free again");
    assert!(is_closed(stuck).await);
}

#[tokio::test]
async fn a_peer_that_reads_no_answers_is_cut_off_and_returns_its_memory() {
    let running = Running::with(SPOKEN, quick()).await;
    let mut deaf = admitted(&running, Role::Bulk).await;
    let large = Bytes::from(vec![0; 2 << 20]);
    let mut number = 0;
    let flood = async {
        loop {
            number += 1;
            let frame = Frame { reply_bytes: 4 << 20, ..Frame::new(Kind::Request, Role::Bulk, "a") };
            let bytes = frame.numbered(number).with_payload(large.clone()).encode();
            if deaf.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    assert!(timeout(Duration::from_secs(10), flood).await.is_ok(), "it is cut off");
    until(|| running.server.connections() == 0).await;
}

#[tokio::test]
async fn strangers_of_one_address_are_bounded() {
    let limits = Limits { strangers_per_address: 4, hello: Duration::from_secs(60), ..Limits::default() };
    let running = Running::with(SPOKEN, limits).await;
    let mut held = std::collections::VecDeque::new();
    for _ in 0..4 {
        held.push_back(stranger(&running).await);
    }
    let fifth = stranger(&running).await;
    assert!(is_closed(held.pop_front().expect("the oldest")).await, "it ends for the fifth");
    let (node, _events) = running.node();
    assert!(node.call("a".into(), Bytes::new(), 0).await.is_ok(), "a node of that address is served all the same");
    drop((held, fifth));
}

/// A connection from an address of loopback, which says nothing.
async fn silent_from(address: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((address, 0).into())?;
    socket.connect(to).await
}

/// Holds four connections from an address, and opens another for each that is closed; for a bounded time.
async fn hold_places(address: [u8; 4], to: SocketAddr, opened: Arc<AtomicUsize>) {
    let mut held = Vec::new();
    for _ in 0..600 {
        held.retain(|stream: &TcpStream| {
            let mut byte = [0];
            matches!(stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
        while held.len() < 4
            && let Ok(stream) = silent_from(address, to).await
        {
            opened.fetch_add(1, SeqCst);
            held.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn eight_addresses_that_hold_every_place_keep_no_node_out() {
    let limits = Limits { strangers: 32, strangers_per_address: 4, ..Limits::default() };
    let running = Running::with(SPOKEN, limits).await;
    let opened = Arc::new(AtomicUsize::new(0));
    let attack = |last| tokio::spawn(hold_places([127, 0, 0, last], running.address, Arc::clone(&opened)));
    let attackers: Vec<_> = (2..10).map(attack).collect();
    until(|| opened.load(SeqCst) >= 32).await;
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let began = std::time::Instant::now();
        let (node, _events) = running.node();
        assert!(node.call("a".into(), Bytes::new(), 0).await.is_ok());
        longest = longest.max(began.elapsed());
    }
    attackers.iter().for_each(tokio::task::JoinHandle::abort);
    // A place that is only held is free after 5 s at the earliest.
    assert!(longest < Duration::from_secs(2), "the node waited {longest:?}");
}

#[tokio::test]
async fn a_server_that_waits_for_memory_shows_that_it_is_alive() {
    let limits = Limits { total_bytes: 1 << 20, alive: Duration::from_millis(50), ..Limits::default() };
    let running = Running::with(SPOKEN, limits).await;
    let (greedy, _greedy_events) = start(running.trusted(), Config { session: "b".into(), ..config(access_key()) });
    let holding = tokio::spawn(async move { greedy.call("wait".into(), Bytes::new(), 4 << 20).await });
    until(|| running.server.free_bytes() == 0).await;
    let silence = Duration::from_millis(300);
    let impatient = Config { ping: silence / 3, silence, ..config(access_key()) };
    let (node, mut events) = start(running.trusted(), impatient);
    let waiting = tokio::spawn(async move { node.call("a".into(), Bytes::new(), 0).await });
    tokio::time::sleep(5 * silence).await;
    running.service().released.notify_one();
    assert!(waiting.await.expect("the task ends").is_ok(), "its connection lived while it waited");
    assert!(holding.await.expect("the task ends").is_ok());
    while let Ok(event) = events.try_recv() {
        assert!(matches!(event, Event::Connected(_)), "{event:?}");
    }
}

#[tokio::test]
async fn the_head_of_an_answer_is_counted_before_the_call_is_read() {
    let running = Running::start().await;
    let (node, _events) = running.node();
    let free = running.server.free_bytes();
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.call("wait".into(), Bytes::new(), 0).await }
    });
    until(|| running.service().running.load(SeqCst) == 1).await;
    let held = free - running.server.free_bytes();
    assert!(held >= u64::from(REPLY_HEAD_BYTES), "{held}");
    let long = Bytes::from(vec![b'x'; REPLY_HEAD_BYTES as usize + 1]);
    assert!(matches!(node.call(long, Bytes::new(), 0).await, Err(CallError::Refused(_))), "a longer one is not sent");
    running.service().released.notify_one();
    assert!(waiting.await.expect("the task ends").is_ok());
    until(|| running.server.free_bytes() == free).await;
}

#[tokio::test]
async fn the_memory_of_a_call_that_goes_on_is_counted_without_its_connection_too() {
    let running = Running::start().await;
    let free = running.server.free_bytes();
    let mut stream = admitted(&running, Role::Bulk).await;
    let frame = Frame { reply_bytes: 1, ..Frame::new(Kind::Request, Role::Bulk, "keep") };
    let bytes = frame.numbered(1).with_payload(vec![0; 1 << 20].into()).encode();
    stream.write_all(&bytes).await.expect("sent");
    until(|| running.service().kept.lock().len() == 1).await;
    drop(stream);
    until(|| running.server.connections() == 0).await;
    assert!(free - running.server.free_bytes() >= 1 << 20, "its bytes are still there");
    running.service().kept.lock().clear();
    until(|| running.server.free_bytes() == free).await;
}

#[tokio::test]
async fn a_header_alone_takes_no_memory_beyond_the_budget() {
    let running = Running::with(SPOKEN, Limits { total_bytes: 8 << 20, ..Limits::default() }).await;
    let header = Header {
        kind: Kind::Request,
        role: Role::Bulk,
        flags: 0,
        number: 1,
        head_bytes: 0,
        payload_bytes: 4 << 20,
        reply_bytes: 4 << 20,
    };
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut stream = admitted(&running, Role::Bulk).await;
        stream.write_all(&header.encode()).await.expect("sent");
        streams.push(stream);
    }
    until(|| running.server.free_bytes() == 0).await;
    let ticket = config(Credential::Ticket(super::support::TICKET.into()));
    let (node, _events) = start(running.trusted(), ticket);
    let waits = timeout(Duration::from_millis(100), node.call("a".into(), Bytes::new(), 1)).await;
    assert!(waits.is_err(), "calls wait for memory in place of taking more");
    drop(streams);
    assert!(node.call("a".into(), Bytes::new(), 1).await.is_ok());
}
