//! A listener on loopback, and nodes that connect to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use node_certificate::{Authority, Timestamp};
use node_client::{Options, Remote};
use node_server::{Clock, Opening, Server, Settings, Stats, StoredSession};
use node_session::{Boot, Incarnation, Moment, SessionId, Terms};
use node_wire::Random;
use node_wire::client::{Config, Tls};
use node_wire::credential::Credential;
use node_wire::tls::{Acceptor, Connector, Pair, Trust};
use objstore_files::FileService;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::link::{Fragile, Weather};
use crate::store::{Memory, Plain, Tickets};

/// A listener of a store on loopback, in a runtime of its own.
pub struct Loopback {
    running: Mutex<Option<Running>>,
    tickets: Arc<Tickets>,
    terms: Terms,
    patience: Duration,
    journals: Option<PathBuf>,
    certificate: Certificate,
    clock: Clock,
    random: Random,
    last: AtomicU64,
    /// The number of the latest connection.
    latest: Mutex<u64>,
    runtime: Runtime,
}

struct Certificate {
    authority: String,
    chain: String,
    key: String,
}

struct Running {
    server: Arc<Server<Memory>>,
    store: Arc<Memory>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Default for Loopback {
    fn default() -> Self {
        Self::new(Terms::default())
    }
}

impl Loopback {
    /// A listener whose sessions have these terms.
    pub fn new(terms: Terms) -> Self {
        Self::patient(terms, terms.lease)
    }

    /// A listener whose nodes wait so long for it, also if that is longer than the lease.
    pub fn patient(terms: Terms, patience: Duration) -> Self {
        let start = Instant::now();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let loopback = Self {
            running: Mutex::new(None),
            tickets: Arc::default(),
            terms,
            patience,
            journals: None,
            certificate: certificate(),
            clock: Arc::new(move || Moment::after_start(start.elapsed())),
            random: random(),
            last: AtomicU64::new(0),
            latest: Mutex::new(0),
            runtime: runtime.expect("a runtime"),
        };
        loopback.start("127.0.0.1:0".parse().expect("an address"));
        loopback
    }

    /// Nodes keep journals in this folder: they answer changes ahead of the store, if it leases volumes.
    #[must_use]
    pub fn with_journals(mut self, folder: impl Into<PathBuf>) -> Self {
        self.journals = Some(folder.into());
        self
    }

    fn start(&self, address: SocketAddr) {
        let boot = Boot(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (tickets, terms) = (Arc::clone(&self.tickets), self.terms);
        let store = Arc::new(Memory { boot, terms, tickets, sessions: Mutex::default() });
        let settings = Settings { look: terms.lease / 50, terms, ..Settings::default() };
        let (clock, random) = (Arc::clone(&self.clock), Arc::clone(&self.random));
        let server = Arc::new(Server::new(Arc::clone(&store), settings, clock, random));
        let Certificate { chain, key, .. } = &self.certificate;
        let pair = Pair { chain_pem: chain.as_bytes(), key_pem: key.as_bytes() };
        let tls = Acceptor::new(pair, None).expect("TLS");
        let listener = self.runtime.block_on(TcpListener::bind(address)).expect("a port of loopback");
        let address = listener.local_addr().expect("the port");
        let stop = watch::Sender::new(false);
        let (serving, mut stopped) = (Arc::clone(&server), stop.subscribe());
        let task = self.runtime.spawn(async move {
            let stopped = async { drop(stopped.wait_for(|stop| *stop).await) };
            serving.serve(listener, tls, stopped).await.expect("the listener works");
        });
        *self.running.lock() = Some(Running { server, store, address, stop, task });
    }

    /// Ends the listener with all that it has in memory, and starts the next one on the same port after a while.
    pub fn restart(&self, after: Duration) {
        let Running { store, address, stop, task, server } = self.running.lock().take().expect("a listener");
        stop.send_replace(true);
        self.runtime.block_on(task).expect("the listener ended");
        drop(server);
        store.sessions.lock().clear();
        std::thread::sleep(after);
        self.start(address);
    }

    /// The counts of the listener.
    pub fn stats(&self) -> Stats {
        self.running.lock().as_ref().expect("a listener").server.stats()
    }

    /// Why the sessions ended that did, the last one first.
    pub fn ended(&self) -> Vec<&'static str> {
        let ended = self.running.lock().as_ref().expect("a listener").server.ended();
        ended.into_iter().map(|session| session.why.name()).collect()
    }

