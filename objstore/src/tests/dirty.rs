//! Dirty files, written in place without transactions, as S3, quotas, snapshots and a crash see them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use tempfile::TempDir;

use super::test_store::{TestStore, bucket_request, by_root, copy_of, find, key, make_file, name, read_file};
use crate::error::{Error, Posix};
use crate::name::BucketName;
use crate::record::key::tag;
use crate::store::*;
use crate::volume::{Allocate, Rename, RenameMode, SetAttr, Volume};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A dirty file of 8 KiB of ones, open for writing.
struct Written {
    test: TestStore,
    bucket: BucketName,
    volume: Volume,
    ino: u64,
}

impl Written {
    fn on(test: TestStore, request: CreateBucket) -> Self {
        // The background work would settle and sync the file at times of its own.
        test.store.background.stop();
        let bucket = request.name.clone();
        test.run(test.store.create_bucket(request)).unwrap();
        let volume = test.mount(&bucket);
        let ino = volume.create(volume.root(), "f", by_root(0o644)).unwrap().ino;
        let written = Self { test, bucket, volume, ino };
        written.append(&[1; 8 * KIB]);
        assert_eq!(written.dirty(), [ino]);
        written
    }

    fn new() -> Self {
        Self::on(TestStore::in_memory(), bucket_request("live"))
    }

    fn with_quota(bytes: usize) -> Self {
        Self::on(TestStore::in_memory(), CreateBucket { quota_bytes: Some(bytes as u64), ..bucket_request("live") })
    }

    fn append(&self, data: &[u8]) {
        self.volume.append(self.ino, data).unwrap();
    }

    fn try_append(&self, bytes: usize) -> crate::Result<u64> {
        self.volume.append(self.ino, &vec![3; bytes])
    }

    fn size(&self) -> u64 {
        self.volume.attr(self.ino).unwrap().size
    }

    fn dirty(&self) -> Vec<u64> {
        self.test.store.core.dirty.of_bucket(self.test.store.bucket(&self.bucket).unwrap().id)
    }

    fn used(&self) -> u64 {
        let used = self.test.store.usage(&self.bucket).unwrap().bytes;
        assert_eq!(self.volume.space().unwrap().used_bytes, used);
        used
    }

    fn head(&self) -> ObjectInfo {
        self.test.store.head_object(&self.bucket, &key("f"), None).unwrap()
    }

    fn commits(&self) -> u64 {
        self.test.store.stats().commits
    }
}

#[test]
fn writes_of_a_dirty_file_need_no_transaction() {
    let file = Written::new();
    let before = file.commits();
    for at in 0..200 {
        file.append(&[at; 5 * KIB]);
        file.volume.write(file.ino, u64::from(at) * 100, &[at; 300], true).unwrap();
    }
    let set = SetAttr { size: Some(2 * MIB as u64), ..SetAttr::default() };
    file.volume.set_attr(file.ino, set).unwrap();
    file.volume.allocate(file.ino, Allocate::Extend, 0, 3 * MIB as u64).unwrap();
    file.volume.allocate(file.ino, Allocate::PunchHole, 9, 9).unwrap();
    // The one commit is that of set_attr, which sets the ctime as well as the size.
    assert!(file.commits() <= before + 1, "{} commits", file.commits() - before);
    assert_eq!((file.size(), file.used()), (3 * MIB as u64, 3 * MIB as u64));
    file.test.audit();
}

#[test]
fn s3_sees_each_write_at_once_under_a_tag_of_its_own() {
    let file = Written::new();
    let mut tags = BTreeSet::new();
    let mut content = vec![1; 8 * KIB];
    for round in 0..60_u8 {
        match round % 3 {
            0 => {
                file.append(&[round; 700]);
                content.extend([round; 700]);
            }
            _ => {
                file.volume.write(file.ino, u64::from(round) * 50, &[round; 90], false).unwrap();
                content[usize::from(round) * 50..usize::from(round) * 50 + 90].fill(round);
            }
        }
        let attr = file.volume.attr(file.ino).unwrap();
        let listed = file.test.store.list_objects(&file.bucket, &List { limit: 9, ..List::default() }).unwrap();
        let info = file.head();
        let listed = &listed.objects[0];
        assert_eq!((listed.size, &listed.etag, listed.modified), (info.size, &info.etag, info.modified));
        assert_eq!((info.size, info.modified), (content.len() as u64, attr.mtime));
        let (tag, found) = file.test.get_with_tag(&file.bucket, "f").unwrap();
        assert!(found == content && tag == info.etag);
        assert_eq!(file.volume.attr(file.ino).unwrap().mtime, attr.mtime, "looking changes nothing");
        assert!(tags.insert(tag), "round {round}: the tag stands for other content already");
    }
    file.test.audit();
}

