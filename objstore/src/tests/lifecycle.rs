//! Lifecycle rules: the worker compared with a model of the rules, and interference by clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::test_store::{TestStore, by_root, find, key, make, make_file, name, read_file};
use crate::clock::{Clock, Timestamp};
use crate::lifecycle::{CHANGES_MAX, Day, LOOKED_MAX, Pass, Worker};
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Make, SetAttr};

/// The length of a day in these tests: a thousand seconds, so that the duration of operations does not matter.
pub(super) const DAY: i64 = 1_000_000_000_000;

/// A clock that the test sets; each reading is a nanosecond after the last.
pub(super) struct Set(AtomicI64);

impl Clock for Set {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Set {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_000 * DAY)))
    }

    pub(super) fn pass(&self, days: i64) {
        self.0.fetch_add(days * DAY, Ordering::Relaxed);
    }

    pub(super) fn pass_half_a_day(&self) {
        self.0.fetch_add(DAY / 2, Ordering::Relaxed);
    }
}

fn day() -> Day {
    Day::new(Duration::from_nanos(DAY.unsigned_abs()))
}

pub(super) fn rule(change: impl FnOnce(&mut LifecycleRule)) -> LifecycleRule {
    let mut rule =
        LifecycleRule { enabled: true, filter: Some(LifecycleFilter::default()), ..LifecycleRule::default() };
    change(&mut rule);
    rule
}

fn below(prefix: &str, change: impl FnOnce(&mut LifecycleRule)) -> LifecycleRule {
    let filter = LifecycleFilter { prefix: Some(prefix.into()), ..LifecycleFilter::default() };
    rule(|rule| {
        rule.filter = Some(filter);
        change(rule);
    })
}

impl TestStore {
    pub(super) fn set_rules(&self, bucket: &BucketName, rules: Vec<LifecycleRule>) {
        let change = |settings: &mut Settings| {
            settings.lifecycle = rules;
            Ok(())
        };
        self.run(self.store.change_settings(bucket, change)).unwrap();
    }

    pub(super) fn keep_versions(&self, bucket: &BucketName, versioning: Versioning) {
        let set = SetBucket { versioning: Some(versioning), ..SetBucket::default() };
        self.run(self.store.set_bucket(bucket, set)).unwrap();
    }

    /// Runs one complete pass; returns the largest number of items that one step examined.
    pub(super) fn expire(&self) -> u64 {
        let mut pass = Pass::resume(&self.store.core, day()).unwrap();
        let mut most = 0;
        loop {
            let stepped = pass.step(&self.store.core).unwrap();
            most = most.max(stepped.looked_at);
            if stepped.done {
                pass.finish(&self.store.core).unwrap();
                return most;
            }
        }
    }

    pub(super) fn all_versions(&self, bucket: &BucketName) -> Vec<(String, String)> {
        let all = ListVersions { list: List { limit: usize::MAX, ..List::default() }, ..ListVersions::default() };
        let listed = self.store.list_versions(bucket, &all).unwrap();
        let shown = |version: VersionInfo| {
            let id = version.object.version.clone().unwrap_or_default();
            (version.object.key, if version.marker { format!("marker {id}") } else { id })
        };
        listed.versions.into_iter().map(shown).collect()
    }
}

#[test]
fn objects_expire_by_age_date_prefix_size_and_tag() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("plain");
    for at in ["logs/a", "logs/b", "tmp/small", "tmp/large", "tagged", "past", "kept"] {
        test.put(&bucket, at, &vec![1; if at == "tmp/large" { 9 } else { 3 }]).unwrap();
    }
    let tags: BTreeMap<String, String> = [("class".to_owned(), "scratch".to_owned())].into();
    test.run(test.store.set_tags(&bucket, &key("tagged"), None, tags.clone())).unwrap();
    let filter = |filter| move |rule: &mut LifecycleRule| (rule.filter, rule.expire_days) = (Some(filter), Some(2));
    test.set_rules(
        &bucket,
        vec![
            below("logs/", |rule| rule.expire_days = Some(1)),
            rule(filter(LifecycleFilter { prefix: Some("tmp/".into()), size_above: Some(5), ..Default::default() })),
            rule(filter(LifecycleFilter { tags, ..Default::default() })),
            below("past", |rule| rule.expire_date = Some(clock.now().0)),
            below("", |rule| (rule.enabled, rule.expire_days) = (false, Some(1))),
        ],
    );
    test.expire();
    assert_eq!(test.keys(&bucket), ["kept", "logs/a", "logs/b", "tagged", "tmp/large", "tmp/small"]);
    clock.pass(1);
    test.put(&bucket, "logs/b", b"new").unwrap();
    test.expire();
    assert_eq!(test.keys(&bucket), ["kept", "logs/b", "tagged", "tmp/large", "tmp/small"]);
    clock.pass(1);
    test.expire();
    assert_eq!(test.keys(&bucket), ["kept", "tmp/small"]);
    test.audit_collected();
}

