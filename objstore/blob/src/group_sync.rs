//! Group sync: one sync for all concurrent callers.
//!
//! - A caller returns only after a sync that began after its call.
//! - At most one sync runs; callers that arrive meanwhile share the next one.
//! - A failure is permanent: every later caller gets it too.

use parking_lot::{Condvar, Mutex};

use objstore_base::error::{Error, Result};

#[derive(Default)]
struct Rounds {
    begun: u64,
    done: u64,
    running: bool,
    failure: Option<Error>,
}

/// Combines concurrent syncs of the same file or folder.
#[derive(Default)]
pub(super) struct GroupSync {
    rounds: Mutex<Rounds>,
    ended: Condvar,
}

impl GroupSync {
    /// Returns after a `sync` that began after this call, made by this thread or another.
    pub(super) fn run(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut rounds = self.rounds.lock();
        // The sync in progress may have begun before the caller's change.
        let mine = rounds.begun + 1;
        while rounds.running && rounds.done < mine {
            self.ended.wait(&mut rounds);
        }
        if rounds.done < mine && rounds.failure.is_none() {
            rounds.begun += 1;
            rounds.running = true;
            let result = parking_lot::MutexGuard::unlocked(&mut rounds, sync);
            rounds.running = false;
            rounds.done = rounds.begun;
            rounds.failure = result.err();
            self.ended.notify_all();
        }
        rounds.failure.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn concurrent_callers_share_syncs_and_each_sees_one_that_began_after_its_call() {
        let group = Arc::new(GroupSync::default());
        let (begun, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let synced = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..32)
            .map(|_| {
                let (group, begun, written, synced) = (group.clone(), begun.clone(), written.clone(), synced.clone());
                thread::spawn(move || {
                    let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                    let sync = || {
                        begun.fetch_add(1, Ordering::SeqCst);
                        let covered = written.load(Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(5));
                        synced.fetch_max(covered, Ordering::SeqCst);
                        Ok(())
                    };
                    group.run(sync).unwrap();
                    assert!(synced.load(Ordering::SeqCst) >= mine);
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
        assert!(begun.load(Ordering::SeqCst) < 32, "no sync was shared");
    }

    #[test]
    fn a_failure_reaches_every_later_caller() {
        let group = GroupSync::default();
        let failure = || Err(Error::io("syncing", std::io::Error::from_raw_os_error(5)));
        assert!(group.run(failure).is_err());
        assert!(group.run(|| Ok(())).is_err());
    }
}
