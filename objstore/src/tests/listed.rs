//! Listings compared with the inodes, after random operations of S3, mounts, snapshots, clones and crashes. (The audit
//! compares each name's copy of attributes with its inode, after this schedule and after those of all other models.)

use std::collections::BTreeMap;

use prost::Message;

use super::random::Choices;
use super::test_store::{self, TestStore, find, key};
use crate::clock::Timestamp;
use crate::meta::Durability;
use crate::name::BucketName;
use crate::record::decode;
use crate::record::key::{self as keys, tag};
use crate::record::listed::{ListedDirent, ListingEntry};
use crate::store::*;
use crate::volume::{Make, Rename, RenameMode, SetAttr, Volume};

const KEYS: [&str; 7] = ["a", "b", "d/a", "d/b", "d/e/a", "f/", "f/a"];

/// The directory of a key as a mount shows it, and the name in it.
fn place(volume: &Volume, at: &str) -> Option<(u64, String)> {
    let (dir, name) = at.trim_end_matches('/').rsplit_once('/').unwrap_or(("", at.trim_end_matches('/')));
    Some((find(volume, dir).ok()?, name.to_owned()))
}

/// Asserts that a bucket's listing agrees with the attributes of each object.
fn compare(test: &TestStore, bucket: &BucketName) {
    let all = List { limit: usize::MAX, ..List::default() };
    for listed in test.store.list_objects(bucket, &all).unwrap().objects {
        let Listed { key: at, size, etag, modified, checksums, storage_class } = listed;
        let info = test.store.head_object(bucket, &key(&at), None).unwrap();
        assert_eq!((size, etag, modified, checksums), (info.size, info.etag, info.modified, info.checksums), "{at:?}");
        assert_eq!(storage_class, info.headers.storage_class, "{at:?}");
    }
}

/// The number of names in all buckets that have a copy of attributes.
fn carried(test: &TestStore) -> usize {
    let names = all(&*test.store.core.meta.snapshot(), &[tag::DIRENT]).unwrap();
    let names = names.iter().filter(|name| !name.value.is_empty());
    names.filter(|name| decode::<ListedDirent>("a name", &name.value).unwrap().shown.is_some()).count()
}

struct Schedule {
    test: TestStore,
    buckets: Vec<BucketName>,
    frozen: Vec<BucketName>,
    volume: Volume,
    choices: Choices,
}

impl Schedule {
    fn bucket(&mut self) -> BucketName {
        self.choices.of(&self.buckets).clone()
    }

    fn at(&mut self) -> &'static str {
        KEYS[self.choices.below(KEYS.len())]
    }

    fn by_s3(&mut self) {
        let (bucket, at, from, len) = (self.bucket(), self.at(), self.at(), self.choices.below(6000));
        // Refusals (a locked object, a directory in the way) do not matter here.
        match self.choices.below(10) {
            0..=4 => {
                let checksums = vec![Checksum { algorithm: "CRC32".into(), value: format!("{len}==") }];
                let data = self.choices.bytes(len);
                let test = &self.test;
                let put = async {
                    let content = test.store.stage(data.clone().into()).await?;
                    let (headers, lock, etag) = (Headers::default(), Lock::default(), test_store::md5(&data));
                    let (metadata, tags, access, condition) = Default::default();
                    let (bucket, key) = (bucket.clone(), key(at));
                    let put = PutObject {
                        bucket,
                        key,
                        content,
                        etag,
                        headers,
                        metadata,
                        tags,
                        checksums,
                        lock,
                        access,
                        condition,
                    };
                    test.store.put_object(put).await
                };
                let _ = self.test.run(put);
            }
            5 => drop(self.test.copy((&bucket, from), (&bucket, at))),
            6 => drop(self.test.delete(&bucket, at)),
            7 => {
                let tags = BTreeMap::from([("tag".to_owned(), len.to_string())]);
                let _ = self.test.run(self.test.store.set_tags(&bucket, &key(at), None, tags));
            }
            8 => {
                let upload = self.test.begin_upload(&bucket, at);
                let part = self.test.put_part(&upload, 1, &vec![1; len + 1]).unwrap();
                let _ = self.test.complete(&upload, &[&part]);
            }
            _ => {
                let state = *self.choices.of(&[Versioning::Enabled, Versioning::Suspended]);
                if self.choices.once_in(4) {
                    let _ = self.test.switch_versioning(&bucket, state);
                }
            }
        }
    }

    fn by_mount(&mut self) {
        let (at, other) = (self.at(), self.at());
        let (offset, len) = (self.choices.below_u64(5000), 1 + self.choices.below(5000));
        let volume = &self.volume;
        let (Some((parent, name)), Some((to, to_name))) = (place(volume, at), place(volume, other)) else { return };
        let ino = find(volume, at).ok();
        match (self.choices.below(11), ino) {
            (0, _) => drop(test_store::make(volume, parent, &name, Make::File)),
            (1, _) => drop(test_store::make(volume, parent, &name, Make::Directory)),
            (2 | 3, Some(ino)) => drop(volume.write(ino, offset, &self.choices.bytes(len), false)),
            (4, Some(ino)) => {
                drop(volume.set_attr(ino, SetAttr { size: Some(offset), ..SetAttr::default() }));
            }
            (5, Some(ino)) => {
                let mtime = Some(Timestamp(i64::try_from(offset).unwrap()));
                drop(volume.set_attr(ino, SetAttr { mtime, ..SetAttr::default() }));
            }
            (6, Some(ino)) => drop(volume.set_attr(ino, SetAttr { mode: Some(0o600), ..SetAttr::default() })),
            (7, Some(ino)) => {
                if let Ok(linked) = volume.link(ino, to, &to_name) {
                    volume.forget(linked.ino, 1);
                }
            }
            (8, _) => drop(volume.unlink(parent, &name)),
            (_, _) => {
                let mode = *self.choices.of(&[RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]);
                let (from_parent, from_name) = (parent, name);
                let rename = Rename { from_parent, from_name, to_parent: to, to_name, mode };
                drop(volume.rename(rename));
            }
        }
    }

    fn branch(&mut self, step: usize) {
        let bucket = self.bucket();
        if self.buckets.len() > 3 || self.frozen.len() > 3 {
            return;
        }
        let frozen = self.test.snapshot(&bucket, &format!("snapshot-{step}"));
        if self.choices.once_in(2) {
            let source = Source::Snapshot(frozen.to_string());
            self.buckets.push(self.test.clone_of(source, &format!("clone-{step}")));
        }
        self.frozen.push(frozen);
    }

    fn reopen(self) -> Self {
        let Self { test, buckets, frozen, volume, mut choices } = self;
        drop(volume);
        let test = if choices.once_in(2) { test.killed(&[]) } else { test.reopen() };
        let volume = test.mount(&buckets[choices.below(buckets.len())]);
        Self { test, buckets, frozen, volume, choices }
    }
}