#[test]
fn mounted_files_expire_but_directories_of_mounts_stay() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("mounted");
    let volume = test.mount(&bucket);
    let dir = make(&volume, volume.root(), "dir", Make::Directory).unwrap();
    let open = volume.make(dir, "open", Make::File, by_root(0o644)).unwrap().ino;
    volume.write(open, 0, b"still here", false).unwrap();
    let touched = make_file(&volume, dir, "old-time").unwrap();
    let past = SetAttr { mtime: Some(Timestamp(DAY)), ..SetAttr::default() };
    volume.set_attr(touched, past).unwrap();
    test.put(&bucket, "put/", b"").unwrap();
    test.set_rules(&bucket, vec![rule(|rule| rule.expire_days = Some(1))]);
    test.expire();
    assert_eq!(
        test.keys(&bucket),
        ["dir/", "dir/old-time", "dir/open", "put/"],
        "a time that a mount set makes no age"
    );
    clock.pass(1);
    test.expire();
    assert_eq!(test.keys(&bucket), ["dir/"]);
    assert_eq!(find(&volume, "dir").unwrap(), dir);
    assert_eq!(read_file(&volume, open), b"still here");
    volume.forget(open, 1);
    drop(volume);
    test.audit_collected();
}

#[test]
fn a_file_written_in_place_is_as_young_as_its_last_write() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("hot");
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    volume.write(ino, 0, &[1; 20_000], false).unwrap();
    test.set_rules(&bucket, vec![rule(|rule| rule.expire_days = Some(1))]);
    for at in 0..3 {
        volume.write(ino, at * 10, b"again", false).unwrap();
        clock.pass(1);
        volume.write(ino, at * 10, b"again", false).unwrap();
        test.expire();
        assert_eq!(test.keys(&bucket), ["f"]);
    }
    clock.pass(1);
    test.expire();
    assert_eq!(test.keys(&bucket), [""; 0]);
}

#[test]
fn the_last_write_counts_whatever_time_the_writer_sets() {
    let clock = Set::new();
    for versioned in [false, true] {
        let test = TestStore::with_clock(clock.clone());
        let bucket = test.bucket("old-times");
        if versioned {
            test.keep_versions(&bucket, Versioning::Enabled);
        }
        let volume = test.mount(&bucket);
        for (at, len) in [("small", 9), ("large", 20_000)] {
            test.put(&bucket, at, &vec![1; len]).unwrap();
        }
        clock.pass(2);
        for at in ["small", "large"] {
            let ino = find(&volume, at).unwrap();
            volume.open_writer(ino).unwrap();
            volume.write(ino, 0, b"1", false).unwrap();
            volume.write(ino, 1, b"2", false).unwrap();
            volume.close_writer(ino).unwrap();
            for time in [0, 2_000 * DAY] {
                volume.set_attr(ino, SetAttr { mtime: Some(Timestamp(time)), ..SetAttr::default() }).unwrap();
            }
        }
        test.set_rules(&bucket, vec![rule(|rule| rule.expire_days = Some(1))]);
        test.expire();
        assert_eq!(test.keys(&bucket), ["large", "small"]);
        clock.pass(1);
        test.expire();
        assert_eq!(test.keys(&bucket), [""; 0], "nor does a time to come make them younger");
    }
}

