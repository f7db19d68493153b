//! Admission: keys, tickets and certificates; impostors on both ends; incompatible versions.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{copy_bidirectional, duplex};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::support::{Authority, KEY, Running, TICKET, access_key, config, event, random, refusal, start};
use crate::client::{CallError, Client, Config, Event, Tls, Unproven};
use crate::credential::{Binding, Claim, Credential, Secret};
use crate::frame::Frame;
use crate::handshake::{Bound, Failed, introduce};
use crate::header::{Bounds, Kind, Role};
use crate::hello::{Hello, Shown};
use crate::io::{Pace, read_frame, write_frame};
use crate::refusal::{Reason, Refusal};
use crate::server::Limits;
use crate::tls::{Acceptor, Connector, Error, Pair, Trust};
use crate::version::Versions;

fn ticket_and_key(ticket: &'static [u8], secret: &str) -> Credential {
    Credential::TicketAndKey { ticket: ticket.into(), id: KEY.0.to_owned(), secret: Secret::new(secret) }
}

async fn answered(node: &Client) -> Result<(), CallError> {
    node.call("a".into(), Bytes::new(), 0).await.map(drop)
}

#[tokio::test]
async fn a_node_is_admitted_by_its_key_its_ticket_or_its_certificate() {
    let running = Running::start().await;
    let authority = Trust::Authority(running.authority.pem.as_bytes());
    let ticket = Credential::Ticket(TICKET.into());
    for (trust, own, credential) in [
        (authority, None, access_key()),
        (Trust::AccessKey, None, access_key()),
        (authority, None, ticket),
        (authority, None, ticket_and_key(TICKET, KEY.1)),
        // It is not asked for.
        (authority, Some(running.authority.node_pair()), access_key()),
    ] {
        let (node, _events) = start(running.transport(trust, own), config(credential));
        assert_eq!(answered(&node).await, Ok(()));
    }
    let claims = running.service().claims.lock();
    assert!(claims.iter().all(|(_, node)| node == "node-a"));
    let both = Claim::TicketAndKey { ticket: TICKET.into(), access_key: KEY.0.to_owned() };
    assert!(claims.iter().any(|(claim, _)| *claim == both));
}

#[tokio::test]
async fn a_listener_with_an_authority_for_nodes_admits_nobody_without_its_certificate() {
    let running = Running::asking().await;
    let ours = Trust::Authority(running.authority.pem.as_bytes());
    let own = running.authority.node_pair();
    for credential in [access_key(), Credential::Ticket(TICKET.into()), Credential::Certificate] {
        let (node, _events) = start(running.transport(ours, Some(own)), config(credential));
        assert_eq!(answered(&node).await, Ok(()));
    }
    assert!(running.service().claims.lock().iter().any(|(claim, _)| matches!(claim, Claim::Certificate(_))));
    let admitted = running.service().claims.lock().len();
    let other = Authority::new();
    for (own, words) in [
        (None, "--cert and --key"),
        (Some(other.node_pair()), "not of the authority"),
        // A certificate of the authority, for a server.
        (Some(running.authority.pair()), "for client authentication"),
    ] {
        let (_node, mut events) = start(running.transport(ours, own), config(access_key()));
        let refused = refusal(&mut events).await;
        assert!(refused.reason == Reason::Unproven && refused.message.contains(words), "{words}: {refused}");
    }
    assert_eq!(running.service().claims.lock().len(), admitted, "nothing of them was read");
}

#[tokio::test]
async fn a_wrong_secret_and_an_unknown_key_are_refused_in_the_same_words() {
    let running = Running::start().await;
    let mut words = Vec::new();
    for (id, secret) in [(KEY.0, "wrong"), ("AKIDUNKNOWN", KEY.1), ("AKIDUNKNOWN", "")] {
        let credential = Credential::AccessKey { id: id.to_owned(), secret: Secret::new(secret) };
        let (node, mut events) = start(running.trusted(), config(credential));
        let refused = refusal(&mut events).await;
        assert_eq!(refused.reason, Reason::Credential);
        assert!(matches!(answered(&node).await, Err(CallError::Refused(_))));
        words.push(refused.message);
    }
    words.dedup();
    assert_eq!(words.len(), 1, "{words:?}");
    let (_node, mut events) = start(running.trusted(), config(Credential::Ticket("another".into())));
    assert_eq!(refusal(&mut events).await.reason, Reason::Credential);
    let (_node, mut events) = start(running.trusted(), config(Credential::Certificate));
    assert_eq!(refusal(&mut events).await.reason, Reason::Credential, "no certificate was shown");
    assert!(running.service().claims.lock().is_empty());
}

