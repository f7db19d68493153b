//! The nodes that a kernel may have cached, for a session that can be cut off from its store: then all are dropped.
//!
//! - A session that is never cut off needs no such table. Neither is there one for a mount that an earlier process served:
//!   what that process answered is not known, so such a mount is ended when it is cut off for longer than its lease.
//! - A page that a program is just reading is locked until the store answers, which may take as long as the cut. Its node is
//!   waited for as long as the lease lasts, since nobody else may change what the page shows until then; all other nodes are
//!   dropped meanwhile, by further threads. A mount whose pages cannot be dropped in time is ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use objstore_files::FileSession;
use parking_lot::Mutex;

/// How long the kernel may take to drop everything, if the lease does not last longer.
const DROPPING: Duration = Duration::from_secs(2);
/// The threads that drop nodes, and the most of them while some wait for pages.
const THREADS: (usize, usize) = (4, 32);
/// After how long without an end another thread is started.
const STUCK: Duration = Duration::from_millis(50);

/// The nodes, if they are counted.
pub(crate) struct Known(Option<Mutex<HashSet<u64>>>);

impl Known {
    /// A table for the mount of a session.
    pub fn new(session: &FileSession) -> Self {
        let counts = session.cacheable().is_some() && !session.about().inherited;
        Self(counts.then(Mutex::default))
    }

    /// A table of nothing.
    #[cfg(test)]
    pub fn none() -> Self {
        Self(None)
    }

    /// The kernel gets to know a node.
    pub fn insert(&self, node: u64) {
        if let Self(Some(nodes)) = self {
            nodes.lock().insert(node);
        }
    }

    /// The kernel has forgotten a node.
    pub fn remove(&self, node: u64) {
        if let Self(Some(nodes)) = self {
            nodes.lock().remove(&node);
        }
    }

    /// Has all nodes dropped, the root among them; whether that succeeded. `lease` is what is left of it.
    pub fn drop_all(&self, root: u64, lease: Duration, drops: impl Fn(u64) + Clone + Send + 'static) -> bool {
        let Self(Some(nodes)) = self else { return false };
        let all: Vec<u64> = nodes.lock().iter().copied().chain([root]).collect();
        let until = Instant::now() + lease.max(DROPPING);
        let (all, (done, dropped)) = (Arc::new(Mutex::new(all)), channel());
        let start = || {
            let (all, done, drops) = (Arc::clone(&all), done.clone(), drops.clone());
            let thread = std::thread::Builder::new().name("fuse-drop".into()).spawn(move || {
                loop {
                    let Some(node) = all.lock().pop() else { break };
                    drops(node);
                }
                // Nobody waits for it if it is late.
                let _ = done.send(());
            });
            thread.is_ok()
        };
        let (mut running, mut started) = (0, 0);
        while started < THREADS.0 || running > 0 {
            let is_stuck = started >= THREADS.0;
            if is_stuck {
                let now = Instant::now();
                let wait = STUCK.min(until.saturating_duration_since(now));
                if dropped.recv_timeout(wait).is_ok() {
                    running -= 1;
                    continue;
                }
                if now >= until {
                    return false;
                }
                if started >= THREADS.1 || all.lock().is_empty() {
                    continue;
                }
            }
            if !start() {
                return false;
            }
            (running, started) = (running + 1, started + 1);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u64) -> Known {
        Known(Some(Mutex::new((2..=count).collect())))
    }

    /// A page that is just being read is locked until the store answers.
    #[test]
    fn a_locked_page_is_waited_for_as_long_as_the_lease_lasts_and_keeps_no_other_node() {
        let dropped = Arc::new(Mutex::new(Vec::new()));
        let drops = |locked: Duration| {
            let dropped = Arc::clone(&dropped);
            move |node: u64| {
                // More than the first threads wait.
                if node % 10 == 0 {
                    std::thread::sleep(locked);
                }
                dropped.lock().push(node);
            }
        };
        let begun = Instant::now();
        assert!(nodes(100).drop_all(1, Duration::from_secs(60), drops(Duration::from_secs(3))));
        assert!(begun.elapsed() >= Duration::from_secs(3), "longer than without a lease");
        assert_eq!(dropped.lock().len(), 100);
        assert!(dropped.lock()[..90].iter().all(|node| node % 10 != 0), "the others were dropped before");
        dropped.lock().clear();
        let begun = Instant::now();
        assert!(!nodes(100).drop_all(1, Duration::ZERO, drops(Duration::from_secs(10))));
        assert!(begun.elapsed() < Duration::from_secs(9), "the lease is over");
        assert_eq!(dropped.lock().len(), 90);
    }
}
