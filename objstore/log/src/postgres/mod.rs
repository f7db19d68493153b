//! The log in PostgreSQL: one row for each entry, and one for the owner.
//!
//! - Each statement that changes something locks the owner's row, shared for an append, and names its epoch. A takeover
//!   changes the row, so it waits for appends that have begun, and each later one finds another epoch and inserts nothing.
//! - Leases are measured by the database's clock.
//! - A takeover is acknowledged by the synchronous standby, and so is everything that it has read before.
//! - Entries lie in partitions by number. Trimming drops whole partitions; no entry is deleted, except by a takeover the
//!   few behind a gap.
//!
//! A crash of PostgreSQL, or of its primary and a promotion of the synchronous standby, leaves all acknowledged entries.

mod append;
mod owner;
mod partitions;
mod password;
mod read;
mod schema;
mod session;
mod settings;
mod standing;
mod tls;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, MutexGuard};

use self::append::Lane;
use self::partitions::Partitions;
use self::session::{Session, within};
use self::tls::Tls;
use crate::batch::{Batch, Entry, Limit};
use crate::error::{Error, Result};
use crate::log::{Done, Log};
use crate::owner::{Claim, Epoch, Tail, Tenure};
use crate::standing::Standing;

pub use self::password::Env;
pub use self::settings::{Copies, Settings};

/// For how long entries are read with one connection: it may not know the newest [partition](partitions).
const READ_FOR: Duration = Duration::from_secs(30);

/// A client of a log in PostgreSQL.
pub struct Postgres {
    inner: Arc<Inner>,
    lanes: Vec<Lane>,
    next_lane: AtomicUsize,
    runtime: Option<Runtime>,
}

/// What calls and the tasks that append share.
struct Inner {
    settings: Settings,
    tls: Tls,
    partitions: Partitions,
    /// The connection of everything but appends and renewals.
    control: Mutex<Option<Session>>,
    /// The connection of renewals, which wait for nothing else.
    lease: Mutex<Option<Session>>,
}

impl Postgres {
    /// Connects, and makes or updates the tables and the log if necessary.
    ///
    /// # Errors
    /// - [`Error::Unavailable`]: PostgreSQL cannot be reached.
    /// - [`Error::Unusable`]: it has no synchronous standby, although [`Copies::Replicated`] is asked for, its tables are
    ///   of a newer version, or a setting cannot be used.
    pub fn open(settings: Settings) -> Result<Self> {
        let opened = Self::connect(settings)?;
        opened.call(|inner| async move { inner.prepare().await })?;
        Ok(opened)
    }

    /// Connects to a log that exists, and changes nothing: for reading alone.
    ///
    /// # Errors
    /// Those of [`Postgres::open`], and [`Error::Unusable`] where there is no log.
    pub fn open_existing(settings: Settings) -> Result<Self> {
        let opened = Self::connect(settings)?;
        opened.call(|inner| async move { inner.examine().await })?;
        Ok(opened)
    }

