//! Calls: answered in any order, cancelled, of unknown outcome, small beside large.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;

use super::support::{Running, access_key, config, event, random, refusal, start, until};
use crate::client::{CallError, Client, Config, Event, Tls, Transport};
use crate::credential::Binding;
use crate::header::{HEAD_BYTES, PAYLOAD_BYTES, Role};
use crate::refusal::{Reason, Refusal};
use crate::server::Limits;
use crate::version::SPOKEN;

#[tokio::test]
async fn answers_arrive_in_any_order_at_the_calls_they_belong_to() {
    let running = Running::start().await;
    let (node, _events) = running.node();
    let first = node.call("first".into(), Bytes::new(), 0);
    let others = async {
        for number in 0..100_u32 {
            let head = Bytes::copy_from_slice(&number.to_le_bytes());
            let payload = Bytes::from(vec![number as u8; number as usize * 1000]);
            let answer = node.call(head.clone(), payload.clone(), 100_000).await.expect("an answer");
            assert_eq!((answer.head, answer.payload), (head, payload));
        }
        std::time::Instant::now()
    };
    let (first, others) = tokio::join!(async { (first.await, std::time::Instant::now()) }, others);
    assert_eq!(first.0.expect("an answer").head, "first");
    assert!(others > first.1 || others.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn large_transfers_take_a_connection_of_their_own() {
    let running = Running::start().await;
    let (node, _events) = running.node();
    let large = Bytes::from(vec![7; PAYLOAD_BYTES as usize]);
    let answer = node.call("large".into(), large.clone(), PAYLOAD_BYTES).await.expect("an answer");
    assert_eq!(answer.payload, large);
    assert_eq!(node.control("renew".into()).await.expect("an answer").head, "renew");
    let too_long = node.call("a".into(), vec![0; PAYLOAD_BYTES as usize + 1].into(), 0).await;
    assert_eq!(too_long, Err(CallError::TooLong));
    assert_eq!(node.call(vec![0; HEAD_BYTES as usize + 1].into(), Bytes::new(), 0).await, Err(CallError::TooLong));
    assert_eq!(running.server.connections(), 3);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_dropped_at_the_store() {
    let running = Running::start().await;
    let (node, _events) = running.node();
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.call("wait".into(), Bytes::new(), 0).await }
    });
    until(|| running.service().running.load(SeqCst) == 1).await;
    waiting.abort();
    until(|| running.service().running.load(SeqCst) == 0).await;
    assert!(node.call("still".into(), Bytes::new(), 0).await.is_ok());
}

#[tokio::test]
async fn the_end_of_a_session_drops_its_calls_and_tells_the_node() {
    let running = Running::start().await;
    let (node, mut events) = running.node();
    let (other, _others) = start(running.trusted(), Config { session: "other".into(), ..config(access_key()) });
    assert!(other.call("a".into(), Bytes::new(), 0).await.is_ok());
    let waiting = tokio::spawn(async move { node.call("wait".into(), Bytes::new(), 0).await });
    until(|| running.service().running.load(SeqCst) == 1).await;
    running.server.end_session(&"session".into(), &Refusal::new(Reason::Session, "the volume was unpublished"));
    assert_eq!(waiting.await.expect("the task ends"), Err(CallError::Unknown));
    assert_eq!(refusal(&mut events).await.message, "the volume was unpublished");
    assert_eq!(running.service().running.load(SeqCst), 0);
    assert!(other.call("b".into(), Bytes::new(), 0).await.is_ok(), "another session goes on");
}

#[tokio::test]
async fn a_call_is_refused_alone_and_an_answer_beyond_its_bound_too() {
    let running = Running::start().await;
    let (node, _events) = running.node();
    let refused = node.call("refuse".into(), Bytes::new(), 0).await;
    assert_eq!(refused, Err(CallError::Refused(Refusal::new(Reason::Session, "the session is fenced"))));
    assert!(matches!(node.call("long".into(), Bytes::new(), 10).await, Err(CallError::Refused(_))));
    assert!(node.call("next".into(), Bytes::new(), 0).await.is_ok(), "the connection goes on");
}

#[tokio::test]
async fn after_the_server_ends_a_call_is_unknown_or_not_sent_and_the_next_server_answers() {
    let running = Running::start().await;
    let (node, mut events) =
        start(running.trusted(), Config { wait: Duration::from_millis(200), ..config(access_key()) });
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.call("wait".into(), Bytes::new(), 0).await }
    });
    until(|| running.service().running.load(SeqCst) == 1).await;
    running.stop();
    assert_eq!(waiting.await.expect("the task ends"), Err(CallError::Unknown), "it was sent");
    assert_eq!(refusal(&mut events).await.reason, Reason::Stopping);
    let next = node.call("later".into(), Bytes::new(), 0).await;
    assert!(matches!(next, Err(CallError::NotSent(_))), "{next:?}");
}

