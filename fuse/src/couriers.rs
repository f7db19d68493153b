//! Threads that drop names from a kernel's cache, each for one directory at a time.
//!
//! - The kernel drops a name under the lock of its directory, for which it may have to wait. One thread waits for each
//!   directory whose lock is held, so that the names of others do not wait with them.
//! - A directory that is waited for takes further names, and its thread drops them as well. Afterwards the thread drops the
//!   directory's listing and attributes: a listing may have been read while the lock was waited for.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The most names that wait for directories before a batch waits for them, also if they have expired.
const WAITING_MAX: usize = 65_536;
/// The most resting threads.
const RESTING_MAX: usize = 4;
/// How long a thread rests before it ends.
const REST: Duration = Duration::from_secs(5);

/// Drops names of one directory, then its listing.
pub(crate) trait Drops: Clone + Send + 'static {
    /// Drops a name.
    fn name(&self, directory: u64, name: &str);
    /// Drops the directory's listing and attributes.
    fn listing(&self, directory: u64);
}

/// The threads, and the names that wait.
pub(crate) struct Couriers<D> {
    drops: D,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// The directories whose names are being dropped, with the names that are not dropped yet.
    waiting: HashMap<u64, BTreeSet<String>>,
    names: usize,
    /// Threads with nothing to do, by their turn.
    resting: Vec<(u64, Sender<u64>)>,
    /// The last turn.
    turn: u64,
}

impl<D: Drops> Couriers<D> {
    pub fn new(drops: D) -> Self {
        Self { drops, shared: Arc::default() }
    }

    /// Begins to drop names of a directory.
    pub fn send(&self, directory: u64, names: impl IntoIterator<Item = String>) {
        let mut state = self.shared.state.lock();
        let is_new = !state.waiting.contains_key(&directory);
        let waiting = state.waiting.entry(directory).or_default();
        let before = waiting.len();
        waiting.extend(names);
        let added = waiting.len() - before;
        state.names += added;
        if !is_new {
            return;
        }
        while let Some((_, thread)) = state.resting.pop() {
            if thread.send(directory).is_ok() {
                return;
            }
        }
        drop(state);
        let (drops, shared) = (self.drops.clone(), Arc::clone(&self.shared));
        let started = std::thread::Builder::new().name("fuse-names".into()).spawn(move || {
            carry(&drops, &shared, directory);
            while let Some(next) = rest(&shared) {
                carry(&drops, &shared, next);
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "there is no thread for a cache invalidation: the others wait for this one");
            carry(&self.drops, &self.shared, directory);
        }
    }

    /// Waits until the names of these directories are dropped; those whose names are not at `until`.
    pub fn wait(&self, directories: &BTreeSet<u64>, until: Instant) -> BTreeSet<u64> {
        let mut state = self.shared.state.lock();
        let left = |state: &State| directories.iter().filter(|at| state.waiting.contains_key(at)).copied().collect();
        loop {
            let rest: BTreeSet<u64> = left(&state);
            if rest.is_empty() || self.shared.done.wait_until(&mut state, until).timed_out() {
                return left(&state);
            }
        }
    }

    /// Whether so many names wait that nothing more may be acknowledged.
    pub fn is_full(&self) -> bool {
        self.shared.state.lock().names > WAITING_MAX
    }
}

/// Drops the names of a directory until there are none left.
fn carry(drops: &impl Drops, shared: &Shared, directory: u64) {
    loop {
        while let Some(name) = next(shared, directory) {
            drops.name(directory, &name);
        }
        drops.listing(directory);
        let mut state = shared.state.lock();
        // A name that was added meanwhile is dropped first.
        if state.waiting.get(&directory).is_none_or(BTreeSet::is_empty) {
            state.waiting.remove(&directory);
            break;
        }
    }
    shared.done.notify_all();
}

/// Takes a name before it is dropped: one that is added again while it is being dropped has to be dropped again.
fn next(shared: &Shared, directory: u64) -> Option<String> {
    let mut state = shared.state.lock();
    let name = state.waiting.get_mut(&directory)?.pop_first()?;
    state.names -= 1;
    Some(name)
}

/// Waits for the next directory; `None` if the thread is not needed any more.
fn rest(shared: &Shared) -> Option<u64> {
    let (sender, next) = channel();
    let turn = {
        let mut state = shared.state.lock();
        if state.resting.len() >= RESTING_MAX {
            return None;
        }
        state.turn += 1;
        let turn = state.turn;
        state.resting.push((turn, sender));
        turn
    };
    match next.recv_timeout(REST) {
        Ok(directory) => Some(directory),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            let mut state = shared.state.lock();
            let at = state.resting.iter().position(|(resting, _)| *resting == turn);
            if let Some(at) = at {
                state.resting.swap_remove(at);
                return None;
            }
            drop(state);
            // It was just given a directory.
            next.recv().ok()
        }
    }
}

impl<D> Drop for Couriers<D> {
    /// Resting threads end.
    fn drop(&mut self) {
        self.shared.state.lock().resting.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;

    /// A kernel in which the lock of directory 1 is held until the sender of `open` is dropped.
    #[derive(Clone)]
    struct Locked {
        open: Arc<Mutex<Receiver<()>>>,
        heard: Sender<String>,
    }

    impl Drops for Locked {
        fn name(&self, directory: u64, name: &str) {
            if directory == 1 {
                let _ = self.open.lock().recv();
            }
            self.heard.send(format!("{directory} {name}")).unwrap();
        }
        fn listing(&self, directory: u64) {
            self.heard.send(format!("{directory}")).unwrap();
        }
    }

    #[test]
    fn a_directory_whose_lock_is_held_holds_up_no_other() {
        let ((held, open), (heard, told)) = (channel(), channel());
        let couriers = Couriers::new(Locked { open: Arc::new(Mutex::new(open)), heard });
        let (all, soon) = (BTreeSet::from([1, 2]), Instant::now() + Duration::from_millis(50));
        couriers.send(1, ["a".to_owned()]);
        couriers.send(2, ["b".to_owned()]);
        assert_eq!(couriers.wait(&BTreeSet::from([2]), Instant::now() + Duration::from_secs(60)), BTreeSet::new());
        assert_eq!(couriers.wait(&all, soon), BTreeSet::from([1]));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["2 b", "2"]);
        couriers.send(1, ["a".to_owned(), "c".to_owned()]);
        drop(held);
        assert_eq!(couriers.wait(&all, Instant::now() + Duration::from_secs(60)), BTreeSet::new());
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["1 a", "1 a", "1 c", "1"], "a name is dropped once more");
        assert!(!couriers.is_full());
    }
}