#[tokio::test]
async fn a_ticket_and_a_key_have_to_be_valid_both() {
    let running = Running::start().await;
    for (ticket, secret) in [(TICKET, "wrong"), (TICKET, ""), (b"another", KEY.1)] {
        let (node, mut events) = start(running.trusted(), config(ticket_and_key(ticket, secret)));
        assert_eq!(refusal(&mut events).await.reason, Reason::Credential);
        assert!(answered(&node).await.is_err());
    }
    assert!(running.service().claims.lock().is_empty());
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_spoken_to() {
    let running = Running::start().await;
    let other = Authority::new();
    let transport = running.transport(Trust::Authority(other.pem.as_bytes()), None);
    let patience = Config { wait: Duration::from_millis(300), ..config(Credential::Ticket(TICKET.into())) };
    let (node, _events) = start(transport, patience);
    assert!(matches!(answered(&node).await, Err(CallError::NotSent(_))));
    assert!(running.service().claims.lock().is_empty(), "no ticket was sent");
}

#[tokio::test]
async fn a_ticket_is_never_shown_to_a_server_that_no_authority_vouches_for() {
    let running = Running::start().await;
    let (events, _received) = tokio::sync::mpsc::channel(1);
    for credential in [Credential::Ticket(TICKET.into()), ticket_and_key(TICKET, KEY.1)] {
        let transport = running.transport(Trust::AccessKey, None);
        let made = Client::start(transport, config(credential), &events, &random(1));
        assert_eq!(made.err(), Some(Unproven));
    }
}

/// A server with a certificate of its own, which ends every session that is named to it.
async fn forge(refusal: &Refusal) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of loopback");
    let address = listener.local_addr().expect("the port");
    let acceptor = Acceptor::new(Authority::new().pair(), None).expect("TLS");
    let frame = Frame::new(Kind::Refusal, Role::Calls, refusal.encode());
    tokio::spawn(async move {
        let limit = Duration::from_secs(5);
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut accepted) = acceptor.accept(socket).await else { continue };
            let hello = read_frame(&mut accepted.stream, Bounds::HANDSHAKE, Pace { idle: limit, frame: limit }).await;
            if hello.is_ok() {
                // The node may have hung up.
                let _ = write_frame(&mut accepted.stream, &frame, limit).await;
            }
        }
    });
    address
}

#[tokio::test]
async fn a_refusal_by_a_server_that_has_not_proven_itself_is_no_end() {
    let running = Running::start().await;
    for reason in [Reason::Session, Reason::Credential, Reason::Version] {
        let forger = forge(&Refusal::new(reason, "the session is fenced")).await;
        let Tls { connector, .. } = running.transport(Trust::AccessKey, None);
        let (node, mut events) = start(Tls { server: forger.to_string(), connector }, config(access_key()));
        let refused = refusal(&mut events).await;
        assert_eq!(refused.reason, Reason::Unproven, "it may be anybody on the way to the store");
        assert!(refused.passes() && refused.message.contains("the session is fenced"), "{refused}");
        assert!(timeout(Duration::from_millis(100), answered(&node)).await.is_err(), "calls wait for the store");
    }
}

/// The refusal that a node shows for a server whose certificate was issued so many days ago, and that it reaches by this name.
async fn told(name: &'static str, issued_days_ago: i64, trusts: Option<&Authority>) -> Refusal {
    let authority = Authority::issued(issued_days_ago);
    let acceptor = Acceptor::new(authority.pair(), None).expect("TLS");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of loopback");
    let server = listener.local_addr().expect("the port").to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            drop(acceptor.accept(socket).await);
        }
    });
    let trust = Trust::Authority(trusts.unwrap_or(&authority).pem.as_bytes());
    let connector = Connector::new(name.try_into().expect("a name"), trust, None).expect("TLS");
    let (_node, mut events) = start(Tls { server, connector }, config(Credential::Ticket(TICKET.into())));
    refusal(&mut events).await
}

#[tokio::test]
async fn a_certificate_that_is_refused_is_named_with_what_to_do() {
    for (refused, words) in [
        (told("localhost", 200, None).await, "has expired"),
        (told("localhost", -20, None).await, "is not valid yet"),
        (told("other.example", 0, None).await, "does not have the name"),
        (told("localhost", 0, Some(&Authority::new())).await, "is not of the given authority"),
    ] {
        assert!(refused.reason == Reason::Unproven && refused.message.contains(words), "{words}: {refused}");
    }
}

