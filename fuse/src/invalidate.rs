//! Per-mount cache invalidations: passes every change made by another client of the bucket to the kernel.
//!
//! - The kernel caches names, absent names, attributes and pages for a day. Two things keep these caches exact: the
//!   kernel itself drops what a change through this mount touches, and the store's feed reports each change by another
//!   client. A thread here passes it on and then acknowledges it; an S3 write is answered only after that. The feed
//!   also carries two changes through this mount that the kernel does not see: an append that landed elsewhere than the
//!   kernel assumed, and privileges that a write removed from a file.
//! - Dropping a name takes the directory's lock in the kernel, and dropping pages waits for pages being read. A program
//!   whose request this mount is serving may hold either. So this thread waits for the kernel only, and no request
//!   waits for this thread. For a mount that outlives this process, a separate process waits instead (`notifier`).
//! - The kernel orders invalidations and replies correctly: it applies the reply to a lookup or read that was in flight
//!   under the same lock, so the invalidation either drops it, or the request came after the change.
//! - The feed also asks whether the kernel still holds an inode without a name, which for a mount that was taken over
//!   only the kernel knows. The answer holds at that moment; if the kernel drops the inode later, it sends FORGET.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use objstore_files::{Change, Changes, FileSession};

use crate::stats::{Op, Stats};
use crate::view::View;

/// Invalidations that a kernel accepts. An unknown node or name is no error.
pub(crate) trait Kernel: Clone + Send + 'static {
    /// Drops a cached name, or its cached absence.
    fn drop_entry(&self, parent: u64, name: &str) -> io::Result<()>;
    /// Drops a node's attributes and pages.
    fn drop_content(&self, node: u64) -> io::Result<()>;
    /// Drops a node's attributes.
    fn drop_attributes(&self, node: u64) -> io::Result<()>;
    /// Whether the kernel holds a node.
    fn probe(&self, node: u64) -> io::Result<bool>;
}

/// Passes invalidations to a kernel.
pub(crate) struct Invalidator<K> {
    pub kernel: K,
    pub view: View,
    pub stats: Arc<Stats>,
}

impl<K: Kernel> Invalidator<K> {
    /// Follows the `stream` of changes of a session until it is closed. If changes are lost, caches can no longer be kept
    /// exact, and `abort` has to end the mount.
    pub fn follow(
        self,
        mut stream: Box<dyn Changes>,
        files: FileSession,
        abort: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("fuse-feed".into()).spawn(move || {
            while let Some(changes) = stream.next() {
                self.pass(&changes, |ino, held| answer_probe(&files, ino, held));
                stream.acknowledge();
            }
            if stream.is_lost() {
                abort();
            }
        })
    }

    /// Passes on a batch of changes, each node and name once. A directory's listing and attributes are dropped after
    /// its names, because the kernel itself drops attributes only for names it knows, and a listing never.
    fn pass(&self, changes: &[Change], probed: impl Fn(u64, bool)) {
        let (mut entries, mut contents, mut attributes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut asked = BTreeSet::new();
        for change in changes {
            match change {
                Change::Entry { parent, name } => {
                    entries.extend(self.view.shown(*parent).map(|parent| (parent, name.as_str())));
                    contents.extend(self.view.shown(*parent));
                }
                Change::Content { ino } => contents.extend(self.view.shown(*ino)),
                Change::Attributes { ino } => attributes.extend(self.view.shown(*ino)),
                Change::Probe { ino } => drop(asked.insert(*ino)),
            }
        }
        for (parent, name) in entries {
            self.tell(|kernel| kernel.drop_entry(parent, name));
        }
        for node in &contents {
            self.tell(|kernel| kernel.drop_content(*node));
        }
        for node in attributes.difference(&contents) {
            self.tell(|kernel| kernel.drop_attributes(*node));
        }
        // Last, because a name dropped before may have been what held the inode.
        for ino in asked {
            self.tell(|kernel| kernel.probe(self.view.node(ino)).map(|held| probed(ino, held)));
        }
    }

    /// Sends one invalidation. It fails only if the session has ended; then there is no cache either.
    fn tell(&self, notice: impl FnOnce(&K) -> io::Result<()>) {
        let started = Instant::now();
        let told = notice(&self.kernel);
        self.stats.record(Op::Invalidate, started.elapsed(), told.is_err());
        if let Err(error) = told {
            tracing::debug!(%error, "the kernel accepts no more cache invalidations");
        }
    }
}

fn answer_probe(files: &FileSession, ino: u64, held: bool) {
    if let Err(error) = files.own().probe_result(ino, held) {
        tracing::debug!(ino, %error, "an inode without a name stays until the session ends");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use parking_lot::Mutex;

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<String>>>);

    impl Kernel for Heard {
        fn drop_entry(&self, parent: u64, name: &str) -> io::Result<()> {
            self.0.lock().push(format!("entry {parent} {name}"));
            Ok(())
        }
        fn drop_content(&self, node: u64) -> io::Result<()> {
            self.0.lock().push(format!("content {node}"));
            Ok(())
        }
        fn drop_attributes(&self, node: u64) -> io::Result<()> {
            self.0.lock().push(format!("attributes {node}"));
            Ok(())
        }
        fn probe(&self, node: u64) -> io::Result<bool> {
            self.0.lock().push(format!("probe {node}"));
            match node {
                6 => Err(io::ErrorKind::NotConnected.into()),
                node => Ok(node == 5),
            }
        }
    }

    #[test]
    fn each_change_of_a_batch_is_passed_on_once() {
        let heard = Heard::default();
        let view = View::new(7, &Options::default());
        let invalidator = Invalidator { kernel: heard.clone(), view, stats: Arc::default() };
        let answers = Mutex::new(Vec::new());
        let changes = [
            Change::Probe { ino: 4 },
            Change::Probe { ino: 5 },
            Change::Probe { ino: 5 },
            Change::Probe { ino: 6 },
            Change::Entry { parent: 7, name: "a".into() },
            Change::Entry { parent: 7, name: "b".into() },
            Change::Entry { parent: 7, name: "a".into() },
            Change::Entry { parent: 1, name: "above".into() },
            Change::Content { ino: 9 },
            Change::Attributes { ino: 9 },
            Change::Content { ino: 9 },
        ];
        invalidator.pass(&changes, |ino, held| answers.lock().push((ino, held)));
        assert_eq!(
            *heard.0.lock(),
            ["entry 1 a", "entry 1 b", "content 1", "content 9", "probe 4", "probe 5", "probe 6"]
        );
        assert_eq!(*answers.lock(), [(4, false), (5, true)], "a kernel that does not answer says nothing");
    }
}