#[test]
fn listings_show_what_inodes_say_whatever_happened() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("listed");
    let volume = test.mount(&bucket);
    let (buckets, frozen, choices) = (vec![bucket], Vec::new(), Choices::new());
    let mut schedule = Schedule { test, buckets, frozen, volume, choices };
    let mut seen = 0;
    for step in 0..1500 {
        match schedule.choices.below(40) {
            0..=19 => schedule.by_s3(),
            20..=37 => schedule.by_mount(),
            38 => schedule.branch(step),
            _ => schedule = schedule.reopen(),
        }
        for bucket in schedule.buckets.iter().chain(&schedule.frozen) {
            compare(&schedule.test, bucket);
        }
        if step % 50 == 0 {
            schedule.test.audit();
        }
        seen += carried(&schedule.test);
    }
    assert!(seen > 1500, "names carry what listings show: {seen}");
    drop(schedule.volume);
    schedule.test.audit_collected();
}

/// Rewrites the directory entry of the key `a`.
fn rewrite(test: &TestStore, change: impl Fn(ListedDirent) -> Vec<u8>) {
    let names = all(&*test.store.core.meta.snapshot(), &[tag::DIRENT]).unwrap();
    let found = names.into_iter().find(|pair| keys::text_at(&pair.key, keys::DIRENT_NAME_AT) == Some("a")).unwrap();
    let value = change(decode("a name", &found.value).unwrap());
    let write = test.store.core.meta.transact(Durability::Synced, move |txn| {
        txn.put(found.key.to_vec(), value);
        Ok(())
    });
    write.unwrap();
}

#[test]
fn names_of_an_older_store_are_listed_by_their_inodes() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("old");
    test.put(&bucket, "a", b"content").unwrap();
    test.put(&bucket, "b", b"other").unwrap();
    rewrite(&test, |name| name.dirent().encode_to_vec());
    compare(&test, &bucket);
    assert_eq!((test.keys(&bucket).len(), carried(&test)), (2, 1));
    let volume = test.mount(&bucket);
    volume.write(find(&volume, "a").unwrap(), 0, b"C", false).unwrap();
    compare(&test, &bucket);
    test.audit();
}

#[test]
fn a_name_that_shows_something_else_is_found_by_check_and_audit() {
    let dir = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let test = TestStore::at(dir.clone()).unwrap();
    let bucket = test.bucket("damaged");
    test.put(&bucket, "a", b"content").unwrap();
    test.audit();
    let other = |name: ListedDirent| {
        let shown = name.shown.clone().map(|shown| ListingEntry { size: 8, ..shown });
        ListedDirent { shown, ..name }.encode_to_vec()
    };
    rewrite(&test, other);
    assert!(super::audit::faults(&test.store).iter().any(|fault| fault.contains("shows")));
    drop(test);
    let report = crate::check::run(dir.path(), &Default::default()).unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("in listings")), "{:?}", report.problems);
}

#[test]
fn a_mount_takes_away_what_a_name_shows_when_it_changes_the_file() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("changed");
    let volume = test.mount(&bucket);
    for (at, change) in [
        ("write", (|volume, ino| drop(volume.write(ino, 0, b"x", false))) as fn(&Volume, u64)),
        ("time", |volume, ino| {
            drop(volume.set_attr(ino, SetAttr { mtime: Some(Timestamp(5)), ..SetAttr::default() }));
        }),
        ("size", |volume, ino| drop(volume.set_attr(ino, SetAttr { size: Some(2), ..SetAttr::default() }))),
        ("link", |volume, ino| drop(volume.link(ino, volume.root(), "linked"))),
    ] {
        test.put(&bucket, at, b"content").unwrap();
        let before = carried(&test);
        change(&volume, find(&volume, at).unwrap());
        compare(&test, &bucket);
        assert_eq!(carried(&test), before - 1, "{at}");
    }
    test.put(&bucket, "mode", b"content").unwrap();
    let before = carried(&test);
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    volume.set_attr(find(&volume, "mode").unwrap(), mode).unwrap();
    assert_eq!(carried(&test), before, "what listings show is the same as before");
    test.audit();
}
