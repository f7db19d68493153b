//! What a node answers without a trip: the same as the store, after every change by itself, another mount and S3; and the
//! references that its kernel returns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use node_testing::Loopback;
use objstore_files::{Attr, FileSession, Make, NAMES_MAX, Ownership, ROOT_INO, Rename, RenameMode, RequestId, SetAttr};

use super::random::{Choices, given, usual_seed};
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

/// Looks a name up at the store, and returns the reference: what nothing but the node's kernel holds is collected.
fn looked_at(pair: &Pair, parent: u64, name: &str) -> Option<Attr> {
    let found = looked_up(&pair.local, parent, name)?;
    request(&pair.local, |files| files.forget(found.ino, 1u64)).expect("returned");
    Some(found)
}

/// The inodes that the node's kernel holds, with the references that were counted for it.
#[derive(Default)]
struct Held(BTreeMap<u64, u64>);

impl Held {
    fn add(&mut self, ino: u64) {
        *self.0.entry(ino).or_default() += 1;
    }

    /// One of the directories, or something else, which may be a directory too.
    fn place(&self, rng: &mut Choices, directories: &[u64]) -> u64 {
        if rng.once_in(5) { self.any(rng) } else { *rng.of(directories) }
    }

    fn any(&self, rng: &mut Choices) -> u64 {
        *self.0.keys().nth(rng.below(self.0.len())).expect("the directories are held")
    }
}

/// A change that may be refused, through one of the mounts or S3, or a look by S3 that changes only records.
fn change(pair: &Pair, rng: &mut Choices, directories: &[u64], held: &mut Held) {
    if rng.once_in(3) {
        return change_by_s3(pair, rng, directories);
    }
    let is_node = rng.once_in(2);
    let session = if is_node { &pair.node } else { &pair.local };
    let (parent, other) = (held.place(rng, directories), held.place(rng, directories));
    let (name, other_name) = (*rng.of(&NAMES), *rng.of(&NAMES));
    let found = if is_node { looked_up(session, parent, name) } else { looked_at(pair, parent, name) };
    let found = found.map(|attr| attr.ino);
    found.into_iter().filter(|_| is_node).for_each(|ino| held.add(ino));
    // Files that have lost their names are changed as well.
    let ino = found.filter(|_| !rng.once_in(4)).unwrap_or_else(|| held.any(rng));
    let moved = |mode| Rename {
        from_parent: parent,
        from_name: name.into(),
        to_parent: other,
        to_name: other_name.into(),
        mode,
    };
    let size = rng.below(9_000) as u64;
    let done: Result<Option<u64>> = request(session, |files| match rng.below(12) {
        0 => files.make(parent, name, Make::File, OWNER).map(|attr| Some(attr.ino)),
        1 => files.make(parent, name, Make::Directory, OWNER).map(|attr| Some(attr.ino)),
        2 => files.unlink(parent, name).map(|()| None),
        3 => files.remove_dir(parent, name).map(|()| None),
        4 => files.rename(moved(RenameMode::Replace)).map(|()| None),
        5 => files.rename(moved(RenameMode::Exchange)).map(|()| None),
        6 => files.link(ino, other, other_name).map(|attr| Some(attr.ino)),
        7 => files.write(ino, size, false, &[7; 10]).map(|()| None),
        8 => files.set_attr(ino, SetAttr { mode: Some(size as u32 & 0o777), ..SetAttr::default() }).map(|_| None),
        9 => files.set_attr(ino, SetAttr { size: Some(size), ..SetAttr::default() }).map(|_| None),
        10 => files.append(ino, &[9; 30]).map(|_| None),
        _ => files.create(parent, name, OWNER).map(|attr| Some(attr.ino)),
    });
    assert!(matches!(done, Ok(_) | Err(Error::Posix(_))), "{done:?}");
    let Ok(Some(new)) = done else { return };
    if rng.once_in(2) {
        let written = request(session, |files| files.write(new, size, false, &[8; 20]));
        assert!(matches!(written, Ok(()) | Err(Error::Posix(_))), "{written:?}");
    }
    if is_node {
        held.add(new);
    } else {
        request(session, |files| files.forget(new, 1u64)).expect("returned");
    }
}

