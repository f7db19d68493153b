//! What a node answers without a trip: the same as the store, after every change by itself, another mount and S3; and the
//! references that its kernel returns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use node_testing::Loopback;
use objstore_files::{Attr, FileSession, Make, NAMES_MAX, Ownership, ROOT_INO, Rename, RenameMode, RequestId, SetAttr};

use super::random::Choices;
use super::test_store::TestStore;
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::volume::VolumeOptions;

const OWNER: Ownership = Ownership { uid: 0, gid: 0, mode: 0o644, umask: 0 };
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const CALLER: objstore_files::Caller = objstore_files::Caller { uid: 0, gid: 0, pid: 0 };

/// A bucket with a node that follows its changes, and another mount on the machine of the store.
struct Pair {
    node: FileSession,
    local: FileSession,
    test: TestStore,
    bucket: BucketName,
    _loopback: Loopback,
}

impl Pair {
    fn new() -> Self {
        let (test, loopback) = (TestStore::in_memory(), Loopback::default());
        let bucket = test.bucket("bucket");
        let volume = || test.store.open_volume(&bucket, VolumeOptions::default()).unwrap();
        let (node, local) = (FileSession::new(loopback.serve(volume())), FileSession::new(volume()));
        Self { node, local, test, bucket, _loopback: loopback }
    }

    /// Runs `work` while the node takes and acknowledges changes, as a mount does.
    fn followed(&self, work: impl FnOnce()) {
        let mut changes = self.node.changes();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                while changes.next().is_some() {
                    changes.acknowledge();
                }
            });
            let _close = Close(&self.node);
            work();
        });
    }

    fn trips(&self, operation: &str) -> u64 {
        self.node.trips().iter().find(|counted| counted.operation == operation).map_or(0, |counted| counted.trips)
    }
}

struct Close<'a>(&'a FileSession);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.close_changes();
    }
}

