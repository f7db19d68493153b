//! A service of the tests, its certificates, and nodes that connect to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::Random;
use crate::budget::Held;
use crate::client::{Client, Config, Event, Tls};
use crate::credential::{Claim, Credential, Secret};
use crate::header::Role;
use crate::hello::Hello;
use crate::refusal::{Reason, Refusal};
use crate::server::{Limits, Server};
use crate::service::{Answer, Call, Notices, Peer, Reply, Service};
use crate::tls::{Acceptor, Connector, Pair, Trust};
use crate::version::{SPOKEN, Versions};

/// The access key that the service knows, and its secret.
pub(super) const KEY: (&str, &str) = ("AKIDEXAMPLE", "the secret of the access key");
/// The ticket that the service accepts.
pub(super) const TICKET: &[u8] = b"a ticket";

/// A service that echoes, with what it saw.
#[derive(Default)]
pub(super) struct Echo {
    pub(super) claims: Mutex<Vec<(Claim, String)>>,
    pub(super) notices: Mutex<Vec<Bytes>>,
    pub(super) control: Mutex<Option<Notices>>,
    pub(super) running: Arc<AtomicUsize>,
    pub(super) released: Notify,
    /// The memory of calls whose work goes on after their connection.
    pub(super) kept: Mutex<Vec<Held>>,
}

/// Counts a call that runs until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Echo {
    type Identity = ();

    async fn secret(&self, access_key: &str) -> Option<Secret> {
        (access_key == KEY.0).then(|| Secret::new(KEY.1))
    }

    async fn admit(&self, claim: Claim, hello: &Hello, _: Role, _: Option<Bytes>) -> Result<(), Refusal> {
        if claim.ticket().is_some_and(|ticket| ticket != TICKET) {
            return Err(Refusal::new(Reason::Credential, "the ticket is not valid: publish the volume again"));
        }
        self.claims.lock().push((claim, hello.node.clone()));
        Ok(())
    }

    fn connected(&self, peer: &Arc<Peer<()>>, notices: Notices) {
        if peer.role == Role::Control {
            *self.control.lock() = Some(notices);
        }
    }

    /// `wait` waits until it is released, `keep` goes on for ever, `first` answers late, `long` answers too much; all else echoes.
    async fn call(&self, _peer: Arc<Peer<()>>, call: Call, reply: Reply) {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _counted = Counted(Arc::clone(&self.running));
        reply.send(self.answer(call).await);
    }

    async fn notice(&self, _peer: &Peer<()>, head: Bytes) {
        self.notices.lock().push(head);
    }
}

impl Echo {
    async fn answer(&self, call: Call) -> Result<Answer, Refusal> {
        match &call.head[..] {
            b"wait" => self.released.notified().await,
            b"keep" => {
                self.kept.lock().push(call.memory.clone());
                std::future::pending::<()>().await;
            }
            b"first" => tokio::time::sleep(Duration::from_millis(50)).await,
            b"refuse" => return Err(Refusal::new(Reason::Session, "the session is fenced")),
            b"long" => return Ok(Answer { head: call.head, payload: vec![0; call.reply_bytes as usize + 1].into() }),
            _ => {}
        }
        Ok(Answer { head: call.head, payload: call.payload })
    }
}

/// Random bytes that a seed repeats.
pub(super) fn random(seed: u64) -> Random {
    let state = AtomicU64::new(seed);
    Arc::new(move |bytes: &mut [u8]| {
        for byte in bytes {
            let step = state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            *byte = (step.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56) as u8;
        }
    })
}

/// An authority whose key is in memory alone.
pub(super) struct Authority {
    pub(super) pem: String,
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) node: (String, String),
}

impl Authority {
    pub(super) fn new() -> Self {
        Self::issued(0)
    }

    /// An authority that issued its certificates so many days ago.
    pub(super) fn issued(days_ago: i64) -> Self {
        let made = node_certificate::Authority::in_memory(node_certificate::Timestamp::from_parts(1_700_000_000, 0));
        let made = made.expect("an authority");
        let now = node_certificate::Timestamp::from(
            #[expect(clippy::disallowed_methods, reason = "the TLS library compares with the time of the system")]
            std::time::SystemTime::now(),
        );
        let now = node_certificate::Timestamp::from_parts(now.parts().0 - days_ago * 86_400, 0);
        let issued = made.issue(&["localhost".to_owned(), "127.0.0.1".to_owned()], now).expect("a certificate");
        let node = made.issue_node("node-a", now).expect("a certificate");
        Self {
            pem: made.certificate_pem().to_owned(),
            chain: issued.chain_pem,
            key: issued.key_pem.to_string(),
            node: (node.chain_pem, node.key_pem.to_string()),
        }
    }

