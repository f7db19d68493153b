//! Per-mount cache invalidations: passes every change made by another client of the bucket to the kernel.
//!
//! - The kernel caches attributes and pages for a day, and names for seconds (`sharing`). Two things keep these caches
//!   exact: the kernel itself drops what a change through this mount touches, and the store's feed reports each change by
//!   another client. A thread here passes it on and then acknowledges it; the change is answered only after that. The feed
//!   also carries two changes through this mount that the kernel does not see: an append that landed elsewhere than the
//!   kernel assumed, and privileges that a write removed from a file.
//! - Dropping a name takes the directory's lock in the kernel, and dropping pages waits for pages being read or written. A
//!   program whose request this mount is serving may hold either. Its answer may wait for another mount, and so the lock
//!   of a directory is waited for until the names in it have expired, and no longer. Pages are held only by requests that
//!   wait for no other mount: while the bucket is shared, files are written with direct I/O (`passthrough`), and the
//!   answer to the writing of mapped pages waits for nobody. For a mount that outlives this process, separate processes
//!   wait instead (`notifier`).
//! - The kernel orders invalidations and replies correctly: it applies the reply to a lookup or read that was in flight
//!   under the same lock, so the invalidation either drops it, or the request came after the change.
//! - The feed also asks whether the kernel still holds an inode without a name, which for a mount that was taken over
//!   only the kernel knows. The answer holds at that moment; if the kernel drops the inode later, it sends FORGET.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use objstore_files::{Change, Changes, FileSession};

use crate::couriers::{Couriers, Drops};
use crate::known::Known;
use crate::locks::FileLocks;
use crate::sharing::Sharing;
use crate::stats::{Op, Stats};
use crate::view::{ROOT_NODE, View};

/// How long the lock of a directory is waited for before the expiry of its names is.
const PROMPT: Duration = Duration::from_millis(5);
/// How often a thread that waits for a lock looks whether the changes are lost.
const LOOK: Duration = Duration::from_millis(100);

/// Invalidations that a kernel accepts. An unknown node or name is no error.
pub(crate) trait Kernel: Clone + Send + 'static {
    /// Drops a cached name, or its cached absence.
    fn drop_entry(&self, parent: u64, name: &str) -> io::Result<()>;
    /// The same while other invalidations may be waiting for a lock.
    fn drop_entry_beside(&self, parent: u64, name: &str) -> io::Result<()> {
        self.drop_entry(parent, name)
    }
    /// Drops a node's attributes and pages.
    fn drop_content(&self, node: u64) -> io::Result<()>;
    /// The same while other invalidations may be waiting for a lock.
    fn drop_content_beside(&self, node: u64) -> io::Result<()> {
        self.drop_content(node)
    }
    /// Drops a node's attributes.
    fn drop_attributes(&self, node: u64) -> io::Result<()>;
    /// Whether the kernel holds a node.
    fn probe(&self, node: u64) -> io::Result<bool>;
}

/// Passes invalidations to a kernel.
pub(crate) struct Invalidator<K> {
    kernel: Told<K>,
    view: View,
    sharing: Arc<Sharing>,
    known: Arc<Known>,
    couriers: Couriers<Told<K>>,
}

/// A kernel, with the counts of what it was told.
#[derive(Clone)]
struct Told<K> {
    kernel: K,
    stats: Arc<Stats>,
}

impl<K: Kernel> Told<K> {
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

impl<K: Kernel> Drops for Told<K> {
    fn name(&self, directory: u64, name: &str) {
        self.tell(|kernel| kernel.drop_entry_beside(directory, name));
    }

    fn listing(&self, directory: u64) {
        self.tell(|kernel| kernel.drop_content(directory));
    }
}

impl<K: Kernel> Invalidator<K> {
    pub fn new(kernel: K, view: View, stats: Arc<Stats>, (sharing, known): (Arc<Sharing>, Arc<Known>)) -> Self {
        let kernel = Told { kernel, stats };
        Self { couriers: Couriers::new(kernel.clone()), kernel, view, sharing, known }
    }

    /// Follows the `stream` of changes of a session until it is closed. If changes are lost, caches can no longer be kept
    /// exact, and `abort` has to end the mount.
    pub fn follow(
        self,
        mut stream: Box<dyn Changes>,
        files: FileSession,
        locks: Arc<FileLocks>,
        abort: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("fuse-feed".into()).spawn(move || {
            let _ends = EndOfLocks(&locks);
            while let Some(changes) = stream.next() {
                locks.told(&changes);
                if changes.contains(&Change::All) && !self.drop_all(&files) {
                    tracing::error!(
                        "the kernel cannot drop what it has cached of a mount that is cut off from its store"
                    );
                    return abort();
                }
                self.pass(&changes, |ino, held| answer_probe(&files, ino, held), || stream.is_lost());
                stream.acknowledge();
            }
            if stream.is_lost() && !self.drop_all(&files) {
                abort();
            }
        })
    }

    /// Passes on a batch of changes, each node and name once. A directory's listing and attributes are dropped after
    /// its names, because the kernel itself drops attributes only for names it knows, and a listing never.
    fn pass(&self, changes: &[Change], probed: impl Fn(u64, bool), is_lost: impl Fn() -> bool) {
        let (mut entries, mut contents, mut attributes) = (Entries::new(), BTreeSet::new(), BTreeSet::new());
        let mut asked = BTreeSet::new();
        for change in changes {
            match change {
                Change::Entry { parent, name } => {
                    if let Some(parent) = self.view.shown(*parent) {
                        entries.entry(parent).or_default().insert(name);
                        contents.insert(parent);
                    }
                }
                Change::Content { ino } => contents.extend(self.view.shown(*ino)),
                Change::Attributes { ino } => attributes.extend(self.view.shown(*ino)),
                Change::Probe { ino } => drop(asked.insert(*ino)),
                Change::Sharing { shared } => self.sharing.set(*shared),
                // `locks` has taken these.
                Change::All | Change::LockGranted { .. } | Change::Recall { .. } => {}
            }
        }
        self.drop_names(entries, is_lost);
        for node in &contents {
            self.kernel.tell(|kernel| kernel.drop_content(*node));
        }
        for node in attributes.difference(&contents) {
            self.kernel.tell(|kernel| kernel.drop_attributes(*node));
        }
        // Last, because a name dropped before may have been what held the inode.
        for ino in asked {
            self.kernel.tell(|kernel| kernel.probe(self.view.node(ino)).map(|held| probed(ino, held)));
        }
    }

