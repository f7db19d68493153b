//! Versions compared with a naive list for each key, with random locks, tags, deletions and snapshots.

use std::collections::{BTreeMap, VecDeque};

use super::random::Choices;
use super::test_store::{TestStore, bucket_request, key, name};
use super::versions::shown;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::name::BucketName;
use crate::store::*;

/// Keys that share directories and whose versions lie close together.
const KEYS: [&str; 5] = ["a", "a/b", "a/b/c", "a-", "d/e"];
/// In the year 2096.
const LATER: i64 = 4_000_000_000;

/// A version of the naive list.
#[derive(Clone, Debug)]
struct Version {
    id: String,
    /// None of a delete marker.
    object: Option<Object>,
}

#[derive(Clone, Debug)]
struct Object {
    data: Vec<u8>,
    tags: BTreeMap<String, String>,
    lock: Lock,
}

/// By key, the newest first.
type Model = BTreeMap<&'static str, VecDeque<Version>>;

struct Run<'a> {
    test: &'a TestStore,
    bucket: BucketName,
    locks: bool,
    versioning: Versioning,
    model: Model,
    choices: Choices,
}

fn some_retention(choices: &mut Choices) -> Option<Retention> {
    let mode = if choices.once_in(4) { RetentionMode::Compliance } else { RetentionMode::Governance };
    let until = Timestamp::from_parts(LATER + i64::try_from(choices.below(4)).unwrap() * 3600, 0);
    (!choices.once_in(3)).then_some(Retention { mode, until })
}

/// Whether a lock lets its version be deleted, long before any of these retentions ends.
fn deletable(lock: &Lock, bypass: bool) -> bool {
    let retained = lock.retention.is_some_and(|kept| kept.mode == RetentionMode::Compliance || !bypass);
    lock.legal_hold != Some(true) && !retained
}

fn weakens(before: Option<Retention>, after: Option<Retention>) -> bool {
    let Some(before) = before else { return false };
    !after.is_some_and(|after| after.mode == before.mode && after.until >= before.until)
}

impl Run<'_> {
    fn step(&mut self) {
        let at = *self.choices.of(&KEYS);
        match self.choices.below(16) {
            0..5 => self.put(at),
            5..7 => self.delete(at),
            7..10 => self.delete_version(at),
            10 => self.set_tags(at),
            11..13 if self.locks => self.retain(at),
            13 if self.locks => self.hold(at),
            14 if !self.locks => self.switch(),
            _ => self.delete(at),
        }
    }

    /// What is put, or a delete marker, where only one version may be `null`.
    fn push(&mut self, at: &'static str, id: Option<String>, object: Option<Object>) {
        let versions = self.model.entry(at).or_default();
        if self.versioning == Versioning::Suspended {
            versions.retain(|version| version.id != "null");
        }
        versions.push_front(Version { id: id.unwrap(), object });
    }

    fn put(&mut self, at: &'static str) {
        let len = if self.choices.once_in(4) { 5 << 10 } else { 9 };
        let data = self.choices.bytes(len);
        let lock = match self.locks && self.choices.once_in(2) {
            true => Lock { retention: some_retention(&mut self.choices), legal_hold: None },
            false => Lock::default(),
        };
        let made = self.test.put_locked(&self.bucket, at, &data, lock).unwrap();
        self.push(at, made.version, Some(Object { data, tags: BTreeMap::new(), lock }));
    }

    fn delete(&mut self, at: &'static str) {
        let current = self.model.get(at).and_then(|versions| versions.front());
        let existed = current.is_some_and(|version| version.object.is_some());
        let deleted = self.test.delete(&self.bucket, at).unwrap();
        assert_eq!((deleted.existed, deleted.marker), (existed, true));
        self.push(at, deleted.version, None);
    }

    /// A version of a key, if it has one.
    fn some_version(&mut self, at: &'static str) -> Option<usize> {
        let count = self.model.get(at).map_or(0, VecDeque::len);
        (count > 0).then(|| self.choices.below(count))
    }

    fn delete_version(&mut self, at: &'static str) {
        let Some(index) = self.some_version(at) else { return };
        let bypass = self.choices.once_in(2);
        let version = self.model[at][index].clone();
        let deleted = self.test.delete_version(&self.bucket, at, &version.id, bypass);
        if version.object.as_ref().is_some_and(|object| !deletable(&object.lock, bypass)) {
            assert!(matches!(deleted, Err(Error::Denied { .. })), "{version:?}");
            return;
        }
        assert_eq!(deleted.unwrap().marker, version.object.is_none());
        self.model.get_mut(at).unwrap().remove(index);
    }

    /// Changes a version that is an object, and checks the refusal of one that is none.
    fn change<T: std::fmt::Debug>(
        &mut self,
        at: &'static str,
        change: impl FnOnce(&Self, &str) -> Result<T>,
        keep: impl FnOnce(&mut Object, Result<T>),
    ) {
        let Some(index) = self.some_version(at) else { return };
        let id = self.model[at][index].id.clone();
        let answer = change(self, &id);
        match &mut self.model.get_mut(at).unwrap()[index].object {
            Some(object) => keep(object, answer),
            None => assert!(matches!(answer, Err(Error::DeleteMarker { .. })), "{answer:?}"),
        }
    }

    fn set_tags(&mut self, at: &'static str) {
        let tags = BTreeMap::from([("t".to_owned(), self.choices.below(9).to_string())]);
        let asked = tags.clone();
        let set = |run: &Self, id: &str| run.test.run(run.test.store.set_tags(&run.bucket, &key(at), Some(id), asked));
        self.change(at, set, |object, answer| {
            answer.unwrap();
            object.tags = tags;
        });
    }

    fn retain(&mut self, at: &'static str) {
        let (to, bypass) = (some_retention(&mut self.choices), self.choices.once_in(2));
        let set = |run: &Self, id: &str| run.test.retain(&run.bucket, (at, Some(id)), to, bypass);
        self.change(at, set, |object, answer| {
            let before = object.lock.retention;
            let governed = before.is_some_and(|before| before.mode == RetentionMode::Governance);
            if weakens(before, to) && !(governed && bypass) {
                assert!(matches!(answer, Err(Error::Denied { .. })), "{before:?} to {to:?}");
            } else {
                answer.unwrap();
                object.lock.retention = to;
            }
        });
    }

    fn hold(&mut self, at: &'static str) {
        let on = self.choices.once_in(2);
        let set =
            |run: &Self, id: &str| run.test.run(run.test.store.set_legal_hold(&run.bucket, &key(at), Some(id), on));
        self.change(at, set, |object, answer| {
            answer.unwrap();
            object.lock.legal_hold = Some(on);
        });
    }

    fn switch(&mut self) {
        let suspends = self.versioning == Versioning::Enabled;
        self.versioning = if suspends { Versioning::Suspended } else { Versioning::Enabled };
        self.test.switch_versioning(&self.bucket, self.versioning).unwrap();
    }
}