#[test]
fn versions_expire_down_to_the_lone_marker_and_that_too() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("versions");
    test.keep_versions(&bucket, Versioning::Enabled);
    for body in ["1", "2", "3", "4"] {
        test.put(&bucket, "k", body.as_bytes()).unwrap();
    }
    test.set_rules(
        &bucket,
        vec![rule(|rule| (rule.expire_days, rule.noncurrent_days, rule.noncurrent_kept) = (Some(2), Some(1), Some(2)))],
    );
    clock.pass(1);
    test.expire();
    assert_eq!(test.all_versions(&bucket).len(), 3, "the current one and the two newest of the others");
    clock.pass(1);
    test.expire();
    assert_eq!(test.keys(&bucket), [""; 0]);
    let versions = test.all_versions(&bucket);
    assert_eq!(versions.len(), 3, "{versions:?}");
    assert!(versions[0].1.starts_with("marker"));
    test.set_rules(&bucket, vec![rule(|rule| (rule.expire_days, rule.noncurrent_days) = (Some(2), Some(1)))]);
    clock.pass(1);
    test.expire();
    assert_eq!(test.all_versions(&bucket).len(), 1);
    clock.pass(1);
    test.expire();
    assert_eq!(test.all_versions(&bucket), []);
    test.audit_collected();
}

#[test]
fn a_lone_marker_goes_at_once_if_a_rule_says_so() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("markers");
    test.keep_versions(&bucket, Versioning::Enabled);
    test.delete(&bucket, "lone").unwrap();
    test.put(&bucket, "hidden", b"x").unwrap();
    test.delete(&bucket, "hidden").unwrap();
    test.delete(&bucket, "back").unwrap();
    test.put(&bucket, "back", b"x").unwrap();
    test.set_rules(&bucket, vec![rule(|rule| rule.expire_markers = Some(true))]);
    test.expire();
    let keys: Vec<String> = test.all_versions(&bucket).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["back", "back", "hidden", "hidden"]);
    test.set_rules(&bucket, vec![rule(|rule| rule.noncurrent_days = Some(1))]);
    clock.pass(1);
    test.expire();
    let keys: Vec<String> = test.all_versions(&bucket).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["back", "hidden"], "a marker that is no longer the newest is a noncurrent version");
}

#[test]
fn what_is_locked_stays() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("locked");
    test.keep_versions(&bucket, Versioning::Enabled);
    let lock = |settings: &mut Settings| {
        settings.object_lock = Some(ObjectLock { default: None });
        Ok(())
    };
    test.run(test.store.change_settings(&bucket, lock)).unwrap();
    for at in ["held", "retained"] {
        test.put(&bucket, at, b"1").unwrap();
    }
    test.run(test.store.set_legal_hold(&bucket, &key("held"), None, true)).unwrap();
    let until = Timestamp(clock.now().0 + 3 * DAY);
    let retention = Retention { mode: RetentionMode::Governance, until };
    test.run(test.store.set_retention(&bucket, &key("retained"), None, Some(retention), false)).unwrap();
    test.set_rules(&bucket, vec![rule(|rule| (rule.expire_days, rule.noncurrent_days) = (Some(1), Some(1)))]);
    clock.pass(1);
    test.expire();
    assert_eq!(test.all_versions(&bucket).len(), 4, "a delete marker above each");
    clock.pass(1);
    test.expire();
    assert_eq!(test.all_versions(&bucket).len(), 4);
    clock.pass(1);
    test.expire();
    let keys: Vec<String> = test.all_versions(&bucket).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["held", "held", "retained"]);
}

#[test]
fn uploads_are_aborted_by_age() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("uploads");
    for at in ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "b/1"] {
        let upload = test.begin_upload(&bucket, at);
        test.put_part(&upload, 1, &[7; 200_000]).unwrap();
    }
    test.set_rules(&bucket, vec![below("a/", |rule| rule.abort_upload_days = Some(2))]);
    clock.pass(1);
    test.begin_upload(&bucket, "a/young");
    clock.pass(1);
    test.expire();
    let all = List { limit: usize::MAX, ..List::default() };
    let left = test.store.uploads(&bucket, &all, None).unwrap().uploads;
    assert_eq!(left.iter().map(|upload| upload.key.as_str()).collect::<Vec<_>>(), ["a/young", "b/1"]);
    assert_eq!(test.store.usage(&bucket).unwrap().upload_bytes, 200_000);
    test.audit_collected();
}