    /// The sessions as operators are shown them: how they stand, their connections and reconnections.
    pub fn shown(&self) -> Vec<(&'static str, usize, u64)> {
        let sessions = self.running.lock().as_ref().expect("a listener").server.sessions();
        let shown =
            |session: &node_server::SessionShown| (session.state.name(), session.connections.len(), session.reconnects);
        sessions.iter().map(shown).collect()
    }

    /// A node's session, whose files are served by what the store has opened.
    pub fn serve(&self, files: impl FileService + 'static) -> Remote {
        let files: Mutex<Option<Box<dyn FileService>>> = Mutex::new(Some(Box::new(files)));
        self.connect(move |_| files.lock().take(), &Weather::default())
    }

    /// A node's session over connections in this weather. Its files are opened by `files`, again after a restart of the
    /// listener.
    pub fn connect(
        &self,
        files: impl Fn(&Opening) -> Option<Box<dyn FileService>> + Send + Sync + 'static,
        weather: &Weather,
    ) -> Remote {
        let session =
            move |opening: &Opening| files(opening).map(|files| Arc::new(Plain(files)) as Arc<dyn StoredSession>);
        self.connect_session(session, weather)
    }

    /// A node's session over connections in this weather, as the store has it.
    pub fn connect_session(
        &self,
        files: impl Fn(&Opening) -> Option<Arc<dyn StoredSession>> + Send + Sync + 'static,
        weather: &Weather,
    ) -> Remote {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        self.tickets.0.lock().insert(ticket(number), Box::new(files));
        *self.latest.lock() = number;
        self.open(number, Incarnation(1), weather)
    }

    /// The session of the latest connection, opened again by a later process of its node.
    pub fn succeed(&self) -> Remote {
        let number = *self.latest.lock();
        self.open(number, Incarnation(2), &Weather::default())
    }

    /// The session of the latest connection, opened by the process of its node with this number, in some weather.
    pub fn succeed_as(&self, incarnation: u64, weather: &Weather) -> Remote {
        let number = *self.latest.lock();
        self.open(number, Incarnation(incarnation), weather)
    }

    fn open(&self, number: u64, incarnation: Incarnation, weather: &Weather) -> Remote {
        let name = ServerName::try_from("localhost").expect("a name");
        let trust = Trust::Authority(self.certificate.authority.as_bytes());
        let connector = Connector::new(name, trust, None).expect("TLS");
        let address = self.running.lock().as_ref().expect("a listener").address;
        let tls = Tls { server: address.to_string(), connector };
        let config = Config {
            wait: Duration::from_millis(200),
            pauses: (Duration::from_millis(2), Duration::from_millis(20)),
            ..Config::new("node-a", Bytes::new(), Credential::Ticket(ticket(number)))
        };
        let options = Options {
            session: SessionId(number.into()),
            incarnation,
            resumes: incarnation > Incarnation(1),
            bucket: String::new(),
            prefix: String::new(),
            read_only: false,
            kept: None,
            journal: self.journals.as_ref().map(|folder| folder.join(number.to_string())),
            limit: Duration::from_secs(20),
            patience: self.patience,
            clock: Arc::clone(&self.clock),
        };
        let transport = Fragile { tls, weather: weather.clone() };
        self.runtime.block_on(node_client::open(transport, config, options, &self.random)).expect("a session")
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().take() {
            running.stop.send_replace(true);
        }
    }
}

fn ticket(number: u64) -> Bytes {
    format!("ticket {number}").into()
}

fn certificate() -> Certificate {
    #[expect(clippy::disallowed_methods, reason = "the TLS library compares with the time of the system")]
    let now = Timestamp::from(std::time::SystemTime::now());
    let authority = Authority::in_memory(now).expect("an authority");
    let issued = authority.issue(&["localhost".to_owned()], now).expect("a certificate");
    Certificate {
        authority: authority.certificate_pem().to_owned(),
        chain: issued.chain_pem,
        key: issued.key_pem.to_string(),
    }
}

/// Bytes that differ from call to call: nothing in a test depends on their being unknown.
fn random() -> Random {
    let state = AtomicU64::new(7);
    Arc::new(move |bytes: &mut [u8]| {
        for byte in bytes {
            let step = state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            *byte = step.wrapping_mul(0xBF58_476D_1CE4_E5B9).to_be_bytes()[0];
        }
    })
}