#[tokio::test]
async fn notices_and_acknowledgements_travel_both_ways_in_order() {
    let running = Running::start().await;
    let (node, mut events) = running.node();
    event(&mut events, |event| (event == Event::Connected(Role::Control)).then_some(())).await;
    until(|| running.service().control.lock().is_some()).await;
    let notices = running.service().control.lock().clone().expect("the control connection");
    for number in 0..200_u8 {
        notices.send(vec![number].into()).await.expect("it is sent");
        let head = event(&mut events, |event| match event {
            Event::Notice(Role::Control, head) => Some(head),
            _ => None,
        });
        assert_eq!(head.await[..], [number]);
        node.notice(vec![number].into()).await.expect("it is sent");
    }
    until(|| running.service().notices.lock().len() == 200).await;
    let received: Vec<u8> = running.service().notices.lock().iter().map(|head| head[0]).collect();
    assert_eq!(received, (0..200).collect::<Vec<u8>>());
}

#[tokio::test]
async fn a_quiet_connection_lives_by_pings() {
    let limits = Limits { idle: Duration::from_millis(200), ..Limits::default() };
    let running = Running::with(SPOKEN, limits).await;
    let (node, mut events) = running.node();
    assert!(node.call("a".into(), Bytes::new(), 0).await.is_ok());
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(node.call("b".into(), Bytes::new(), 0).await.is_ok());
    while let Ok(event) = events.try_recv() {
        assert!(matches!(event, Event::Connected(_)), "{event:?}");
    }
}

#[tokio::test]
async fn a_store_without_room_is_not_asked_again_at_once() {
    let running = Running::with(SPOKEN, Limits { connections: 0, ..Limits::default() }).await;
    let (_node, mut events) = running.node();
    let (began, mut refused) = (std::time::Instant::now(), 0);
    while began.elapsed() < Duration::from_millis(500) {
        assert_eq!(refusal(&mut events).await.reason, Reason::Busy);
        refused += 1;
    }
    // Three connections. Their pauses double from 5 ms, and are at least half of 50 ms from the fifth attempt on.
    let most = 3 * (5 + began.elapsed().as_millis() / 25);
    assert!(refused <= most, "{refused} attempts, at most {most}");
}

/// A way to a store that moves: first its old place refuses, then packets are lost on the way there.
struct Moved {
    refused: std::sync::atomic::AtomicUsize,
    lost: std::sync::atomic::AtomicUsize,
    tls: Tls,
}

impl Transport for Moved {
    type Stream = <Tls as Transport>::Stream;

    async fn connect(&self) -> std::io::Result<(Self::Stream, Binding)> {
        let is_left = |count: &std::sync::atomic::AtomicUsize| {
            count.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
        };
        if is_left(&self.refused) {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        if is_left(&self.lost) {
            std::future::pending::<()>().await;
        }
        self.tls.connect().await
    }

    fn trusts_any_certificate(&self) -> bool {
        self.tls.trusts_any_certificate()
    }
}

#[tokio::test]
async fn a_connection_whose_packets_are_lost_is_soon_replaced_by_another() {
    let running = Running::start().await;
    // Six attempts of each of the three connections, then one.
    let moved = Moved { refused: 18.into(), lost: 3.into(), tls: running.trusted() };
    let (events, _received) = tokio::sync::mpsc::channel(64);
    let node = Client::start(moved, config(access_key()), &events, &random(3)).expect("a client");
    let began = std::time::Instant::now();
    assert!(node.call("a".into(), Bytes::new(), 0).await.is_ok());
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_renewal_waits_for_no_memory_of_transfers() {
    let running = Running::with(SPOKEN, Limits { total_bytes: 1 << 20, ..Limits::default() }).await;
    let (node, _events) = running.node();
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.call("wait".into(), Bytes::new(), PAYLOAD_BYTES).await }
    });
    until(|| running.service().running.load(SeqCst) == 1).await;
    assert_eq!(running.server.free_bytes(), 0);
    let renewed = tokio::time::timeout(Duration::from_secs(5), node.control("renew".into())).await;
    assert_eq!(renewed.expect("it does not wait").expect("an answer").head, "renew");
    waiting.abort();
}

#[tokio::test]
async fn calls_beyond_the_budget_wait_and_all_are_answered() {
    let limits = Limits { requests: 4, connection_bytes: 1, total_bytes: 1 << 20, ..Limits::default() };
    let running = Running::with(SPOKEN, limits).await;
    let (node, _events) = running.node();
    let calls = (0..64).map(|_| {
        let (node, large) = (node.clone(), Bytes::from(vec![1; 600 << 10]));
        tokio::spawn(
            async move { node.call("large".into(), large, 600 << 10).await.map(|answer| answer.payload.len()) },
        )
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.expect("the task ends"), Ok(600 << 10));
    }
}
