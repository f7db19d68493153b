//! Many deletions in one commit, compared with the same ones in separate commits: refused ones leave nothing.

use super::random::Choices;
use super::test_store::{TestStore, find, key, make};
use crate::error::Result;
use crate::name::BucketName;
use crate::store::*;
use crate::volume::Make;

const KEYS: [&str; 7] = ["a/", "a/b", "a/c/", "a/c/d", "e/", "e/f", "g"];

impl TestStore {
    fn delete_all(&self, bucket: &BucketName, requests: &[DeleteObject]) -> Vec<Result<Deleted>> {
        self.run(self.store.delete_objects(bucket, requests.to_vec())).unwrap()
    }

    /// Everything that S3 and mounts see of a bucket, and its usage.
    fn state(&self, bucket: &BucketName) -> String {
        let usage = self.store.usage(bucket).unwrap();
        format!("{:?} {:?} {usage:?}", self.version_list(bucket), self.keys(bucket))
    }
}

#[test]
fn a_directory_that_only_mounts_see_from_now_on_leaves_a_snapshot_its_content() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("shared");
    test.put(&bucket, "a/", &[7; 20_000]).unwrap();
    let volume = test.mount(&bucket);
    make(&volume, find(&volume, "a").unwrap(), "l", Make::Symlink("x".into())).unwrap();
    let snapshot = test.snapshot(&bucket, "snapshot");
    for existed in [true, false] {
        let requests = [DeleteObject::new(key("a/")), DeleteObject::new(key("nothing"))];
        let answers = test.delete_all(&bucket, &requests);
        assert!(matches!(&answers[..], [Ok(one), Ok(_)] if one.existed == existed), "{answers:?}");
        test.audit_collected();
    }
    assert_eq!((test.keys(&bucket), test.get(&snapshot, "a/").unwrap()), (Vec::new(), vec![7; 20_000]));
}

/// Two buckets with the same history.
struct MirroredBuckets<'a> {
    test: &'a TestStore,
    /// The bucket whose deletions share commits.
    many: BucketName,
    /// The bucket whose deletions have separate commits.
    single: BucketName,
    choices: Choices,
}

impl MirroredBuckets<'_> {
    fn step(&mut self, step: usize) {
        let at = *self.choices.of(&KEYS);
        match self.choices.below(10) {
            0..4 => {
                let (len, held) = (*self.choices.of(&[9, 20_000]), self.choices.once_in(3));
                let data = self.choices.bytes(len);
                self.both(|test, bucket| put(test, bucket, at, &data, held));
            }
            4 => self.both(|test, bucket| link(test, bucket, at)),
            5 => self.both(|test, bucket| drop(test.snapshot(bucket, &format!("{bucket}-{step}")))),
            _ => self.delete(),
        }
    }

    fn both(&self, change: impl Fn(&TestStore, &BucketName)) {
        [&self.many, &self.single].into_iter().for_each(|bucket| change(self.test, bucket));
    }

    fn delete(&mut self) {
        let requests: Vec<_> = (0..self.choices.below(5) + 1).map(|_| self.request()).collect();
        let together = self.test.delete_all(&self.many, &requests);
        let single =
            |request: &DeleteObject| self.test.run(self.test.store.delete_object(&self.single, request.clone()));
        let alone: Vec<_> = requests.iter().map(single).collect();
        assert_eq!(format!("{together:?}"), format!("{alone:?}"), "{requests:#?}");
    }

    fn request(&mut self) -> DeleteObject {
        let at = *self.choices.of(&KEYS);
        let version = self.choices.once_in(2).then(|| self.version(at));
        let condition = match self.choices.once_in(6) {
            true => Condition { if_match: Some("other".to_owned().into()), ..Condition::default() },
            false => Condition::default(),
        };
        DeleteObject { version, condition, ..DeleteObject::new(key(at)) }
    }

    fn version(&mut self, at: &str) -> String {
        let listed = self.test.all_versions(&self.single);
        let of_key = listed.into_iter().filter(|(key, _)| key == at);
        let mut ids: Vec<String> = of_key.map(|(_, id)| id.trim_start_matches("marker ").to_owned()).collect();
        ids.extend(["null".to_owned(), "no id".to_owned()]);
        self.choices.of(&ids).clone()
    }
}

fn put(test: &TestStore, bucket: &BucketName, at: &str, data: &[u8], held: bool) {
    test.put(bucket, at, data).unwrap();
    // Refused for directories, and in a bucket without object lock.
    drop(test.run(test.store.set_legal_hold(bucket, &key(at), None, held)));
}

/// Creates a name that S3 does not see, in the directory of a key.
fn link(test: &TestStore, bucket: &BucketName, at: &str) {
    let volume = test.mount(bucket);
    let directory = at.rsplit_once('/').map_or("", |(directory, _)| directory);
    if let Ok(dir) = find(&volume, directory) {
        drop(make(&volume, dir, "link", Make::Symlink("x".into())));
    }
}

#[test]
fn deletions_in_one_commit_match_deletions_one_by_one() {
    for locks in [false, true] {
        let test = TestStore::in_memory();
        let made = |bucket| if locks { test.locking(bucket, None) } else { test.bucket(bucket) };
        let (many, single) = (made("many"), made("single"));
        let mut buckets = MirroredBuckets { test: &test, many, single, choices: Choices::new() };
        for step in 0..200 {
            buckets.step(step);
            assert_eq!(test.state(&buckets.many), test.state(&buckets.single), "step {step}");
        }
        test.audit_collected();
    }
}