#[test]
fn a_swap_is_refused_that_has_not_seen_the_last_write() {
    let file = Written::new();
    let seen = file.head();
    file.volume.write(file.ino, 0, b"new", false).unwrap();
    let swap = |condition| file.test.put_if(&file.bucket, "f", b"swapped", condition);
    let refused = |done| matches!(done, Err(Error::Precondition { .. }));
    assert!(refused(swap(Condition { if_match: Some(seen.etag.into()), ..Condition::default() })));
    file.append(&[7; 10]);
    assert!(refused(swap(Condition { size: Some(seen.size), ..Condition::default() })));
    swap(Condition { if_match: Some(file.head().etag.into()), ..Condition::default() }).unwrap();
    assert_eq!(file.test.get(&file.bucket, "f").unwrap(), b"swapped");
}

#[test]
fn times_are_those_of_the_last_change_whoever_made_it() {
    let file = Written::new();
    let first = file.volume.attr(file.ino).unwrap();
    file.append(&[2; 100]);
    let second = file.volume.attr(file.ino).unwrap();
    assert!(second.mtime > first.mtime && second.ctime == second.mtime);
    let past = SetAttr { mtime: Some(first.btime), ..SetAttr::default() };
    let set = file.volume.set_attr(file.ino, past).unwrap();
    assert_eq!((set.mtime, set.size), (first.btime, second.size));
    assert!(set.ctime > second.ctime);
    assert_eq!(file.volume.attr(file.ino).unwrap(), set);
    let mode = file.volume.set_attr(file.ino, SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    assert_eq!((mode.mtime, mode.size), (first.btime, second.size));
    file.append(&[2; 100]);
    let chmod = file.volume.set_attr(file.ino, SetAttr { mode: Some(0o640), ..SetAttr::default() }).unwrap();
    assert!(chmod.mtime > set.mtime && chmod.ctime > chmod.mtime && chmod.size == second.size + 100);
    file.test.collect();
    assert_eq!(file.volume.attr(file.ino).unwrap(), chmod);
}

#[test]
fn a_file_is_settled_once_nobody_writes_it() {
    let file = Written::new();
    file.append(&[2; 100]);
    file.test.collect();
    assert_eq!(file.dirty(), [file.ino], "it is open");
    let attr = file.volume.attr(file.ino).unwrap();
    file.volume.close_writer(file.ino).unwrap();
    file.test.collect();
    assert!(file.dirty().is_empty());
    let settled = file.volume.attr(file.ino).unwrap();
    assert_eq!((settled.size, settled.mtime, settled.ctime), (attr.size, attr.mtime, attr.ctime));
    file.test.audit_collected();
}

#[test]
fn whatever_shares_content_shares_all_that_was_written() {
    let mut file = Written::new();
    let mut expected = vec![1; 8 * KIB];
    let mut grow = |file: &Written| {
        file.append(&[5; 3 * KIB]);
        expected.extend([5; 3 * KIB]);
        expected.clone()
    };
    let snapped = grow(&file);
    let snapshot = file.test.snapshot(&file.bucket, "snapped");
    let cloned = grow(&file);
    let clone = file.test.clone_of(Source::Bucket(file.bucket.clone()), "cloned");
    let copied = grow(&file);
    file.test.copy((&file.bucket, "f"), (&file.bucket, "copy")).unwrap();
    let last = grow(&file);
    for _ in 0..2 {
        for (bucket, at, content) in [
            (&snapshot, "f", &snapped),
            (&clone, "f", &cloned),
            (&file.bucket, "copy", &copied),
            (&file.bucket, "f", &last),
        ] {
            assert!(file.test.get(bucket, at).unwrap() == *content, "{bucket}/{at}");
        }
        file.test.audit();
        let Written { test, bucket, volume, ino } = file;
        drop(volume);
        let test = test.reopen();
        let volume = test.mount(&bucket);
        file = Written { test, bucket, volume, ino };
    }
}

#[test]
fn a_file_that_is_cut_replaced_moved_or_unlinked_while_dirty_is_as_it_should_be() {
    let file = Written::new();
    let Written { test, volume, bucket, ino } = &file;
    let resize = |size| volume.set_attr(*ino, SetAttr { size: Some(size), ..SetAttr::default() }).unwrap().size;
    file.append(&[2; 100]);
    assert_eq!(resize(8 * KIB as u64 + 10), 8 * KIB as u64 + 10);
    file.append(&[3; 10]);
    assert_eq!(resize(9 * KIB as u64), 9 * KIB as u64);
    let tail = [&[2; 10][..], &[3; 10], &[0; KIB - 20]].concat();
    assert!(test.get(bucket, "f").unwrap()[8 * KIB..] == tail);
    assert_eq!((resize(0), file.used()), (0, 0));
    file.append(&[4; 6 * KIB]);
    file.append(&[4; 6 * KIB]);
    let root = volume.root();
    let rename = |from: &str, to: &str| {
        let names = (from.to_owned(), to.to_owned());
        let mode = RenameMode::Replace;
        volume.rename(Rename { from_parent: root, from_name: names.0, to_parent: root, to_name: names.1, mode })
    };
    rename("f", "g").unwrap();
    file.append(&[4; 6 * KIB]);
    assert_eq!(test.get(bucket, "g").unwrap(), [4; 18 * KIB]);
    test.put(bucket, "g", b"put").unwrap();
    file.append(&[4; 6 * KIB]);
    assert_eq!((file.size(), test.get(bucket, "g").unwrap()), (24 * KIB as u64, b"put".to_vec()));
    test.audit();
    assert_eq!(file.used(), 24 * KIB as u64 + 3, "a replaced file counts as long as it is open");
    volume.close_writer(*ino).unwrap();
    volume.forget(*ino, 1);
    test.collect();
    assert_eq!(file.used(), 3);
    assert!(file.dirty().is_empty());
    test.audit_collected();
}

#[test]
fn a_quota_holds_to_the_byte() {
    let file = Written::with_quota(10 * MIB);
    let refused = |done: crate::Result<u64>| matches!(done, Err(Error::QuotaExceeded { .. }));
    file.append(&vec![2; MIB]);
    // Quota that was reserved and is not used is free again.
    file.test.put(&file.bucket, "big", &vec![7; 9 * MIB - 8 * KIB - 1]).unwrap();
    assert!(refused(file.try_append(2)));
    file.try_append(1).unwrap();
    assert!(refused(file.try_append(1)) && file.used() == 10 * MIB as u64);
    assert!(matches!(file.test.put(&file.bucket, "one", b"1"), Err(Error::QuotaExceeded { .. })));
    file.volume.write(file.ino, 0, b"in place", false).unwrap();
    assert_eq!(file.size(), MIB as u64 + 8 * KIB as u64 + 1);
    // The size that the dirty file grew by counts as freed when the file is replaced.
    file.test.put(&file.bucket, "f", &vec![7; MIB + 8 * KIB + 1]).unwrap();
    file.test.delete(&file.bucket, "big").unwrap();
    file.test.audit();
    let set = SetBucket { quota_bytes: Some(Some(2 * MIB as u64)), ..SetBucket::default() };
    file.test.run(file.test.store.set_bucket(&file.bucket, set)).unwrap();
    assert!(refused(file.try_append(1)), "the file replaced is open, and counts");
    let free = SetBucket { quota_bytes: Some(None), ..SetBucket::default() };
    file.test.run(file.test.store.set_bucket(&file.bucket, free)).unwrap();
    file.try_append(5 * MIB).unwrap();
    file.test.audit();
}

#[test]
fn over_its_quota_a_bucket_takes_what_is_no_larger_than_the_dirty_file_it_replaces() {
    for open in [true, false] {
        let file = Written::with_quota(10 * MIB);
        file.append(&vec![2; MIB]);
        if !open {
            file.volume.close_writer(file.ino).unwrap();
            file.volume.forget(file.ino, 1);
            assert_eq!(file.dirty(), [file.ino]);
        }
        let set = SetBucket { quota_bytes: Some(Some(100 * KIB as u64)), ..SetBucket::default() };
        file.test.run(file.test.store.set_bucket(&file.bucket, set)).unwrap();
        let larger = file.test.put(&file.bucket, "f", &vec![7; MIB + 8 * KIB + 1]);
        assert!(matches!(larger, Err(Error::QuotaExceeded { .. })), "{open}");
        file.test.put(&file.bucket, "f", &vec![7; MIB + 8 * KIB]).unwrap();
        file.test.audit();
    }
}

#[test]
fn without_a_quota_a_bucket_holds_what_can_be_counted() {
    let file = Written::new();
    let too_large = |done: crate::Result<()>| assert!(matches!(done, Err(Error::Posix(Posix::TooLarge))), "{done:?}");
    let (volume, most) = (&file.volume, i64::MAX as u64);
    let stretched = |name: &str, size: u64| {
        let ino = find(volume, name).or_else(|_| make_file(volume, volume.root(), name))?;
        volume.set_attr(ino, SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
    };
    too_large(stretched("a", most));
    stretched("a", most - 8 * KIB as u64 - 1).unwrap();
    too_large(stretched("b", 2));
    too_large(file.try_append(2).map(drop));
    file.append(b"1");
    assert_eq!(file.used(), most);
    too_large(file.try_append(1).map(drop));
    too_large(file.test.put(&file.bucket, "one", b"1").map(drop));
    file.test.put(&file.bucket, "f", &[7; 8 * KIB + 1]).unwrap();
    file.test.delete(&file.bucket, "a").unwrap();
    stretched("b", 1 << 44).unwrap();
    file.append(&[2; 9 * KIB]);
    file.test.audit();
}

#[test]
fn files_that_grow_at_once_share_a_quota() {
    let file = Written::with_quota(6 * MIB);
    let volume = &file.volume;
    let inos: Vec<u64> = (0..4)
        .map(|index| {
            let ino = volume.create(volume.root(), &format!("g{index}"), by_root(0o644)).unwrap().ino;
            volume.append(ino, &[1; 5 * KIB]).unwrap();
            ino
        })
        .collect();
    std::thread::scope(|scope| {
        for ino in &inos {
            scope.spawn(|| while volume.append(*ino, &[1; 3001]).is_ok() {});
        }
    });
    let held: u64 = inos.iter().chain([&file.ino]).map(|ino| volume.attr(*ino).unwrap().size).sum();
    assert_eq!(file.used(), held);
    assert!((6 * MIB as u64 - 3001..=6 * MIB as u64).contains(&held), "{held}");
    file.test.audit();
    file.test.store.core.settle_everything().unwrap();
    assert_eq!(file.used(), held);
    file.test.audit();
}

#[test]
fn a_full_disk_refuses_the_write_and_keeps_what_was_there() {
    let file = Written::with_quota(10 * MIB);
    file.append(&[2; 100]);
    let before = read_file(&file.volume, file.ino);
    file.test.faults.fail_writes.store(true, Ordering::Relaxed);
    assert!(file.try_append(50 * KIB).is_err());
    file.test.faults.fail_writes.store(false, Ordering::Relaxed);
    assert_eq!((file.size(), file.used()), (before.len() as u64, before.len() as u64));
    assert!(read_file(&file.volume, file.ino) == before && file.test.get(&file.bucket, "f").unwrap() == before);
    file.append(&[3; 100]);
    let Written { test, bucket, volume, .. } = file;
    drop(volume);
    let test = test.reopen();
    assert!(test.get(&bucket, "f").unwrap() == [before, vec![3; 100]].concat());
    test.audit_collected();
}

#[test]
fn syncing_a_dirty_file_syncs_its_in_place_blob_alone_and_only_if_it_changed() {
    let file = Written::new();
    let syncs = || (file.test.faults.file_syncs.load(Ordering::Relaxed), file.test.store.stats().syncs);
    file.volume.sync(file.ino).unwrap();
    let (files, metadata) = syncs();
    for round in 1..=5 {
        file.append(&[2; 100]);
        if round % 2 == 0 { file.volume.sync(file.ino) } else { file.volume.sync_without_time(file.ino) }.unwrap();
        assert_eq!(syncs(), (files + round, metadata));
    }
    file.volume.sync_without_time(file.ino).unwrap();
    assert_eq!(syncs(), (files + 5, metadata));
    find(&file.volume, "f").unwrap();
    file.volume.create(file.volume.root(), "other", by_root(0o644)).unwrap();
    file.volume.sync_without_time(file.ino).unwrap();
    assert_eq!(syncs(), (files + 5, metadata + 1), "names come with it");
    file.test.faults.fail_syncs.store(true, Ordering::Relaxed);
    file.append(&[2; 100]);
    assert!(file.volume.sync_without_time(file.ino).is_err() && file.try_append(1).is_err());
}

/// Opens a copy of a store's folder, as the death of its server would leave it.
fn after_crash(dir: &TempDir) -> TestStore {
    let copy = copy_of(dir);
    let report = crate::check::run(copy.path(), &Default::default()).unwrap();
    assert!(report.clean() && report.dirty_files > 0, "{:?}", report.problems);
    TestStore::at(copy).unwrap()
}

#[test]
fn a_crash_loses_nothing_of_what_was_written_in_place() {
    let file =
        Written::on(TestStore::on_disk(), CreateBucket { quota_bytes: Some(MIB as u64), ..bucket_request("live") });
    let shown = file.head();
    file.append(&[2; 20 * KIB]);
    file.volume.write(file.ino, 3, b"in place", false).unwrap();
    let (attr, content) = (file.volume.attr(file.ino).unwrap(), read_file(&file.volume, file.ino));
    let test = after_crash(&file.test.dir);
    let (tag, found) = test.get_with_tag(&file.bucket, "f").unwrap();
    assert!(found == content && tag != shown.etag && tag != file.head().etag);
    let volume = test.mount(&file.bucket);
    let after = volume.attr(file.ino).unwrap();
    assert_eq!((after.size, after.mode, after.btime), (attr.size, attr.mode, attr.btime));
    assert!(after.mtime >= file.volume.attr(file.ino).unwrap().btime);
    assert_eq!(test.store.usage(&file.bucket).unwrap().bytes, attr.size);
    assert!(matches!(volume.append(file.ino, &vec![1; MIB]), Err(Error::QuotaExceeded { .. })));
    volume.append(file.ino, &[9; 10]).unwrap();
    drop(volume);
    test.audit_collected();
}

#[test]
fn a_in_place_blob_that_cannot_be_opened_for_now_is_waited_for() {
    let file = Written::on(TestStore::on_disk(), bucket_request("live"));
    file.append(&[2; 20 * KIB]);
    let id = file.test.store.bucket(&file.bucket).unwrap().id;
    let blob = file.test.store.core.dirty.get(id, file.ino).unwrap().blob;
    let copy = file.test.folder_copy();
    let in_place = copy.path().join(format!("content/blobs/{:02x}/{blob}", blob.0 & 0xff));
    let held = std::fs::read(&in_place).unwrap();
    std::fs::remove_file(&in_place).unwrap();
    // A folder cannot be opened as a file, and is not a missing file either.
    std::fs::create_dir(&in_place).unwrap();
    let error = TestStore::at(copy.clone()).err().unwrap();
    assert!(error.to_string().contains(&blob.to_string()), "{error}");
    std::fs::remove_dir(&in_place).unwrap();
    std::fs::write(&in_place, held).unwrap();
    assert!(TestStore::at(copy).unwrap().get(&file.bucket, "f").unwrap() == read_file(&file.volume, file.ino));
}

#[test]
fn a_crash_forgets_no_time_that_was_set() {
    let file = Written::on(TestStore::on_disk(), bucket_request("live"));
    let past = file.volume.attr(file.ino).unwrap().btime;
    file.append(&[2; 100]);
    let other = file.volume.create(file.volume.root(), "g", by_root(0o644)).unwrap().ino;
    file.volume.append(other, &[1; 5 * KIB]).unwrap();
    file.volume.set_attr(file.ino, SetAttr { mtime: Some(past), ..SetAttr::default() }).unwrap();
    let test = after_crash(&file.test.dir);
    assert_eq!(test.mount(&file.bucket).attr(file.ino).unwrap().mtime, past);
}

#[test]
fn an_unlinked_file_that_is_dirty_ends_with_the_server() {
    let file = Written::on(TestStore::on_disk(), bucket_request("live"));
    file.append(&[2; 20 * KIB]);
    file.volume.unlink(file.volume.root(), "f").unwrap();
    file.append(&[2; 20 * KIB]);
    assert_eq!(read_file(&file.volume, file.ino).len(), 48 * KIB);
    let test = after_crash(&file.test.dir);
    assert!(matches!(test.mount(&file.bucket).attr(file.ino), Err(Error::Posix(Posix::Stale))));
    assert_eq!(test.store.usage(&file.bucket).unwrap().bytes, 0);
    test.audit_collected();
}

#[test]
fn a_store_that_is_closed_or_a_bucket_that_is_deleted_leaves_no_dirty_file() {
    let file = Written::on(TestStore::on_disk(), bucket_request("live"));
    let doomed = file.test.bucket("doomed");
    let volume = file.test.mount(&doomed);
    let ino = volume.create(volume.root(), "f", by_root(0o644)).unwrap().ino;
    volume.append(ino, &[1; 9 * KIB]).unwrap();
    file.test.run(file.test.store.delete_bucket(&doomed, Deletion::Force)).unwrap();
    assert!(volume.append(ino, b"x").is_err());
    let left = || crate::store::all(&*file.test.store.core.meta.snapshot(), &[tag::DIRTY]).unwrap().len();
    assert_eq!(left(), 1);
    file.append(&[2; 100]);
    file.test.store.close();
    assert_eq!(left(), 0);
    assert_eq!(file.head().size, 8 * KIB as u64 + 100);
}

#[test]
fn a_version_that_was_being_written_has_all_that_was_answered() {
    let file =
        Written::on(TestStore::in_memory(), CreateBucket { versioning: Versioning::Enabled, ..bucket_request("live") });
    file.append(&[2; 3 * KIB]);
    file.test.put(&file.bucket, "f", b"put").unwrap();
    file.append(&[3; 3 * KIB]);
    assert_eq!(file.size(), 14 * KIB as u64);
    let request = ListVersions { list: List { limit: 9, ..List::default() }, after_version: None };
    let versions = file.test.store.list_versions(&file.bucket, &request).unwrap().versions;
    assert_eq!(versions.iter().map(|version| version.object.size).collect::<Vec<_>>(), [3, 11 * KIB as u64]);
    file.volume.close_writer(file.ino).unwrap();
    file.volume.forget(file.ino, 1);
    file.test.audit_collected();
}

#[test]
fn a_write_takes_setuid_from_a_dirty_file_once() {
    let file = Written::new();
    file.append(&[2; 100]);
    file.volume.set_attr(file.ino, SetAttr { mode: Some(0o4755), ..SetAttr::default() }).unwrap();
    let write = |kill| file.volume.write(file.ino, 0, b"x", kill).unwrap();
    let mode = || file.volume.attr(file.ino).unwrap().mode;
    write(false);
    assert_eq!(mode(), 0o4755);
    write(true);
    assert_eq!(mode(), 0o755);
    assert_eq!(file.dirty(), [file.ino]);
}

#[test]
fn a_mount_of_a_snapshot_shows_the_file_as_it_was() {
    let file = Written::new();
    file.test.snapshot(&file.bucket, "snapped");
    file.append(&[2; 100]);
    let frozen = file.test.mount(&name("snapped"));
    assert_eq!(frozen.attr(file.ino).unwrap().size, 8 * KIB as u64);
    assert_eq!(file.size(), 8 * KIB as u64 + 100);
}

/// A file too long to be copied to its own in-place blob after a snapshot: new bytes are in such a blob, the others
/// where they were.
#[test]
fn what_is_cut_off_a_file_in_extents_is_cut_off_its_in_place_blob() {
    let file = Written::new();
    file.append(&vec![1; 2 * MIB]);
    file.test.snapshot(&file.bucket, "snapped");
    file.append(&[2; 100]);
    let lengths = || {
        let blobs = &file.test.store.core.blobs;
        let ids = blobs.file_ids().unwrap().into_iter();
        ids.map(|id| blobs.file(id).unwrap().len().unwrap()).collect::<Vec<_>>()
    };
    let whole = file.size();
    assert!(lengths().contains(&whole));
    let set = SetAttr { size: Some(MIB as u64), ..SetAttr::default() };
    file.volume.set_attr(file.ino, set).unwrap();
    assert!(!lengths().contains(&whole), "a crash could bring it back");
    file.append(&[3; 10]);
    let read = read_file(&file.volume, file.ino);
    assert!(read[..8 * KIB + 1] == vec![1; 8 * KIB + 1] && read[MIB..] == [3; 10]);
}