/// All that is shown of a bucket is what the model says.
fn compare(test: &TestStore, bucket: &BucketName, model: &Model, choices: &mut Choices) {
    let mut expected = Vec::new();
    for (at, versions) in model {
        for version in versions {
            let marker = if version.object.is_some() { "" } else { "-" };
            expected.push(format!("{marker}{at} {}", version.id));
            compare_object(test, bucket, (at, Some(&version.id)), version);
        }
        if let Some(version) = versions.front() {
            compare_object(test, bucket, (at, None), version);
        }
    }
    assert_eq!(pages(test, bucket, 1 + choices.below(7)), expected);
    let current = model.iter().filter(|(_, versions)| versions.front().is_some_and(|first| first.object.is_some()));
    assert_eq!(test.keys(bucket), current.map(|(at, _)| (*at).to_owned()).collect::<Vec<_>>());
}

fn compare_object(test: &TestStore, bucket: &BucketName, (at, id): (&str, Option<&str>), version: &Version) {
    let opened = test.store.open_object(bucket, &key(at), id);
    match (&version.object, id) {
        (Some(object), _) => {
            let (info, reader) = opened.unwrap();
            assert_eq!((info.tags, info.lock), (object.tags.clone(), object.lock), "{at} {id:?}");
            assert_eq!(info.version.as_ref(), Some(&version.id));
            assert!(reader.read(0, object.data.len()).unwrap() == object.data && info.size == object.data.len() as u64);
        }
        (None, Some(_)) => assert!(matches!(opened, Err(Error::DeleteMarker { .. }))),
        (None, None) => {
            assert!(matches!(opened, Err(Error::NotFound { marker: Some(marker), .. }) if marker == version.id));
        }
    }
}

/// A whole listing of versions, page by page; the newest of each key is said to be the latest.
fn pages(test: &TestStore, bucket: &BucketName, limit: usize) -> Vec<String> {
    let mut request = ListVersions { list: List { limit, ..List::default() }, after_version: None };
    let (mut found, mut last) = (Vec::new(), None);
    loop {
        let page = test.store.list_versions(bucket, &request).unwrap();
        for version in &page.versions {
            assert_eq!(version.latest, last.as_ref() != Some(&version.object.key), "{version:?}");
            last = Some(version.object.key.clone());
            found.push(shown(version));
        }
        let Some((key, version)) = page.next else { return found };
        (request.list.after, request.after_version) = (Some(key), version);
    }
}

fn run(locks: bool) {
    let mut test = TestStore::in_memory();
    let bucket = match locks {
        true => test.locking("model", None),
        false => {
            let request = CreateBucket { versioning: Versioning::Enabled, ..bucket_request("model") };
            test.run(test.store.create_bucket(request)).unwrap();
            name("model")
        }
    };
    let (mut model, mut choices, mut versioning) = (Model::new(), Choices::new(), Versioning::Enabled);
    let mut held: Vec<(BucketName, Model)> = Vec::new();
    for round in 0..60 {
        let mut run = Run { test: &test, bucket: bucket.clone(), locks, versioning, model, choices };
        (0..12).for_each(|_| run.step());
        (model, choices, versioning) = (run.model, run.choices, run.versioning);
        compare(&test, &bucket, &model, &mut choices);
        if round % 8 == 3 {
            held.push((test.snapshot(&bucket, &format!("at-{round}")), model.clone()));
        }
        if round % 16 == 9 {
            held.push((test.clone_of(Source::Bucket(bucket.clone()), &format!("clone-{round}")), model.clone()));
        }
        if round % 20 == 19 {
            test = test.reopen();
            test.audit_collected();
        }
    }
    for (bucket, model) in held {
        compare(&test, &bucket, &model, &mut choices);
    }
    test.audit_collected();
}

#[test]
fn versions_that_come_and_go_agree_with_a_list_of_them() {
    run(false);
}

#[test]
fn locked_versions_agree_with_a_list_of_them() {
    run(true);
}