fn change_by_s3(pair: &Pair, rng: &mut Choices, directories: &[u64]) {
    let (parent, name, below) = (*rng.of(directories), *rng.of(&NAMES), *rng.of(&NAMES));
    let path = request(&pair.local, |files| files.path(parent)).expect("a path").unwrap_or_default();
    let key = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    // Each may be refused, for example under a file.
    match rng.below(7) {
        0 | 1 => drop(pair.test.put(&pair.bucket, &key, &[1; 5])),
        2 => drop(pair.test.put(&pair.bucket, &format!("{key}/{below}"), &[2; 6])),
        3 => drop(pair.test.delete(&pair.bucket, &key)),
        4 => drop(pair.test.delete(&pair.bucket, &format!("{key}/{below}"))),
        // These record what mounts wrote, which no mount sees.
        5 => drop(pair.test.keys(&pair.bucket)),
        _ => pair.test.collect(),
    }
}

/// Compares what the node answers with what the store has.
fn compare(pair: &Pair, rng: &mut Choices, directories: &[u64], held: &mut Held) {
    for _ in 0..4 {
        let (parent, name) = (held.place(rng, directories), *rng.of(&NAMES));
        let (here, there) = (looked_up(&pair.node, parent, name), looked_at(pair, parent, name));
        assert_eq!(here, there, "{name} in {parent}");
        let Some(found) = here else { continue };
        held.add(found.ino);
        let attr = request(&pair.node, |files| files.attr(found.ino)).expect("attributes");
        assert_eq!(Some(attr), there, "attributes of {name} in {parent}");
        let capability = request(&pair.node, |files| files.xattr(found.ino, "security.capability"));
        assert!(matches!(capability, Err(Error::Posix(Posix::NoData))), "{capability:?}");
    }
    if rng.once_in(4) {
        compare_listings(pair, held.place(rng, directories), rng.once_in(2), held);
    }
    let ino = held.any(rng);
    let attr = |session: &FileSession| request(session, |files| files.attr(ino)).ok();
    let here = attr(&pair.node);
    assert!(here.is_some(), "{ino} is referenced");
    assert_eq!(here, attr(&pair.local), "an inode that the kernel holds");
}

/// Compares a directory and all that is in it.
fn compare_listings(pair: &Pair, directory: u64, is_listed: bool, held: &mut Held) {
    let names =
        |session: &FileSession| request(session, |files| files.read_dir(directory, None::<String>, NAMES_MAX)).ok();
    let (here, there) = (names(&pair.node), names(&pair.local));
    assert_eq!(here, there, "names in {directory}");
    let entries = here.unwrap_or_default().entries;
    let looked = request(&pair.node, |files| files.lookup_all(directory, &entries, is_listed)).expect("looked up");
    for (entry, looked) in entries.iter().zip(looked) {
        let looked = looked.ok();
        assert_eq!(looked, looked_at(pair, directory, &entry.name), "{} in {directory}", entry.name);
        looked.into_iter().for_each(|attr| held.add(attr.ino));
    }
}

/// Random changes of a bucket and what a node shows of them; how many of its look-ups took a trip, of how many.
fn differ(seed: u64, rounds: u32) -> (u64, u64) {
    let (pair, mut rng, mut held) = (Pair::new(), Choices::with(seed), Held::default());
    pair.followed(|| {
        let made = |name: &str| request(&pair.node, |files| files.make(ROOT_INO, name, Make::Directory, OWNER));
        let directories = [ROOT_INO, made("one").expect("made").ino, made("two").expect("made").ino];
        held.add(directories[1]);
        for _ in 0..rounds {
            change(&pair, &mut rng, &directories, &mut held);
            compare(&pair, &mut rng, &directories, &mut held);
            let ino = held.any(&mut rng);
            if rng.once_in(4) && !directories.contains(&ino) {
                let count = held.0.remove(&ino).expect("it is held");
                request(&pair.node, |files| files.forget(ino, count)).expect("returned");
            }
        }
    });
    (pair.trips("lookup"), u64::from(rounds) * 4)
}

/// AMPHORA_SEEDS says how many seeds are run, from AMPHORA_SEED on.
#[test]
#[expect(clippy::print_stderr, reason = "the harness shows it with the failure")]
fn a_node_answers_what_the_store_has_after_every_change() {
    let first = usual_seed();
    let (mut sent, mut asked) = (0, 0);
    for seed in first..first + given("AMPHORA_SEEDS").unwrap_or(8) {
        eprintln!("replay with AMPHORA_SEED={seed} AMPHORA_SEEDS=1");
        let (trips, lookups) = differ(seed, 200);
        (sent, asked) = (sent + trips, asked + lookups);
    }
    assert!(sent < asked, "{sent} trips for {asked} look-ups");
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