#[test]
fn a_certificate_and_a_key_that_do_not_belong_together_are_refused_and_the_expiry_is_known() {
    let (one, other) = (Authority::issued(0), Authority::issued(80));
    let mixed = Pair { chain_pem: one.chain.as_bytes(), key_pem: other.key.as_bytes() };
    assert!(matches!(Acceptor::new(mixed, None), Err(Error::Mismatch)));
    let acceptor = Acceptor::new(one.pair(), None).expect("TLS");
    let later = acceptor.expiry().expect("an expiry");
    assert!(matches!(acceptor.replace(mixed, None), Err(Error::Mismatch)));
    assert_eq!(acceptor.expiry(), Some(later), "the pair in use stays");
    acceptor.replace(other.pair(), None).expect("a pair");
    assert_eq!(acceptor.expiry().map(|earlier| (later - earlier + 3600) / 86_400), Some(80));
}

/// A man in the middle with a certificate of his own, who passes on what both sides say.
async fn relay(to: std::net::SocketAddr, authority: Authority) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of loopback");
    let address = listener.local_addr().expect("the port");
    tokio::spawn(async move {
        let acceptor = Acceptor::new(authority.pair(), None).expect("TLS");
        let name = "localhost".try_into().expect("a name");
        let connector = Connector::new(name, Trust::AccessKey, None).expect("TLS");
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, connector) = (acceptor.clone(), connector.clone());
            tokio::spawn(async move {
                let mut node = acceptor.accept(socket).await.expect("the node accepts any certificate").stream;
                let (mut store, _) = connector.connect(to).await.expect("the store accepts any client");
                // It ends when either side hangs up.
                let _ = copy_bidirectional(&mut node, &mut store).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_man_in_the_middle_can_relay_no_proof() {
    let running = Running::start().await;
    let middle = relay(running.address, Authority::new()).await;
    let direct = running.transport(Trust::AccessKey, None);
    let relayed = Tls { server: middle.to_string(), connector: direct.connector };
    let (node, mut events) = start(relayed, config(access_key()));
    let refused = refusal(&mut events).await;
    assert_eq!(refused.reason, Reason::Unproven);
    assert!(refused.message.contains("its secret is wrong"), "the store sees another binding: {refused}");
    assert!(timeout(Duration::from_millis(100), answered(&node)).await.is_err(), "the node goes on trying");
    assert!(running.service().claims.lock().is_empty());
}

#[tokio::test]
async fn a_server_that_does_not_know_the_secret_is_an_impostor() {
    use crate::hello::{Challenge, Welcome};
    use prost::Message as _;

    let (mut ours, mut theirs) = duplex(1 << 16);
    let limit = Duration::from_secs(5);
    let impostor = async {
        let pace = Pace { idle: limit, frame: limit };
        read_frame(&mut theirs, Bounds::HANDSHAKE, pace).await.expect("a hello");
        let challenge = Challenge { version: 1, features: 0, nonce: vec![1; 32].into() }.encode_to_vec();
        write_frame(&mut theirs, &Frame::new(Kind::Challenge, Role::Calls, challenge), limit).await.expect("sent");
        let proof = read_frame(&mut theirs, Bounds::HANDSHAKE, pace).await.expect("a proof");
        // The node's own proof, reflected.
        let mac = crate::hello::proof(&proof.head).expect("a proof").mac;
        let welcome = Welcome { mac, requests: 1, idle_ms: 1000 }.encode_to_vec();
        write_frame(&mut theirs, &Frame::new(Kind::Welcome, Role::Calls, welcome), limit).await.expect("sent");
    };
    let shown = Shown::AccessKey(KEY.0.to_owned());
    let (versions, nonce) = (Versions { min: 1, max: 1 }, vec![2; 32].into());
    let hello = Hello { versions, features: 0, node: "node-a".to_owned(), session: Bytes::new(), nonce, shown };
    let binding = Binding::new([3; 32]);
    let bound = Bound { stream: &mut ours, binding: &binding };
    let key = access_key();
    let (admitted, ()) = tokio::join!(introduce(bound, Role::Calls, &hello, &key, limit), impostor);
    assert!(matches!(admitted, Err(Failed::Impostor)));
}

#[tokio::test]
async fn neighbouring_versions_work_both_ways_and_distant_ones_are_named() {
    let release = |max: u32| Versions { min: max - 1, max };
    for (store, node, works) in [(5, 5, true), (5, 6, true), (6, 5, true), (5, 7, false), (8, 5, false)] {
        let running = Running::with(release(store), Limits::default()).await;
        let speaking = Config { versions: release(node), ..config(access_key()) };
        let (node, mut events) = start(running.trusted(), speaking);
        if works {
            event(&mut events, |event| matches!(event, Event::Connected(_)).then_some(())).await;
            assert_eq!(answered(&node).await, Ok(()));
        } else {
            let refused = refusal(&mut events).await;
            assert_eq!((refused.reason, refused.versions), (Reason::Version, Some(release(store))));
            assert!(refused.message.contains(&release(store).to_string()), "{refused}");
        }
    }
}