#[test]
fn ten_thousand_keys_expire_in_bounded_steps_over_restarts() {
    let clock = Set::new();
    let mut test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("many");
    let count = 10_000;
    for at in 0..count {
        test.put(&bucket, &format!("{}/{at:05}", if at % 2 == 0 { "even" } else { "odd" }), b"x").unwrap();
    }
    test.set_rules(&bucket, vec![below("even/", |rule| rule.expire_days = Some(1))]);
    clock.pass(1);
    let (mut steps, mut looked_at) = (0, 0);
    let mut pass = Pass::resume(&test.store.core, day()).unwrap();
    loop {
        let stepped = pass.step(&test.store.core).unwrap();
        if stepped.done {
            pass.finish(&test.store.core).unwrap();
            break;
        }
        steps += 1;
        looked_at += stepped.looked_at;
        assert!(stepped.looked_at <= LOOKED_MAX as u64);
        if steps % 20 == 0 {
            test = test.reopen();
            pass = Pass::resume(&test.store.core, day()).unwrap();
        }
    }
    assert!(steps >= count / 2 / CHANGES_MAX, "{steps}");
    assert_eq!(looked_at, count as u64 / 2, "nothing outside the prefix, and nothing twice");
    let keys = test.keys(&bucket);
    assert!(keys.len() == count / 2 && keys.iter().all(|key| key.starts_with("odd/")));
    test.audit_collected();
}

#[test]
fn a_rule_that_goes_while_the_worker_runs_is_not_applied_any_more() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("changing");
    for at in 0..200 {
        test.put(&bucket, &format!("k{at:03}"), b"x").unwrap();
    }
    test.set_rules(&bucket, vec![rule(|rule| rule.expire_days = Some(1))]);
    clock.pass(1);
    let mut pass = Pass::resume(&test.store.core, day()).unwrap();
    pass.step(&test.store.core).unwrap();
    let left = test.keys(&bucket).len();
    assert_eq!(left, 200 - CHANGES_MAX);
    test.set_rules(&bucket, Vec::new());
    while !pass.step(&test.store.core).unwrap().done {}
    assert_eq!(test.keys(&bucket).len(), left);
    let gone = test.bucket("gone");
    test.set_rules(&gone, vec![rule(|rule| rule.expire_days = Some(1))]);
    test.run(test.store.delete_bucket(&gone, Deletion::IfEmpty)).unwrap();
    test.expire();
}

#[test]
fn the_worker_runs_by_itself_and_tells_what_it_did() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("worker");
    test.put(&bucket, "k", b"x").unwrap();
    let now = test.store.core.clock.now().0;
    test.set_rules(&bucket, vec![rule(|rule| rule.expire_date = Some(now))]);
    let worker = Worker::start(&test.store, Day::new(Duration::from_millis(10))).unwrap();
    for _ in 0..500 {
        if worker.stats().passes > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    worker.stop();
    let stats = worker.stats();
    assert_eq!((stats.current, stats.errors, stats.progress), (1, 0, None));
    assert!(stats.passes >= 1 && stats.looked_at >= 1 && stats.completed.is_some());
    assert_eq!(test.keys(&bucket), [""; 0]);
}

#[test]
fn the_end_of_an_object_is_told_by_calendar_days() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("told");
    test.set_rules(&bucket, vec![below("a/", |rule| (rule.id, rule.expire_days) = ("short".into(), Some(1)))]);
    let put = test.put(&bucket, "a/k", b"x").unwrap();
    let told = put.expiration.unwrap();
    assert_eq!(told.rule, "short");
    let midnight = 24 * 60 * 60 * 1_000_000_000;
    assert!(told.at.0 % midnight == 0 && told.at.0 > put.modified.0 + midnight - 1);
    assert_eq!(test.store.head_object(&bucket, &key("a/k"), None).unwrap().expiration.unwrap(), told);
    assert_eq!(test.store.expiration(&bucket, &key("a/k")).unwrap().unwrap(), told);
    assert!(test.put(&bucket, "b", b"x").unwrap().expiration.is_none());
    assert!(test.store.expiration(&name("told"), &key("none")).unwrap().is_none());
}
