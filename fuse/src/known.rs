//! The nodes that a kernel may have cached, for a session that can be cut off from its store: then all are dropped.
//!
//! - A session that is never cut off needs no such table. Neither is there one for a mount that an earlier process served:
//!   what that process answered is not known, so such a mount is ended when it is cut off for longer than its lease.
//! - Each node is dropped by one of a few threads: a page that a program is just reading is locked until the store
//!   answers, which may take as long as the cut. A mount whose pages cannot be dropped in time is ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use objstore_files::FileSession;
use parking_lot::Mutex;

/// How long the kernel may take to drop everything.
const DROPPING: Duration = Duration::from_secs(2);
/// The threads that drop nodes.
const THREADS: usize = 4;

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

    /// Has all nodes dropped, the root among them; whether that succeeded.
    pub fn drop_all(&self, root: u64, drops: impl Fn(u64) + Clone + Send + 'static) -> bool {
        let Self(Some(nodes)) = self else { return false };
        let all: Vec<u64> = nodes.lock().iter().copied().chain([root]).collect();
        let until = Instant::now() + DROPPING;
        let (all, (done, dropped)) = (Arc::new(Mutex::new(all)), channel());
        for _ in 0..THREADS {
            let (all, done, drops) = (Arc::clone(&all), done.clone(), drops.clone());
            let thread = std::thread::Builder::new().name("fuse-drop".into()).spawn(move || {
                loop {
                    let Some(node) = all.lock().pop() else { break };
                    drops(node);
                }
                // Nobody waits for it if it is late.
                let _ = done.send(());
            });
            if thread.is_err() {
                return false;
            }
        }
        (0..THREADS).all(|_| dropped.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok())
    }
}
