//! The listener of a store for nodes, and the ending of sessions whose lease is over.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use node_session::{Moment, SessionId, Terms};
use node_wire::Random;
use node_wire::server::{Limits, Refused};
use node_wire::tls::Acceptor;
use node_wire::traffic::Bytes;
use tokio::net::TcpListener;

use crate::Clock;
use crate::ended::{EndedSession, Why};
use crate::listener::Listener;
use crate::refusals::fenced;
use crate::session::Session;
use crate::shared::{Counters, Shared};
use crate::shown::{self, SessionShown};
use crate::store::Store;
use crate::table::Table;
use crate::workers::Workers;

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Those of its connections.
    pub limits: Limits,
    /// The most open sessions.
    pub sessions: usize,
    /// The threads on which calls wait for the store.
    pub threads: usize,
    /// How many of them one session may use.
    pub threads_per_session: usize,
    /// How often leases are looked at.
    pub look: Duration,
    /// The lease of recorded sessions that have not come back.
    pub terms: Terms,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            sessions: 1024,
            threads: 256,
            threads_per_session: 64,
            look: Duration::from_millis(250),
            terms: Terms::default(),
        }
    }
}

/// Counts of a server, for its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Open sessions.
    pub sessions: u64,
    /// Admitted connections.
    pub connections: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Sessions that were ended because their lease was over.
    pub expired: u64,
    /// Sessions that ended, by [`Why::ALL`].
    pub ended: [u64; Why::ALL.len()],
    /// Connections that were not admitted.
    pub connections_refused: Refused,
    /// Refused openings of sessions by admitted peers.
    pub openings_refused: Refused,
    /// The bytes of admitted connections.
    pub bytes: Bytes,
}

/// The connections of a server.
type Wire<S> = node_wire::server::Server<Listener<S>>;

/// A listener for nodes.
pub struct Server<S: Store> {
    shared: Arc<Shared<S>>,
    wire: Wire<S>,
    look: Duration,
}

impl<S: Store> Server<S> {
    /// A server of this store.
    pub fn new(store: Arc<S>, settings: Settings, clock: Clock, random: Random) -> Self {
        let workers = Workers::new(settings.threads, settings.threads_per_session);
        // Opening and ending never wait behind calls, which may wait for an end.
        let admissions = Workers::new(settings.threads_per_session, settings.threads_per_session).share();
        let endings = Workers::new(settings.sessions, settings.sessions).share();
        let control = Workers::new(settings.sessions, 1);
        let shared = Arc::new(Shared {
            table: Table::new(settings.sessions, store.recorded(), settings.terms, clock()),
            store,
            clock,
            workers,
            control,
            admissions,
            endings,
            counters: Arc::default(),
            connections: Default::default(),
            ended: Default::default(),
        });
        let wire = node_wire::server::Server::new(Listener(Arc::clone(&shared)), settings.limits, 0, random);
        Self { shared, wire, look: settings.look }
    }

    /// Counts for metrics.
    pub fn stats(&self) -> Stats {
        let Counters { answered, refused, expired, openings } = &*self.shared.counters;
        let [answered, refused, expired] = [answered, refused, expired].map(|count| count.load(Ordering::Relaxed));
        let sessions = self.shared.table.count() as u64;
        Stats {
            sessions,
            connections: self.wire.connections() as u64,
            answered,
            refused,
            expired,
            ended: self.shared.ended.counts(),
            connections_refused: self.wire.refused(),
            openings_refused: openings.read(),
            bytes: self.wire.traffic(),
        }
    }

    /// Every session that is open here or awaited, and what this process knows of it.
    pub fn sessions(&self) -> Vec<SessionShown> {
        let now = (self.shared.clock)();
        let (open, awaited) = self.shared.table.all(now);
        let open = open.iter().map(|session| shown::open(session, &self.shared.connections, now));
        open.chain(awaited.into_iter().map(|(id, lease)| shown::awaited(id, lease))).collect()
    }

    /// The last sessions that ended, the newest first.
    pub fn ended(&self) -> Vec<EndedSession> {
        self.shared.ended.last()
    }

    /// The time of the clock that the moments of sessions are read from.
    pub fn now(&self) -> Moment {
        (self.shared.clock)()
    }

    /// Serves a listener until `shutdown` completes. Sessions are then left to the next process.
    ///
    /// # Errors
    /// The listening socket failed.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Acceptor,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let served = tokio::select! {
            served = self.wire.serve(listener, tls, shutdown) => served,
            () = self.end_overdue() => Ok(()),
        };
        for session in self.shared.table.stop() {
            self.shared.admissions.run(move || session.stop()).await;
        }
        served
    }

    /// Ends a session because an administrator wants it. Once this returns, nothing that the node sends is executed.
    pub async fn end_session(&self, id: SessionId) {
        match self.shared.table.find(id) {
            Some(session) => end(&self.shared, &self.wire, &session, Why::Administrator).await,
            None => {
                self.shared.table.forget(id);
                self.shared.end_recorded(id, Why::Administrator).await;
            }
        }
    }

    /// Ends each session whose lease is over, all at the same time: the end of one may wait for a call that waits for
    /// another.
    async fn end_overdue(&self) {
        loop {
            tokio::time::sleep(self.look).await;
            let now = (self.shared.clock)();
            let (over, lost) = self.shared.table.overdue(now);
            self.shared.connections.forget(|id| self.shared.table.find(id).is_some());
            for session in over {
                let why = session.why_overdue(now);
                session.close();
                let (shared, wire) = (Arc::clone(&self.shared), self.wire.clone());
                tokio::spawn(async move {
                    end(&shared, &wire, &session, why).await;
                    shared.counters.expired.fetch_add(1, Ordering::Relaxed);
                });
            }
            for id in lost {
                let shared = Arc::clone(&self.shared);
                tokio::spawn(async move {
                    shared.end_recorded(id, Why::Absent).await;
                    shared.counters.expired.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Ends an open session, and closes its connections.
async fn end<S: Store>(shared: &Arc<Shared<S>>, wire: &Wire<S>, session: &Arc<Session>, why: Why) {
    shared.end(session, why).await;
    wire.end_session(&session.name, &fenced());
}
