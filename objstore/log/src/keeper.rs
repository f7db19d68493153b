//! The thread that keeps an owner's lease.
//!
//! - It renews the lease six times within its length, and counts it from when a successful renewal was *sent*, less 5 %
//!   for clocks of different rates: so the owner knows of the end before the log does. Decision 0091 has the reasons.
//! - The owner learns that it has lost the log in one of two ways: another server has raised the epoch, or the lease
//!   ended without a renewal. Both are final: the thread reports the loss once and ends.
//!
//! A crash ends the renewals; other servers wait for the end of the lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::since_boot;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::owner::Epoch;

/// How long the lease of an owner is known to hold.
#[derive(Debug)]
pub struct Term {
    /// Nanoseconds since the machine was started.
    until: AtomicU64,
}

impl Term {
    fn new(until: Duration) -> Self {
        Self { until: AtomicU64::new(nanos(until)) }
    }

    /// Whether the lease is known to hold now.
    pub fn holds(&self) -> bool {
        nanos(since_boot()) < self.until.load(Ordering::Acquire)
    }

    /// How long it will be known to hold without another renewal.
    pub fn remaining(&self) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::Acquire).saturating_sub(nanos(since_boot())))
    }

    /// Whether the lease is known to hold, now or within `limit`: after a pause of the whole process the next renewal
    /// restores it.
    pub fn holds_within(&self, limit: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(5);
        let end = since_boot() + limit;
        while !self.holds() {
            if since_boot() >= end {
                return false;
            }
            std::thread::sleep(STEP);
        }
        true
    }

    fn extend(&self, until: Duration) {
        self.until.store(nanos(until), Ordering::Release);
    }

    /// Ends it: the owner gives the log up.
    pub fn end(&self) {
        self.until.store(0, Ordering::Release);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Renews a lease until it is dropped.
pub struct Keeper {
    term: Arc<Term>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Keeps the lease of `epoch`, which [`Log::fence`] granted for `lease` when it was sent at `sent`
    /// ([`since_boot`]). `lost` receives the reason when the log is lost: [`Error::Fenced`], or
    /// [`Error::Unavailable`] if the lease could not be renewed in time.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the thread cannot be started.
    pub fn start(
        log: Arc<dyn Log>,
        epoch: Epoch,
        (lease, sent): (Duration, Duration),
        lost: impl Fn(Error) + Send + 'static,
    ) -> Result<Self> {
        let term = Arc::new(Term::new(sent + known(lease)));
        let (stop, stopped) = channel();
        let shared = Arc::clone(&term);
        let run = move || {
            if let Some(error) = renew(&*log, (epoch, lease), &shared, &stopped) {
                tracing::warn!(epoch, %error, "this server has lost the log");
                lost(error);
            }
        };
        let thread = std::thread::Builder::new().name("log-lease".into()).spawn(run);
        let thread = thread.map_err(|error| Error::Unavailable { why: format!("no thread for the lease: {error}") })?;
        Ok(Self { term, stop: Some(stop), thread: Some(thread) })
    }

    /// How long the lease is known to hold.
    pub fn term(&self) -> Arc<Term> {
        Arc::clone(&self.term)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A renewal in progress ends by the engine's own limit of time; a panic was reported by the thread.
            let _ = thread.join();
        }
    }
}

/// How much of a lease its owner relies on.
fn known(lease: Duration) -> Duration {
    lease.mul_f64(0.95)
}

/// Renews until it is stopped, or returns why the log is lost.
fn renew(log: &dyn Log, (epoch, lease): (Epoch, Duration), term: &Term, stopped: &Receiver<()>) -> Option<Error> {
    while stopped.recv_timeout(lease / 6) == Err(RecvTimeoutError::Timeout) {
        let sent = since_boot();
        match log.renew(epoch) {
            Ok(()) => term.extend(sent + known(lease)),
            Err(error @ Error::Fenced { .. }) => {
                term.end();
                return Some(error);
            }
            Err(error) => tracing::warn!(epoch, %error, "the lease of the log was not renewed; it is tried again"),
        }
        if !term.holds() {
            let why = format!("the lease of {} ms could not be renewed in time", lease.as_millis());
            return Some(Error::Unavailable { why });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Faults, Memory};
    use crate::owner::{Claim, LogId};

    fn claim(server: &str, lease_ms: u64) -> Claim {
        Claim { server: server.to_owned(), lease: Duration::from_millis(lease_ms) }
    }

    fn kept(log: &Arc<Memory>, claim: &Claim) -> (Epoch, Keeper, Receiver<Error>) {
        let sent = since_boot();
        let epoch = log.fence(claim).unwrap().epoch;
        let (lost, losing) = channel();
        let report = move |error| lost.send(error).unwrap();
        (epoch, Keeper::start(log.clone(), epoch, (claim.lease, sent), report).unwrap(), losing)
    }

    #[test]
    fn a_kept_lease_holds_until_another_server_takes_the_log() {
        let log = Arc::new(Memory::new());
        let claim = claim("a", 3000);
        let (epoch, keeper, losing) = kept(&log, &claim);
        // The log's clock stands still, so only this side's count can end the lease.
        std::thread::sleep(claim.lease + Duration::from_millis(500));
        assert!(keeper.term().holds() && keeper.term().remaining() < claim.lease);
        log.fence(&claim).unwrap();
        assert_eq!(losing.recv().unwrap(), Error::Fenced { epoch });
        assert!(!keeper.term().holds_within(Duration::from_millis(20)));
    }

    #[test]
    fn a_lease_that_cannot_be_renewed_ends_before_the_log_ends_it() {
        let log = Arc::new(Memory::with(LogId([1; 16]), Faults::none()));
        let claim = claim("a", 600);
        let begun = since_boot();
        let (_, keeper, losing) = kept(&log, &claim);
        log.interrupt(true);
        assert!(matches!(losing.recv().unwrap(), Error::Unavailable { .. }));
        assert!(!keeper.term().holds() && since_boot() - begun > claim.lease / 2);
    }
}