    fn connect(settings: Settings) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("log-postgres").enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::Unavailable { why: format!("no thread for PostgreSQL: {error}") })?;
        let tls = Tls::new(settings.authority.as_deref())?;
        let count = settings.connections.clamp(1, 16);
        let (partitions, control, lease) = (Partitions::default(), Mutex::new(None), Mutex::new(None));
        let inner = Arc::new(Inner { settings, tls, partitions, control, lease });
        let lanes = (0..count).map(|_| Lane::start(&runtime, &inner)).collect();
        Ok(Self { inner, lanes, next_lane: AtomicUsize::new(0), runtime: Some(runtime) })
    }

    /// Runs a call on the engine's own thread, and waits for its outcome.
    fn call<T, F>(&self, call: impl FnOnce(Arc<Inner>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.call_within(self.inner.settings.answer_within, call)
    }

    fn call_within<T, F>(&self, limit: Duration, call: impl FnOnce(Arc<Inner>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (answer, answered) = mpsc::channel();
        let call = call(Arc::clone(&self.inner));
        let lost = |why: &str| Err(Error::Indeterminate { why: why.to_owned() });
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                let outcome = within(limit, call).await;
                drop(answer.send(outcome.unwrap_or_else(|| lost("PostgreSQL did not answer in time"))));
            });
        }
        answered.recv().unwrap_or_else(|_| lost("the call was interrupted"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Without waiting: it may be dropped on a thread of another runtime, which must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    /// Lends the connection for calls, after connecting if necessary.
    async fn lend(&self) -> Result<Lent<'_>> {
        self.control.lock().await.take_if(|session| session.age() > READ_FOR);
        self.lend_from(&self.control).await
    }

    /// Lends a new connection, which takes the place of the one for calls.
    async fn lend_new(&self) -> Result<Lent<'_>> {
        let mut place = self.control.lock().await;
        *place = None;
        Ok(Lent { session: Session::open(&self.settings, &self.tls).await?, place })
    }

    async fn lend_from<'a>(&self, place: &'a Mutex<Option<Session>>) -> Result<Lent<'a>> {
        let mut place = place.lock().await;
        let session = match place.take().filter(Session::is_open) {
            Some(session) => session,
            None => Session::open(&self.settings, &self.tls).await?,
        };
        Ok(Lent { session, place })
    }

    async fn prepare(&self) -> Result<()> {
        let mut lent = self.lend().await?;
        let mut outcome = schema::migrate(&mut lent.session.client).await;
        if outcome.is_ok() {
            outcome = owner::create(&lent.session.client, &self.settings).await;
        }
        lent.give_back(outcome)
    }

    async fn examine(&self) -> Result<()> {
        let lent = self.lend().await?;
        let outcome = schema::examine(&lent.session.client).await;
        lent.give_back(outcome)
    }

    fn shard(&self) -> i64 {
        i64::from(self.settings.shard)
    }
}

/// The connection for calls, lent to one. If the call fails, or is interrupted, the connection is closed.
struct Lent<'a> {
    session: Session,
    place: MutexGuard<'a, Option<Session>>,
}

impl Lent<'_> {
    /// Returns the connection after a call with this outcome, and corrects the outcome after a warning.
    fn give_back<T>(mut self, outcome: Result<T>) -> Result<T> {
        if self.session.is_warned() {
            let why = "PostgreSQL warned before it acknowledged the change".to_owned();
            return Err(Error::Indeterminate { why });
        }
        if !matches!(outcome, Err(Error::Unavailable { .. } | Error::Indeterminate { .. })) {
            *self.place = Some(self.session);
        }
        outcome
    }
}

impl Log for Postgres {
    fn fence(&self, claim: &Claim) -> Result<Tenure> {
        let claim = claim.clone();
        self.call(|inner| async move { inner.fence(&claim).await })
    }

    fn renew(&self, epoch: Epoch) -> Result<()> {
        let limit = self.inner.settings.renewed_within;
        self.call_within(limit, |inner| async move { inner.renew(epoch).await })
    }

    fn release(&self, epoch: Epoch) -> Result<()> {
        let limit = self.inner.settings.renewed_within;
        self.call_within(limit, |inner| async move { inner.release(epoch).await })
    }

    fn append(&self, batch: Batch, done: Done) {
        if let Err(error) = batch.check() {
            return done(Err(error));
        }
        let lane = self.next_lane.fetch_add(1, Ordering::Relaxed) % self.lanes.len();
        self.lanes[lane].append(batch, done);
    }

    fn read_from(&self, number: u64, limit: Limit) -> Result<Vec<Entry>> {
        self.call(|inner| async move { inner.read_from(number, limit).await })
    }

    fn trim(&self, epoch: Epoch, below: u64) -> Result<()> {
        self.call(|inner| async move { inner.trim(epoch, below).await })
    }

    fn tail(&self) -> Result<Tail> {
        self.call(|inner| async move { inner.tail().await })
    }

    fn announce(&self, server: &str, at: u64) -> Result<()> {
        let server = server.to_owned();
        self.call(|inner| async move { inner.announce(&server, at).await })
    }

    fn standing(&self, within: Duration) -> Result<Standing> {
        self.call(move |inner| async move { inner.standing(within).await })
    }
}

/// A number as PostgreSQL stores it. Numbers and epochs end far below 2^63.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that PostgreSQL stored; none of ours is negative.
fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

#[cfg(test)]
mod tests;
