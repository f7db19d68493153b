//! The thread that keeps an owner's lease.
//!
//! - It renews the lease six times within its length, and counts it from when a successful renewal was *sent*, less 5 %
//!   for clocks of different rates: so the owner knows of the end before the log does. Decision 0091 has the reasons.
//! - While the lease is not known to hold, [`Keeper::holds`] is false, and renewals continue: if no other server has
//!   taken the log over, the next one that succeeds restores it.
//!
//! A crash ends the renewals; other servers wait for the end of the lease.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::log::Log;
use crate::owner::Epoch;

/// Renews a lease until it is dropped.
pub struct Keeper {
    until: Arc<Mutex<Instant>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Keeps the lease of `epoch`, which [`Log::fence`] granted for `lease` when it was sent at `sent`. `fenced`
    /// receives the error when another server has taken the log over.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the thread cannot be started.
    pub fn start(
        log: Arc<dyn Log>,
        epoch: Epoch,
        (lease, sent): (Duration, Instant),
        fenced: impl Fn(Error) + Send + 'static,
    ) -> Result<Self> {
        let until = Arc::new(Mutex::new(sent + known(lease)));
        let (stop, stopped) = channel();
        let shared = Arc::clone(&until);
        let run = move || renew(&*log, epoch, lease, &shared, &stopped, &fenced);
        let thread = std::thread::Builder::new().name("log-lease".into()).spawn(run);
        let thread = thread.map_err(|error| Error::Unavailable { why: format!("no thread for the lease: {error}") })?;
        Ok(Self { until, stop: Some(stop), thread: Some(thread) })
    }

    /// Whether the lease is known to hold.
    pub fn holds(&self) -> bool {
        Instant::now() < *self.until.lock()
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

fn renew(
    log: &dyn Log,
    epoch: Epoch,
    lease: Duration,
    until: &Mutex<Instant>,
    stopped: &Receiver<()>,
    fenced: &dyn Fn(Error),
) {
    while stopped.recv_timeout(lease / 6) == Err(RecvTimeoutError::Timeout) {
        let sent = Instant::now();
        match log.renew(epoch) {
            Ok(()) => *until.lock() = sent + known(lease),
            Err(error @ Error::Fenced { .. }) => {
                tracing::warn!(epoch, "another server has taken the log over; this one writes nothing more");
                *until.lock() = sent;
                return fenced(error);
            }
            Err(error) => tracing::warn!(epoch, %error, "the lease of the log was not renewed; it is tried again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::owner::Claim;

    fn claim(server: &str) -> Claim {
        Claim { server: server.to_owned(), lease: Duration::from_millis(60) }
    }

    #[test]
    fn a_kept_lease_holds_until_another_server_takes_the_log() {
        let log = Arc::new(Memory::new());
        let sent = Instant::now();
        let epoch = log.fence(&claim("a")).unwrap().epoch;
        let (lost, losing) = channel();
        let keeper = Keeper::start(log.clone(), epoch, (claim("a").lease, sent), move |error| {
            lost.send(error).unwrap();
        });
        let keeper = keeper.unwrap();
        // The log's clock stands still, so only this side's count can end the lease.
        std::thread::sleep(Duration::from_millis(200));
        let renewed = Instant::now() + Duration::from_secs(10);
        while !keeper.holds() {
            assert!(Instant::now() < renewed, "the lease is renewed");
        }
        log.fence(&claim("a")).unwrap();
        assert_eq!(losing.recv().unwrap(), Error::Fenced { epoch });
        assert!(!keeper.holds());
    }
}
