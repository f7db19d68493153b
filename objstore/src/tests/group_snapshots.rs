//! Group snapshots: one moment over several buckets, all of them or none.

use std::sync::atomic::{AtomicBool, Ordering};

use super::repair::{closed, repaired, write};
use super::test_store::*;
use crate::error::{Error, Noun};
use crate::name::BucketName;
use crate::record::bucket::GroupSnapshot;
use crate::record::key::{self, tag};
use crate::store::*;
use crate::volume::Volume;

/// Groups taken under load.
const GROUPS: usize = 12;
/// The length of an entry of the log, in bytes.
const ENTRY: usize = 8;

fn members(group: &str, buckets: &[&str]) -> Vec<GroupMember> {
    let member = |bucket: &&str| GroupMember { bucket: name(bucket), snapshot: name(&format!("{group}-{bucket}")) };
    buckets.iter().map(member).collect()
}

impl TestStore {
    fn group(&self, group: &str, buckets: &[&str]) -> crate::Result<(GroupSnapshotInfo, Outcome)> {
        self.run(self.store.create_group_snapshot(&name(group), members(group, buckets), Creator::Csi))
    }

    fn delete_group(&self, group: &str, listed: &[&str]) -> crate::Result<()> {
        let listed = listed.iter().map(|listed| (*listed).to_owned()).collect();
        self.run(self.store.delete_unused_group_snapshot(group, listed))
    }

    /// The names of all snapshots.
    fn snapshot_names(&self) -> Vec<String> {
        self.store.snapshots(None, None, usize::MAX).unwrap().into_iter().map(|found| found.name).collect()
    }
}

/// Appends entries 0, 1, … to a file of a mount, to a key, and to a file of another mount, each after the one before.
fn log(test: &TestStore, first: &Volume, object: &BucketName, last: &Volume, ended: &AtomicBool) -> u64 {
    let [one, two] = [first, last].map(|volume| make_file(volume, volume.root(), "log").unwrap());
    let mut entry = 0_u64;
    while !ended.load(Ordering::Relaxed) {
        first.append(one, &entry.to_be_bytes()).unwrap();
        test.put(object, "log", &entry.to_be_bytes()).unwrap();
        last.append(two, &entry.to_be_bytes()).unwrap();
        entry += 1;
    }
    entry
}

/// The number of entries in a bucket or snapshot.
fn entries(test: &TestStore, bucket: &BucketName, is_object: bool) -> u64 {
    match test.get(bucket, "log") {
        Ok(last) if is_object => u64::from_be_bytes(last.try_into().unwrap()) + 1,
        Ok(log) => {
            let kept = log.chunks(ENTRY).map(|entry| u64::from_be_bytes(entry.try_into().unwrap()));
            assert!(kept.eq(0..(log.len() / ENTRY) as u64), "{bucket}: the log has no gap");
            (log.len() / ENTRY) as u64
        }
        Err(Error::NotFound { .. }) => 0,
        Err(error) => panic!("{bucket}: {error}"),
    }
}

#[test]
fn all_snapshots_of_a_group_show_one_moment_of_a_log_that_spans_buckets_and_protocols() {
    let test = TestStore::in_memory();
    // The order of ids differs from the order in which the log is written.
    let [last, object, first] = ["last", "object", "first"].map(|bucket| test.bucket(bucket));
    let mounts = [test.mount(&first), test.mount(&last)];
    let ended = AtomicBool::new(false);
    let moments = std::thread::scope(|scope| {
        let writer = scope.spawn(|| log(&test, &mounts[0], &object, &mounts[1], &ended));
        let moments: Vec<_> = (0..GROUPS)
            .map(|round| {
                std::thread::sleep(std::time::Duration::from_millis(3));
                let group = format!("group-{round}");
                let (taken, outcome) = test.group(&group, &["first", "last", "object"]).unwrap();
                assert_eq!(outcome, Outcome::Made);
                assert!(taken.snapshots.iter().all(|one| one.created == taken.snapshots[0].created));
                ["first", "object", "last"]
                    .map(|bucket| entries(&test, &name(&format!("{group}-{bucket}")), bucket == "object"))
            })
            .collect();
        ended.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() >= moments[GROUPS - 1][2]);
        moments
    });
    for [first, object, last] in &moments {
        let in_order = first >= object && object >= last;
        assert!(in_order && *first <= last + 1, "{moments:?}: a later entry without an earlier one");
    }
    assert!(moments[GROUPS - 1][0] > moments[0][0], "{moments:?}: nothing was written meanwhile");
    drop(mounts);
    test.audit_collected();
}

#[test]
fn groups_and_clones_of_the_same_buckets_in_any_order_do_not_wait_for_each_other() {
    let test = TestStore::in_memory();
    let [one, two] = ["one", "two"].map(|bucket| test.bucket(bucket));
    test.clone_of(Source::Bucket(one), "three");
    let mount = test.mount(&two);
    let file = make_file(&mount, mount.root(), "f").unwrap();
    std::thread::scope(|scope| {
        for (at, order) in
            [["one", "two", "three"], ["three", "two", "one"], ["two", "three", "one"]].iter().enumerate()
        {
            let (test, mount) = (&test, &mount);
            scope.spawn(move || {
                for round in 0..8 {
                    mount.append(file, b"more").unwrap();
                    test.group(&format!("group-{at}-{round}"), order).unwrap();
                    test.clone_of(Source::Bucket(name(order[0])), &format!("clone-{at}-{round}"));
                }
            });
        }
    });
    assert_eq!(test.snapshot_names().len(), 3 * 3 * 8);
    drop(mount);
    test.audit_collected();
}

