//! The volume listener: serves mounts on other machines (`--volume-listen`).
//!
//! - `node/server` has the sessions, their calls and leases; `store` is what it needs of the store, `certificate` is what
//!   the listener shows.
//! - It has a runtime of its own. A session's call may wait for the disk, so calls need many threads, and neither S3 nor
//!   CSI may wait behind them.
//!
//! A crash leaves the recorded sessions to the next process: each gets a lease from its start, and its node resumes it.

mod certificate;
mod store;

use std::sync::Arc;
use std::time::Duration;

use node_server::{EndedSession, Server, SessionShown, Settings, Stats};
use node_session::{Moment, SessionId, Terms};
use node_wire::tls::Acceptor;
use objstore::Store;
use objstore::clock::{Random as _, SystemRandom};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub use certificate::{Certificate, Keeper};
use store::Sessions;

use crate::boot_clock;
use crate::failure::Failure;

/// The most threads that wait for the store: calls, and the ends of sessions, which never wait behind calls.
const BLOCKING_THREADS: usize = 4096;

/// The volume listener of a server. A cheap handle.
#[derive(Clone)]
pub struct Volumes {
    server: Arc<Server<Sessions>>,
    runtime: Arc<Threads>,
}

impl std::fmt::Debug for Volumes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volumes").field("stats", &self.stats()).finish()
    }
}

/// A runtime that is dropped where nothing may wait.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Volumes {
    /// A listener for the sessions of a store, whose leases last so long.
    ///
    /// # Errors
    /// If there are no threads for it.
    pub fn new(store: &Store, lease: Duration) -> Result<Self, Failure> {
        let workers = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("volumes")
            .worker_threads(workers)
            .max_blocking_threads(BLOCKING_THREADS)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("no threads for --volume-listen: {error}")))?;
        let terms = Terms { lease, ..Terms::default() };
        let settings = Settings { terms, look: (lease / 50).min(Settings::default().look), ..Settings::default() };
        let sessions = Arc::new(Sessions::new(store.clone(), terms));
        let server =
            Server::new(sessions, settings, boot_clock::clock(), Arc::new(|bytes: &mut [u8]| SystemRandom.fill(bytes)));
        Ok(Self { server: Arc::new(server), runtime: Arc::new(Threads(Some(runtime))) })
    }

    /// Serves a listener until `shutdown` completes. The sessions are left to the next process.
    ///
    /// # Errors
    /// If the socket fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Acceptor,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let Some(runtime) = &self.runtime.0 else { return Ok(()) };
        let server = Arc::clone(&self.server);
        // The socket belongs to the runtime that registered it.
        let listener = listener.into_std()?;
        let served = runtime.spawn(async move {
            let listener = TcpListener::from_std(listener)?;
            server.serve(listener, tls, shutdown).await
        });
        served.await.map_err(std::io::Error::other)?
    }

    /// The sessions that are served or awaited.
    pub fn sessions(&self) -> Vec<SessionShown> {
        self.server.sessions()
    }

    /// The last sessions that ended, the newest first.
    pub fn ended(&self) -> Vec<EndedSession> {
        self.server.ended()
    }

    /// The time of the clock that the moments of sessions are read from.
    pub fn now(&self) -> Moment {
        self.server.now()
    }

    /// Ends a session: its node gets ESTALE. When this returns, nothing of it is executed any more. It is finished also if
    /// the caller does not wait.
    ///
    /// # Errors
    /// If the listener has no threads any more.
    pub async fn end_session(&self, id: SessionId) -> std::io::Result<()> {
        let stopped = || std::io::Error::other("the volume listener has stopped");
        let runtime = self.runtime.0.as_ref().ok_or_else(stopped)?;
        let server = Arc::clone(&self.server);
        runtime.spawn(async move { server.end_session(id).await }).await.map_err(std::io::Error::other)
    }

    /// Counts for metrics.
    pub fn stats(&self) -> Stats {
        self.server.stats()
    }
}
