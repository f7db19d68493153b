//! A store that was killed, and one record of it damaged: it opens, and serves all that the record is not about.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::kernel::Kernel;
use super::repair::{bytes, closed, write};
use super::test_store::*;
use super::unreadable::{garble, varied};
use crate::error::Error;
use crate::record::key::{self, tag};
use crate::store::all;
use crate::volume::{SessionId, VolumeOptions};

/// A killed server, whose mounts of `jar` and `beside` continue.
struct Killed {
    dir: Arc<TempDir>,
    of_jar: SessionId,
    of_beside: SessionId,
    /// The expected content of `beside`.
    beside: BTreeMap<&'static str, Vec<u8>>,
    /// A key of a record of each kind, none of them about `beside`.
    records: Vec<Vec<u8>>,
}

/// Leaves what only a killed server leaves: a dirty file, an unlinked file that is open, an answer that was not sent,
/// undelivered invalidations, and a file in the trash.
fn kill() -> Killed {
    let test = TestStore::at(varied().0).unwrap();
    test.store.background.stop();
    let mut kernel = Kernel::mount(&test, &name("jar"));
    let volume = kernel.volume().clone();
    let dirty = volume.create(volume.root(), "dirty", by_root(0o644)).unwrap().ino;
    volume.append(dirty, &bytes(20_000)).unwrap();
    let open = kernel.look_up("dirty");
    assert_eq!(open, dirty);
    let unlinked = find(&volume, "dir/packed").unwrap();
    volume.pin(unlinked).unwrap();
    let unanswered = kernel.ask_in_vain(|volume| volume.unlink(find(volume, "dir").unwrap(), "packed"));
    assert!(unanswered.resent);
    test.put(&name("jar"), "told", b"to the mount").unwrap();
    test.put(&name("jar"), "trash", &bytes(300 << 10)).unwrap();
    test.delete(&name("jar"), "trash").unwrap();
    test.store.core.meta.sync().wait().unwrap();
    let records = one_of_each(&test);

    let quarantine = test.bucket("beside");
    let beside = BTreeMap::from([("small", b"small".to_vec()), ("large", bytes(300 << 10))]);
    for (at, data) in &beside {
        test.put(&quarantine, at, data).unwrap();
    }
    let other = Kernel::mount(&test, &quarantine);
    test.store.core.meta.sync().wait().unwrap();
    let killed = Killed { dir: copy_of(&test.dir), of_jar: kernel.session, of_beside: other.session, beside, records };
    for mut kernel in [kernel, other] {
        kernel.lose_server();
    }
    killed
}

/// The key of the first record of each kind that has a value, without the header.
fn one_of_each(test: &TestStore) -> Vec<Vec<u8>> {
    let snapshot = test.store.core.meta.snapshot();
    let kinds = tag::HEADER + 1..u8::MAX;
    let first = |kind| all(&*snapshot, &[kind]).unwrap().into_iter().find(|pair| !pair.value.is_empty());
    kinds.filter_map(first).map(|pair| pair.key.to_vec()).collect()
}

impl Killed {
    /// Opens a copy of the store in which this record is unreadable, and asserts that all of `beside` is served.
    fn opened_without(&self, record: &[u8]) -> TestStore {
        let dir = copy_of(&self.dir);
        garble(dir.path(), record.to_vec());
        let test = TestStore::going_on(dir, &[self.of_jar, self.of_beside]);
        let test =
            test.unwrap_or_else(|error| panic!("the record {record:02x?} keeps the store from opening: {error}"));
        for (at, data) in &self.beside {
            assert!(test.get(&name("beside"), at).unwrap() == *data, "{at} without the record {record:02x?}");
        }
        test.put(&name("beside"), "new", b"new").unwrap();
        let mount = test.take_over(&name("beside"), self.of_beside);
        assert_eq!(read_file(&mount, find(&mount, "new").unwrap()), b"new");
        test
    }
}

#[test]
fn one_damaged_record_keeps_no_store_from_opening() {
    let killed = kill();
    let found: Vec<u8> = killed.records.iter().map(|record| record[0]).collect();
    for kind in [tag::SESSION, tag::OWED, tag::DIRTY, tag::TRASH, tag::BUCKET, tag::BRANCH, tag::KEY] {
        assert!(found.contains(&kind), "no record of the kind {kind:02x}");
    }
    for record in &killed.records {
        killed.opened_without(record);
    }
}

#[test]
fn a_mount_whose_session_is_damaged_is_refused_alone_and_a_check_tells() {
    let killed = kill();
    let test = killed.opened_without(&key::by_id(tag::SESSION, killed.of_jar.get()));
    let options = VolumeOptions { session: Some(killed.of_jar), inherited: true, ..VolumeOptions::default() };
    let refused = test.store.open_volume(&name("jar"), options.clone()).map(drop);
    let Err(error @ Error::Corrupt { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("unmount this mount and mount it again"), "{error}");
    assert_eq!(test.get(&name("jar"), "told").unwrap(), b"to the mount");
    assert_eq!(read_file(&test.mount(&name("jar")), find(&test.mount(&name("jar")), "told").unwrap()), b"to the mount");
    let dir = closed(test);
    let found = problems(dir.path());
    assert!(found.iter().any(|problem| problem.contains("a mount's session")), "{found:?}");
    // Once the mount is gone, so is its session.
    let test = TestStore::at(dir).unwrap();
    assert!(matches!(test.store.open_volume(&name("jar"), options), Err(Error::Invalid { .. })));
    assert_eq!(problems(closed(test).path()), Vec::<String>::new());
}

#[test]
fn a_dirty_file_whose_mark_is_damaged_keeps_all_that_was_written() {
    let killed = kill();
    let record = killed.records.iter().find(|record| record[0] == tag::DIRTY).unwrap();
    let test = killed.opened_without(record);
    assert!(test.get(&name("jar"), "dirty").unwrap() == bytes(20_000));
    let marks = write(closed(test).path(), |txn| all(txn, &[tag::DIRTY]).unwrap().len());
    assert_eq!(marks, 0);
}

fn problems(dir: &Path) -> Vec<String> {
    crate::check::run(dir, &Default::default()).unwrap().problems
}