    pub(super) fn pair(&self) -> Pair<'_> {
        Pair { chain_pem: self.chain.as_bytes(), key_pem: self.key.as_bytes() }
    }

    pub(super) fn node_pair(&self) -> Pair<'_> {
        Pair { chain_pem: self.node.0.as_bytes(), key_pem: self.node.1.as_bytes() }
    }
}

/// A server on loopback.
pub(super) struct Running {
    pub(super) server: Server<Echo>,
    pub(super) address: SocketAddr,
    pub(super) authority: Authority,
    stop: watch::Sender<bool>,
}

impl Running {
    pub(super) async fn start() -> Self {
        Self::with(SPOKEN, Limits::default()).await
    }

    pub(super) async fn with(versions: Versions, limits: Limits) -> Self {
        Self::listening(versions, limits, false).await
    }

    /// A listener that asks each node for a certificate of its own authority.
    pub(super) async fn asking() -> Self {
        Self::listening(SPOKEN, Limits::default(), true).await
    }

    async fn listening(versions: Versions, limits: Limits, asks: bool) -> Self {
        let authority = Authority::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of loopback");
        let address = listener.local_addr().expect("the port");
        let nodes = asks.then_some(authority.pem.as_bytes());
        let tls = Acceptor::new(authority.pair(), nodes).expect("TLS");
        let server = Server::speaking(versions, Echo::default(), limits, 0b011, random(1));
        let stop = watch::Sender::new(false);
        let (serving, mut stopped) = (server.clone(), stop.subscribe());
        tokio::spawn(async move {
            let stopped = async { drop(stopped.wait_for(|stop| *stop).await) };
            serving.serve(listener, tls, stopped).await
        });
        Self { server, address, authority, stop }
    }

    pub(super) fn service(&self) -> &Echo {
        self.server.service()
    }

    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn transport(&self, trust: Trust<'_>, own: Option<Pair<'_>>) -> Tls {
        let name = ServerName::try_from("localhost").expect("a name");
        Tls { server: self.address.to_string(), connector: Connector::new(name, trust, own).expect("TLS") }
    }

    pub(super) fn trusted(&self) -> Tls {
        self.transport(Trust::Authority(self.authority.pem.as_bytes()), None)
    }

    /// A node that is admitted by the access key.
    pub(super) fn node(&self) -> (Client, mpsc::Receiver<Event>) {
        start(self.trusted(), config(access_key()))
    }
}

pub(super) fn access_key() -> Credential {
    Credential::AccessKey { id: KEY.0.to_owned(), secret: Secret::new(KEY.1) }
}

/// A node with short timeouts, so that tests are quick.
pub(super) fn config(credential: Credential) -> Config {
    Config {
        wait: Duration::from_secs(5),
        pauses: (Duration::from_millis(5), Duration::from_millis(50)),
        ..Config::new("node-a", "session".into(), credential)
    }
}

pub(super) fn start(transport: Tls, config: Config) -> (Client, mpsc::Receiver<Event>) {
    let (events, received) = mpsc::channel(64);
    (Client::start(transport, config, &events, &random(2)).expect("a client"), received)
}

/// The next event that `wanted` picks.
pub(super) async fn event<T>(events: &mut mpsc::Receiver<Event>, wanted: impl Fn(Event) -> Option<T>) -> T {
    let next = async {
        loop {
            if let Some(found) = wanted(events.recv().await.expect("the client runs")) {
                return found;
            }
        }
    };
    timeout(Duration::from_secs(10), next).await.expect("the event happens")
}

/// The refusal of a connection.
pub(super) async fn refusal(events: &mut mpsc::Receiver<Event>) -> Refusal {
    let refused = |event| match event {
        Event::Refused(_, refusal) => Some(refusal),
        _ => None,
    };
    event(events, refused).await
}

/// Waits until something holds.
pub(super) async fn until(holds: impl Fn() -> bool) {
    let poll = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(10), poll).await.expect("it holds after a while");
}