/// The files for a request of the kernel, which has a number of its own.
fn request<T>(session: &FileSession, call: impl FnOnce(&objstore_files::Files<'_>) -> T) -> T {
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let id = RequestId { unique: LAST.fetch_add(2, Ordering::Relaxed) + 2, resent: false };
    let files = session.serving(CALLER, id);
    let done = call(&files);
    files.recorded().into_iter().for_each(|id| session.answered(id));
    done
}

fn looked_up(session: &FileSession, parent: u64, name: &str) -> Option<Attr> {
    match request(session, |files| files.lookup(parent, name)) {
        Ok(attr) => Some(attr),
        Err(Error::Posix(Posix::NotFound | Posix::Stale | Posix::NotDirectory)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// A change that may be refused, through one of the mounts or S3.
fn change(pair: &Pair, rng: &mut Choices, directories: &[u64]) {
    let session = if rng.once_in(2) { &pair.node } else { &pair.local };
    let (parent, other) = (*rng.of(directories), *rng.of(directories));
    let (name, other_name) = (*rng.of(&NAMES), *rng.of(&NAMES));
    let ino = looked_up(session, parent, name).map_or(77, |attr| attr.ino);
    let moved = |mode| Rename {
        from_parent: parent,
        from_name: name.into(),
        to_parent: other,
        to_name: other_name.into(),
        mode,
    };
    let size = rng.below(9_000) as u64;
    let done: Result<()> = request(session, |files| match rng.below(10) {
        0 => files.make(parent, name, Make::File, OWNER).map(drop),
        1 => files.make(parent, name, Make::Directory, OWNER).map(drop),
        2 => files.unlink(parent, name),
        3 => files.remove_dir(parent, name),
        4 => files.rename(moved(RenameMode::Replace)),
        5 => files.rename(moved(RenameMode::Exchange)),
        6 => files.link(ino, other, other_name).map(drop),
        7 => files.write(ino, size, false, &[7; 10]),
        8 => files.set_attr(ino, SetAttr { mode: Some(size as u32 & 0o777), ..SetAttr::default() }).map(drop),
        _ => {
            // An S3 client.
            if let Ok(Some(path)) = files.path(parent) {
                let key = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                let _ = pair.test.put(&pair.bucket, &key, &[1; 5]);
            }
            Ok(())
        }
    });
    assert!(matches!(done, Ok(()) | Err(Error::Posix(_))), "{done:?}");
}

#[test]
fn a_node_answers_what_the_store_has_after_every_change() {
    let pair = Pair::new();
    let mut rng = Choices::new();
    pair.followed(|| {
        let made = |name: &str| request(&pair.node, |files| files.make(ROOT_INO, name, Make::Directory, OWNER));
        let directories = [ROOT_INO, made("one").expect("made").ino, made("two").expect("made").ino];
        for round in 0..1_500 {
            change(&pair, &mut rng, &directories);
            if rng.once_in(20) {
                let directory = *rng.of(&directories);
                request(&pair.node, |files| files.read_dir(directory, None::<String>, NAMES_MAX)).expect("names");
            }
            for _ in 0..4 {
                let (parent, name) = (*rng.of(&directories), *rng.of(&NAMES));
                let (here, there) = (looked_up(&pair.node, parent, name), looked_up(&pair.local, parent, name));
                assert_eq!(here, there, "{name} in {parent}, round {round}");
                let Some(found) = here else { continue };
                let attr = request(&pair.node, |files| files.attr(found.ino)).expect("attributes");
                assert_eq!(Some(attr), there, "round {round}");
                let capability = request(&pair.node, |files| files.xattr(found.ino, "security.capability"));
                assert!(matches!(capability, Err(Error::Posix(Posix::NoData))), "{capability:?}");
            }
        }
        let (asked, sent) = (1_500 * 4, pair.trips("lookup"));
        assert!(sent < asked / 2, "{sent} of {asked} look-ups took a trip");
    });
}

#[test]
fn an_inode_stays_while_the_kernel_holds_references_that_were_counted_on_the_node() {
    let pair = Pair::new();
    pair.followed(|| {
        let made = request(&pair.node, |files| files.make(ROOT_INO, "a", Make::File, OWNER)).expect("made");
        request(&pair.node, |files| files.write(made.ino, 0u64, false, b"content")).expect("written");
        for _ in 0..5 {
            assert_eq!(looked_up(&pair.node, ROOT_INO, "a").map(|attr| attr.ino), Some(made.ino));
        }
        assert_eq!(pair.trips("lookup"), 0, "the answer to the write told the attributes");
        request(&pair.local, |files| files.unlink(ROOT_INO, "a")).expect("unlinked");
        assert_eq!(looked_up(&pair.node, ROOT_INO, "a"), None);
        request(&pair.node, |files| files.forget(made.ino, 3u64)).expect("returned");
        let read = request(&pair.node, |files| files.read(made.ino, 0u64, 9u32)).expect("it is still referenced");
        assert_eq!(read, &b"content"[..]);
        request(&pair.node, |files| files.forget(made.ino, 3u64)).expect("returned");
        let until = Instant::now() + Duration::from_secs(30);
        while request(&pair.local, |files| files.attr(made.ino)).is_ok() {
            assert!(Instant::now() < until, "nobody collects it");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn a_change_of_another_mount_is_never_answered_before_the_node_shows_it() {
    let pair = Pair::new();
    let going = AtomicBool::new(true);
    pair.followed(|| {
        let made = request(&pair.local, |files| files.make(ROOT_INO, "a", Make::File, OWNER)).expect("made");
        let acknowledged = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while going.load(Ordering::SeqCst) {
                        let least = acknowledged.load(Ordering::SeqCst);
                        let seen = looked_up(&pair.node, ROOT_INO, "a").expect("it is there").mode & 0o777;
                        assert!(seen >= least || !going.load(Ordering::SeqCst), "{seen:o} after {least:o}");
                    }
                });
            }
            for mode in 0o001..0o700 {
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                request(&pair.local, |files| files.set_attr(made.ino, set)).expect("set");
                acknowledged.store(mode, Ordering::SeqCst);
            }
            going.store(false, Ordering::SeqCst);
        });
    });
}