    /// Drops the attributes and pages of every node; whether that succeeded. Names expire.
    fn drop_all(&self, files: &FileSession) -> bool {
        let kernel = self.kernel.clone();
        let lease = files.link().map_or(Duration::ZERO, |link| link.lease_left);
        self.known.drop_all(ROOT_NODE, lease, move |node| kernel.tell(|kernel| kernel.drop_content_beside(node)))
    }

    /// Drops names: each is dropped or has expired when this returns, unless the changes are lost.
    fn drop_names(&self, entries: Entries<'_>, is_lost: impl Fn() -> bool) {
        if !self.sharing.is_shared() {
            // No answer waits for another mount.
            for (parent, name) in entries.iter().flat_map(|(parent, names)| names.iter().map(|name| (*parent, *name))) {
                self.kernel.tell(|kernel| kernel.drop_entry(parent, name));
            }
            return;
        }
        let directories: BTreeSet<u64> = entries.keys().copied().collect();
        for (parent, names) in entries {
            self.couriers.send(parent, names.into_iter().map(str::to_owned));
        }
        let mut left = self.couriers.wait(&directories, Instant::now() + PROMPT);
        if left.is_empty() {
            return;
        }
        // A lock is held. What was asked before may be answered with the old state, and has to expire as well.
        while !self.sharing.wait_for_readings(Instant::now() + LOOK) && !is_lost() {}
        let expiry = self.sharing.expiry();
        while !(left.is_empty() || is_lost() || (Instant::now() >= expiry && !self.couriers.is_full())) {
            let look = Instant::now() + LOOK;
            left = self.couriers.wait(&left, if Instant::now() < expiry { look.min(expiry) } else { look });
        }
    }
}

/// Ends what waits for locks with the changes: nobody would be told that it is granted.
struct EndOfLocks<'a>(&'a FileLocks);

impl Drop for EndOfLocks<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Names by directory.
type Entries<'a> = BTreeMap<u64, BTreeSet<&'a str>>;

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
        let sharing = Arc::new(Sharing::new(false));
        let invalidator =
            Invalidator::new(heard.clone(), view, Arc::default(), (sharing.clone(), Arc::new(Known::none())));
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
            Change::Sharing { shared: false },
        ];
        invalidator.pass(&changes, |ino, held| answers.lock().push((ino, held)), || false);
        assert!(!sharing.is_shared());
        assert_eq!(
            *heard.0.lock(),
            ["entry 1 a", "entry 1 b", "content 1", "content 9", "probe 4", "probe 5", "probe 6"]
        );
        assert_eq!(*answers.lock(), [(4, false), (5, true)], "a kernel that does not answer says nothing");
    }

    /// A kernel in which a program holds the lock of every directory.
    #[derive(Clone)]
    struct Locked(Arc<Mutex<()>>, Heard);

    impl Kernel for Locked {
        fn drop_entry(&self, parent: u64, name: &str) -> io::Result<()> {
            drop(self.0.lock());
            self.1.drop_entry(parent, name)
        }
        fn drop_content(&self, node: u64) -> io::Result<()> {
            self.1.drop_content(node)
        }
        fn drop_attributes(&self, node: u64) -> io::Result<()> {
            self.1.drop_attributes(node)
        }
        fn probe(&self, node: u64) -> io::Result<bool> {
            self.1.probe(node)
        }
    }

    #[test]
    fn a_name_whose_directory_is_locked_is_waited_for_until_it_has_expired() {
        let (lock, heard, sharing) = (Arc::new(Mutex::new(())), Heard::default(), Arc::new(Sharing::new(true)));
        let kernel = Locked(lock.clone(), heard.clone());
        let view = View::new(1, &Options::default());
        let invalidator = Invalidator::new(kernel, view, Arc::default(), (sharing.clone(), Arc::new(Known::none())));
        let changes = [Change::Entry { parent: 7, name: "a".into() }];
        let pass = || invalidator.pass(&changes, |_, _| {}, || false);
        pass();
        assert_eq!(heard.0.lock().drain(..).collect::<Vec<_>>(), ["entry 7 a", "content 7", "content 7"]);
        let held = lock.lock();
        let begun = Instant::now();
        let lookup = sharing.begin();
        std::thread::scope(|scope| {
            let passing = scope.spawn(pass);
            std::thread::sleep(Duration::from_millis(500));
            assert!(!passing.is_finished(), "a lookup that is not answered yet");
            drop(lookup);
            passing.join().unwrap();
        });
        let took = begun.elapsed();
        // Names that an earlier process answered have the longer time.
        assert!(took > Duration::from_secs(4) && took < Duration::from_secs(30), "{took:?}");
        assert_eq!(*heard.0.lock(), ["content 7"]);
        drop(held);
        let until = Instant::now() + Duration::from_secs(30);
        while heard.0.lock().len() < 3 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(*heard.0.lock(), ["content 7", "entry 7 a", "content 7"], "it is dropped all the same");
    }
}