#[test]
fn the_same_request_finds_the_group_and_another_one_is_refused() {
    let test = TestStore::in_memory();
    for bucket in ["one", "two", "three"] {
        test.bucket(bucket);
    }
    let (taken, _) = test.group("group", &["one", "two"]).unwrap();
    let (found, outcome) = test.group("group", &["two", "one"]).unwrap();
    assert_eq!((found, outcome), (taken.clone(), Outcome::Found));
    assert_eq!(test.store.group_snapshot("group").unwrap(), taken);
    assert!(taken.snapshots.iter().all(|one| one.group.as_deref() == Some("group") && one.creator == Creator::Csi));
    for other in [&["one"][..], &["one", "three"], &["one", "two", "three"]] {
        let refused = test.group("group", other).unwrap_err();
        assert!(matches!(&refused, Error::Exists { noun: Noun::GroupSnapshot, .. }), "{refused}");
    }
    test.run(test.store.delete_bucket(&name("one"), Deletion::IfEmpty)).unwrap();
    assert_eq!(test.group("group", &["one", "two"]).unwrap().1, Outcome::Found, "also after a bucket is deleted");
    let test = test.reopen();
    assert_eq!(test.store.group_snapshot("group").unwrap(), taken);
}

#[test]
fn a_refused_group_takes_no_snapshot_at_all() {
    let test = TestStore::in_memory();
    for bucket in ["one", "two", "taken-two"] {
        test.bucket(bucket);
    }
    test.snapshot(&name("one"), "other-two");
    let many: Vec<String> = (0..=GROUP_BUCKETS_MAX).map(|number| format!("bucket-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for buckets in [&[][..], &["one", "one"], &many] {
        assert!(matches!(test.group("group", buckets), Err(Error::Invalid { .. })), "{buckets:?}");
    }
    assert!(matches!(test.group("group", &["one", "absent"]), Err(Error::NotFound { .. })));
    for group in ["taken", "other"] {
        let refused = test.group(group, &["one", "two"]).unwrap_err();
        assert!(matches!(&refused, Error::Exists { noun: Noun::Snapshot, .. }), "{refused}");
        assert!(matches!(test.store.group_snapshot(group), Err(Error::NotFound { .. })));
    }
    assert_eq!(test.snapshot_names(), ["other-two"]);
    test.audit_collected();
}

#[test]
fn a_group_is_deleted_as_a_whole_or_stays() {
    let test = TestStore::in_memory();
    for bucket in ["one", "two"] {
        test.put(&test.bucket(bucket), "key", &vec![1; 100_000]).unwrap();
    }
    test.group("group", &["one", "two"]).unwrap();
    test.group("other", &["one"]).unwrap();
    let both = ["group-one", "group-two"];
    for listed in [&[][..], &["group-one"], &["group-one", "group-two", "other-one"]] {
        let refused = test.delete_group("group", listed).unwrap_err();
        assert!(matches!(&refused, Error::Invalid { .. }), "{refused}");
    }
    let alone = test.run(test.store.delete_unused_snapshot("group-one")).unwrap_err();
    assert!(matches!(&alone, Error::InUse { .. }) && alone.to_string().contains("\"group\""), "{alone}");
    let mount = test.mount(&name("group-two"));
    assert!(matches!(test.delete_group("group", &both), Err(Error::InUse { .. })));
    assert_eq!(test.store.group_snapshot("group").unwrap().snapshots.len(), 2);
    drop(mount);
    test.delete_group("group", &both).unwrap();
    assert!(matches!(test.delete_group("group", &both), Err(Error::NotFound { .. })));
    assert_eq!(test.snapshot_names(), ["other-one"]);
    test.audit_collected();
}

#[test]
fn a_group_continues_without_a_snapshot_that_the_administrator_deleted() {
    let test = TestStore::in_memory();
    for bucket in ["one", "two"] {
        test.bucket(bucket);
    }
    let left = || test.store.group_snapshot("group").map(|group| group.snapshots.len());
    test.group("group", &["one", "two"]).unwrap();
    test.run(test.store.delete_snapshot("group-one")).unwrap();
    assert_eq!(left().unwrap(), 1);
    let listed = ["group-one", "group-two"].map(str::to_owned);
    assert!(test.store.group_snapshot_of("group", &listed).is_ok(), "who still lists it is not refused");
    test.run(test.store.delete_snapshot("group-two")).unwrap();
    assert!(matches!(left(), Err(Error::NotFound { .. })));
    test.group("group", &["one", "two"]).unwrap();
    test.audit_collected();
}

#[test]
fn the_record_of_a_group_is_derived_from_its_snapshots_again() {
    for (damage, words) in [
        (None, "its record is missing"),
        (Some(vec![0xff; 9]), "group snapshot"),
        (Some(prost::Message::encode_to_vec(&GroupSnapshot::default())), "lists other snapshots"),
    ] {
        let test = TestStore::on_disk();
        for bucket in ["one", "two"] {
            test.bucket(bucket);
        }
        let (taken, _) = test.group("group", &["one", "two"]).unwrap();
        let dir = closed(test);
        write(dir.path(), move |txn| {
            let at = key::by_name(tag::GROUP_SNAPSHOT, "group");
            match damage {
                None => txn.delete(at),
                Some(value) => txn.put(at, value),
            }
        });
        repaired(dir.path(), words);
        let test = TestStore::at(dir).unwrap();
        assert_eq!(test.store.group_snapshot("group").unwrap(), taken);
    }
}
