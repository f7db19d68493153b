//! Versions: conditions, delete markers, object lock, tags, and what snapshots and clones keep of them.

use std::collections::BTreeMap;

use super::test_store::{TestStore, bucket_request, key, md5, name};
use crate::clock::Timestamp;
use crate::error::{Error, Noun, Result};
use crate::name::BucketName;
use crate::store::*;

/// In the year 2096.
const LATER: i64 = 4_000_000_000_000_000_000;
const HOUR: i64 = 3_600_000_000_000;

fn until(mode: RetentionMode, hours: i64) -> Option<Retention> {
    Some(Retention { mode, until: Timestamp(LATER + hours * HOUR) })
}

fn governance(hours: i64) -> Option<Retention> {
    until(RetentionMode::Governance, hours)
}

fn compliance(hours: i64) -> Option<Retention> {
    until(RetentionMode::Compliance, hours)
}

impl TestStore {
    fn versioned(&self, bucket: &str, versioning: Versioning) -> BucketName {
        let request = CreateBucket { versioning, ..bucket_request(bucket) };
        self.run(self.store.create_bucket(request)).unwrap();
        name(bucket)
    }

    pub(super) fn switch_versioning(&self, bucket: &BucketName, versioning: Versioning) -> Result<Bucket> {
        self.run(self.store.set_bucket(bucket, SetBucket { versioning: Some(versioning), ..SetBucket::default() }))
    }

    /// A bucket with object lock.
    pub(super) fn locking(&self, bucket: &str, default: Option<DefaultRetention>) -> BucketName {
        let request = CreateBucket { versioning: Versioning::Enabled, ..bucket_request(bucket) };
        let settings = Settings { object_lock: Some(ObjectLock { default }), ..Settings::default() };
        self.run(self.store.create_bucket_with(request, settings)).unwrap();
        name(bucket)
    }

    pub(super) fn put_locked(&self, bucket: &BucketName, at: &str, data: &[u8], lock: Lock) -> Result<ObjectInfo> {
        self.run(async {
            let request = PutObject {
                bucket: bucket.clone(),
                key: key(at),
                content: self.store.stage(data.to_vec().into()).await?,
                etag: md5(data),
                headers: Headers::default(),
                metadata: BTreeMap::new(),
                tags: BTreeMap::new(),
                checksums: Vec::new(),
                lock,
                access: Default::default(),
                condition: Condition::default(),
            };
            self.store.put_object(request).await
        })
    }

    pub(super) fn delete_version(&self, bucket: &BucketName, at: &str, id: &str, bypass: bool) -> Result<Deleted> {
        let version = Some(id.to_owned());
        let request = DeleteObject { version, bypass_governance: bypass, ..DeleteObject::new(key(at)) };
        self.run(self.store.delete_object(bucket, request))
    }

    pub(super) fn retain(
        &self,
        bucket: &BucketName,
        at: (&str, Option<&str>),
        to: Option<Retention>,
        bypass: bool,
    ) -> Result<Option<String>> {
        self.run(self.store.set_retention(bucket, &key(at.0), at.1, to, bypass))
    }

    /// Key and id of each version, newest first; of a delete marker with a `-` before it.
    pub(super) fn version_list(&self, bucket: &BucketName) -> Vec<String> {
        let request = ListVersions { list: List { limit: usize::MAX, ..List::default() }, after_version: None };
        self.store.list_versions(bucket, &request).unwrap().versions.iter().map(shown).collect()
    }
}

pub(super) fn shown(version: &VersionInfo) -> String {
    let object = &version.object;
    let marker = if version.marker { "-" } else { "" };
    format!("{marker}{} {}", object.key, object.version.as_deref().unwrap_or_default())
}

fn denied<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Denied { .. }))
}

fn invalid<T>(result: &Result<T>, of: &str) -> bool {
    matches!(result, Err(Error::Invalid { what, .. }) if *what == of)
}

#[test]
fn a_locked_version_is_deleted_by_nobody_who_may_not() {
    let test = TestStore::in_memory();
    let bucket = test.locking("locked", None);
    let put = |lock| test.put_locked(&bucket, "k", b"x", lock).unwrap().version.unwrap();
    let held = put(Lock { legal_hold: Some(true), retention: None });
    let governed = put(Lock { retention: governance(1), legal_hold: None });
    let strict = put(Lock { retention: compliance(1), legal_hold: None });
    let free = put(Lock::default());
    assert!(test.delete(&bucket, "k").unwrap().marker, "a delete marker hides it and deletes nothing");
    for id in [&held, &governed, &strict] {
        assert!(denied(&test.delete_version(&bucket, "k", id, false)));
    }
    for id in [&held, &strict] {
        assert!(denied(&test.delete_version(&bucket, "k", id, true)));
    }
    assert!(denied(&test.run(test.store.delete_bucket(&bucket, Deletion::Force))));
    test.delete_version(&bucket, "k", &free, false).unwrap();
    test.delete_version(&bucket, "k", &governed, true).unwrap();
    test.run(test.store.set_legal_hold(&bucket, &key("k"), Some(&held), false)).unwrap();
    let lock = test.store.head_object(&bucket, &key("k"), Some(&held)).unwrap().lock;
    assert_eq!(lock, Lock { retention: None, legal_hold: Some(false) });
    test.delete_version(&bucket, "k", &held, false).unwrap();
    assert_eq!(test.version_list(&bucket).len(), 2);
    test.audit_collected();
}

#[test]
fn retention_only_gets_stronger_but_for_a_bypass() {
    let test = TestStore::in_memory();
    let bucket = test.locking("retained", None);
    test.put(&bucket, "k", b"x").unwrap();
    let set = |to, bypass| test.retain(&bucket, ("k", None), to, bypass);
    set(governance(5), false).unwrap();
    assert!(denied(&set(governance(4), false)) && denied(&set(None, false)) && denied(&set(compliance(6), false)));
    set(governance(6), false).unwrap();
    set(governance(3), true).unwrap();
    set(None, true).unwrap();
    set(compliance(5), false).unwrap();
    for weaker in [compliance(4), governance(9), None] {
        assert!(denied(&set(weaker, true)), "{weaker:?}");
    }
    set(compliance(7), false).unwrap();
    let past = Some(Retention { mode: RetentionMode::Compliance, until: Timestamp(1) });
    assert!(invalid(&set(past, true), "retain until date"));
    assert_eq!(test.store.head_object(&bucket, &key("k"), None).unwrap().lock.retention, compliance(7));
}

#[test]
fn a_lock_needs_a_bucket_with_object_lock_and_a_key_with_versions() {
    let test = TestStore::in_memory();
    let plain = test.versioned("plain", Versioning::Enabled);
    test.put(&plain, "k", b"x").unwrap();
    let asked = Lock { retention: governance(1), legal_hold: None };
    assert!(invalid(&test.put_locked(&plain, "k", b"y", asked), "bucket for object lock"));
    assert!(invalid(&test.retain(&plain, ("k", None), None, false), "bucket for object lock"));
    let hold = test.run(test.store.set_legal_hold(&plain, &key("k"), None, true));
    assert!(invalid(&hold, "bucket for object lock"));
    assert_eq!(test.get(&plain, "k").unwrap(), b"x");

    let lock = ObjectLock { default: None };
    let never = test.bucket("never");
    assert!(invalid(&test.run(test.store.set_object_lock(&never, lock)), "bucket state"));
    test.switch_versioning(&never, Versioning::Suspended).unwrap();
    assert!(invalid(&test.run(test.store.set_object_lock(&never, lock)), "bucket state"));
    test.run(test.store.set_object_lock(&plain, lock)).unwrap();
    assert!(invalid(&test.switch_versioning(&plain, Versioning::Suspended), "bucket state"));
    test.switch_versioning(&plain, Versioning::Enabled).unwrap();
    assert!(test.put_locked(&plain, "k", b"y", asked).is_ok());
    assert!(invalid(&test.put_locked(&plain, "dir/", b"", asked), "key for object lock"));
}

#[test]
fn default_retention_holds_for_all_that_is_written_without_its_own() {
    let test = TestStore::in_memory();
    let days = DefaultRetention { mode: RetentionMode::Governance as i32, days: Some(2), years: None };
    let bucket = test.locking("default", Some(days));
    let put = test.put(&bucket, "put", &vec![1; 200 << 10]).unwrap();
    let upload = test.begin_upload(&bucket, "uploaded");
    let part = test.put_part(&upload, 1, b"part").unwrap();
    test.complete(&upload, &[&part]).unwrap();
    assert!(put.lock.retention.is_some());
    assert!(test.copy((&bucket, "put"), (&bucket, "copied")).unwrap().lock.retention.is_some());
    for at in ["put", "copied", "uploaded"] {
        let found = test.store.head_object(&bucket, &key(at), None).unwrap();
        let retention = found.lock.retention.unwrap();
        assert_eq!(retention.mode, RetentionMode::Governance);
        let kept = retention.until.0 - found.modified.0;
        assert!((48 * HOUR..48 * HOUR + HOUR).contains(&kept), "{at} for {kept}");
        assert!(denied(&test.delete_version(&bucket, at, &found.version.unwrap(), false)));
    }
    let own = test.put_locked(&bucket, "own", b"x", Lock { retention: compliance(1), legal_hold: None }).unwrap();
    assert_eq!(own.lock.retention, compliance(1));
    let plain = test.bucket("plain");
    assert_eq!(test.copy((&bucket, "own"), (&plain, "own")).unwrap().lock, Lock::default(), "a copy has its own lock");
    assert_eq!(test.put(&bucket, "dir/", b"").unwrap().lock, Lock::default());
}

#[test]
fn tags_are_a_versions_own_and_change_neither_tag_nor_time() {
    let test = TestStore::in_memory();
    let bucket = test.versioned("tags", Versioning::Enabled);
    let old = test.put(&bucket, "k", b"old").unwrap();
    let new = test.put(&bucket, "k", b"new").unwrap();
    let tags = |value: &str| BTreeMap::from([("a".to_owned(), value.to_owned())]);
    let set = |version: Option<&str>, to| test.run(test.store.set_tags(&bucket, &key("k"), version, to)).unwrap();
    assert_eq!(set(None, tags("new")), new.version);
    assert_eq!(set(old.version.as_deref(), tags("old")), old.version);
    for (before, tags) in [(new, tags("new")), (old, tags("old"))] {
        let after = test.store.head_object(&bucket, &key("k"), before.version.as_deref()).unwrap();
        assert_eq!(after, ObjectInfo { tags, ..before });
    }
    test.delete(&bucket, "k").unwrap();
    let hidden = test.run(test.store.set_tags(&bucket, &key("k"), None, BTreeMap::new()));
    assert!(matches!(hidden, Err(Error::NotFound { noun: Noun::Key, marker: Some(_), .. })));

    let plain = test.bucket("plain");
    test.put(&plain, "k", b"x").unwrap();
    assert_eq!(test.run(test.store.set_tags(&plain, &key("k"), Some("null"), tags("x"))).unwrap(), None);
    let volume = test.mount(&plain);
    super::test_store::make_file(&volume, volume.root(), "made").unwrap();
    let before = test.store.head_object(&plain, &key("made"), None).unwrap();
    test.run(test.store.set_tags(&plain, &key("made"), None, tags("x"))).unwrap();
    assert_eq!(test.store.head_object(&plain, &key("made"), None).unwrap().etag, before.etag);
    test.audit_collected();
}

#[test]
fn what_a_delete_marker_hides_is_said() {
    let test = TestStore::in_memory();
    let bucket = test.versioned("markers", Versioning::Enabled);
    let put = test.put(&bucket, "k", b"x").unwrap().version;
    let marker = test.delete(&bucket, "k").unwrap().version.unwrap();
    let head = |version| test.store.head_object(&bucket, &key("k"), version);
    assert!(matches!(head(None), Err(Error::NotFound { marker: Some(found), .. }) if found == marker));
    assert!(matches!(head(Some(&marker)), Err(Error::DeleteMarker { version, .. }) if version == marker));
    assert!(head(put.as_deref()).is_ok());
    let never = test.store.head_object(&bucket, &key("never"), None);
    assert!(matches!(never, Err(Error::NotFound { marker: None, .. })));
    for bad in ["", "0", "NULL", "xyz", "000000000000000G", "0000000000000000", "+00000000000000f"] {
        assert!(
            invalid(&head(Some(bad)), "version id")
                && invalid(&test.delete_version(&bucket, "k", bad, false), "version id")
        );
    }
    assert!(matches!(head(Some("0123456789abcdef")), Err(Error::NotFound { noun: Noun::Version, .. })));
}

#[test]
fn a_deletion_meets_its_conditions_on_what_it_names() {
    let test = TestStore::in_memory();
    let bucket = test.versioned("conditions", Versioning::Enabled);
    let delete = |version: Option<&str>, condition: Condition| {
        let version = version.map(str::to_owned);
        let request = DeleteObject { version, condition, ..DeleteObject::new(key("k")) };
        test.run(test.store.delete_object(&bucket, request))
    };
    let none = Condition::default;
    let tags = |tag: &str| if tag == "*" { EntityTags::Any } else { tag.to_owned().into() };
    let tag = |tag: &str| Condition { if_match: Some(tags(tag)), ..none() };
    let size = |size| Condition { size: Some(size), ..none() };
    let refused = |result: Result<Deleted>| matches!(result, Err(Error::Precondition { .. }));
    let absent = |result: Result<Deleted>| matches!(result, Err(Error::NotFound { noun: Noun::Key, .. }));
    assert!(absent(delete(None, tag("*"))) && absent(delete(None, tag("x"))));
    assert_eq!(test.version_list(&bucket), Vec::<String>::new(), "a refused deletion makes no marker");
    delete(None, size(1)).unwrap();

    let old = test.put(&bucket, "k", b"old").unwrap();
    let new = test.put(&bucket, "k", b"newer").unwrap();
    let (old_id, new_id) = (old.version.as_deref(), new.version.as_deref());
    assert!(refused(delete(None, tag(&old.etag))) && refused(delete(None, size(3))));
    assert!(refused(delete(old_id, tag(&new.etag))) && refused(delete(old_id, size(5))));
    let (secs, _) = old.modified.parts();
    let at = |secs| Condition { modified: Some(Timestamp::from_parts(secs, 0)), ..none() };
    assert!(refused(delete(old_id, at(secs - 1))));
    delete(old_id, Condition { if_match: Some(old.etag.clone().into()), size: Some(3), ..at(secs) }).unwrap();
    delete(old_id, tag("another")).unwrap();
    let marker = delete(None, tag(&new.etag)).unwrap();
    assert!(absent(delete(None, tag(&new.etag))) && absent(delete(None, tag("*"))) && refused(delete(None, size(5))));
    assert!(refused(delete(marker.version.as_deref(), tag("x"))));
    delete(marker.version.as_deref(), tag("*")).unwrap();
    assert_eq!(test.version_list(&bucket).len(), 2);
    delete(new_id, size(5)).unwrap();
    test.audit_collected();
}

#[test]
fn versions_are_paged_while_they_are_deleted() {
    let test = TestStore::in_memory();
    let bucket = test.versioned("pages", Versioning::Enabled);
    for at in ["a", "b/c", "d"] {
        for round in 0..5 {
            test.put(&bucket, at, &[round]).unwrap();
        }
        test.delete(&bucket, at).unwrap();
    }
    test.switch_versioning(&bucket, Versioning::Suspended).unwrap();
    test.put(&bucket, "d", b"null").unwrap();
    let mut request = ListVersions { list: List { limit: 2, ..List::default() }, after_version: None };
    let mut deleted = 0;
    loop {
        let page = test.store.list_versions(&bucket, &request).unwrap();
        for version in page.versions {
            test.delete_version(&bucket, &version.object.key, &version.object.version.unwrap(), false).unwrap();
            deleted += 1;
        }
        let Some((key, version)) = page.next else { break };
        (request.list.after, request.after_version) = (Some(key), version);
    }
    assert_eq!((deleted, test.version_list(&bucket)), (19, Vec::new()));
    test.run(test.store.delete_bucket(&bucket, Deletion::IfEmpty)).unwrap();
    test.audit_collected();
}

#[test]
fn a_page_of_versions_goes_on_after_a_common_prefix() {
    let test = TestStore::in_memory();
    let bucket = test.versioned("prefixes", Versioning::Enabled);
    for at in ["a/b", "a/c", "d"] {
        test.put(&bucket, at, b"1").unwrap();
        test.put(&bucket, at, b"2").unwrap();
    }
    let list = List { limit: 1, delimiter: Some("/".into()), ..List::default() };
    let mut request = ListVersions { list, after_version: None };
    let mut found = Vec::new();
    for _ in 0..9 {
        let page = test.store.list_versions(&bucket, &request).unwrap();
        found.extend(page.prefixes.into_iter().chain(page.versions.iter().map(|version| version.object.key.clone())));
        let Some((key, version)) = page.next else { break };
        // S3 answers `null` where there is no version.
        (request.list.after, request.after_version) = (Some(key), version.or_else(|| Some("null".into())));
    }
    assert_eq!(found, ["a/", "d", "d"]);
}

#[test]
fn snapshots_and_clones_hold_versions_and_their_locks() {
    let test = TestStore::in_memory();
    let bucket = test.locking("source", None);
    let old = test.put_locked(&bucket, "k", b"old", Lock { retention: compliance(1), legal_hold: None }).unwrap();
    let new = test.put(&bucket, "k", b"new").unwrap();
    test.delete(&bucket, "gone").unwrap();
    let before = test.version_list(&bucket);
    let taken = test.snapshot(&bucket, "taken");
    test.delete(&bucket, "k").unwrap();
    test.delete_version(&bucket, "k", new.version.as_deref().unwrap(), false).unwrap();
    assert_eq!(test.version_list(&taken), before);
    assert_eq!(test.store.bucket(&taken).unwrap().versioning, Versioning::Enabled);
    let head = |bucket: &BucketName, id: Option<&str>| test.store.head_object(bucket, &key("k"), id).unwrap();
    assert_eq!(head(&taken, None), new);
    assert_eq!(head(&taken, old.version.as_deref()), old);

    let sources =
        [(Source::Snapshot("taken".into()), before), (Source::Bucket(bucket.clone()), test.version_list(&bucket))];
    for (at, (source, expected)) in sources.into_iter().enumerate() {
        let cloned = test.clone_of(source.clone(), &format!("clone-{at}"));
        let again = CreateBucket { source: Some(source), ..bucket_request(cloned.as_str()) };
        assert_eq!(test.run(test.store.create_bucket(again)).unwrap().1, Outcome::Found);
        assert_eq!(test.version_list(&cloned), expected);
        assert_eq!(test.store.bucket(&cloned).unwrap().versioning, Versioning::Enabled);
        assert!(test.store.settings(&cloned).unwrap().settings.object_lock.is_some());
        assert!(denied(&test.delete_version(&cloned, "k", old.version.as_deref().unwrap(), true)));
        assert!(denied(&test.run(test.store.delete_bucket(&cloned, Deletion::Force))));
        let tags = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        test.run(test.store.set_tags(&cloned, &key("k"), old.version.as_deref(), tags)).unwrap();
    }
    assert_eq!(head(&bucket, old.version.as_deref()), old, "a clone's tags are its own");
    test.audit_collected();
}

#[test]
fn a_clone_keeps_versions_as_its_source_does_unless_told() {
    let test = TestStore::in_memory();
    let suspended = test.versioned("suspended", Versioning::Suspended);
    let plain = test.bucket("plain");
    let versioning = |source: &BucketName, asked, to: &str| {
        let source = Some(Source::Bucket(source.clone()));
        let request = CreateBucket { versioning: asked, source, ..bucket_request(to) };
        test.run(test.store.create_bucket(request)).unwrap().0.versioning
    };
    assert_eq!(versioning(&suspended, Versioning::Disabled, "one"), Versioning::Suspended);
    assert_eq!(versioning(&suspended, Versioning::Enabled, "two"), Versioning::Enabled);
    assert_eq!(versioning(&plain, Versioning::Disabled, "three"), Versioning::Disabled);
    assert_eq!(versioning(&plain, Versioning::Enabled, "four"), Versioning::Enabled);
}

#[test]
fn acknowledged_locks_survive_a_crash_and_the_store_checks_clean() {
    let test = TestStore::on_disk();
    let days = DefaultRetention { mode: RetentionMode::Compliance as i32, days: Some(1), years: None };
    let bucket = test.locking("locked", Some(days));
    let first = test.put(&bucket, "k", b"x").unwrap();
    let second = test.put_locked(&bucket, "k", b"y", Lock { retention: governance(1), legal_hold: None }).unwrap();
    test.run(test.store.set_legal_hold(&bucket, &key("k"), first.version.as_deref(), true)).unwrap();
    test.retain(&bucket, ("k", second.version.as_deref()), governance(2), false).unwrap();
    test.delete(&bucket, "k").unwrap();
    test.snapshot(&bucket, "taken");
    test.clone_of(Source::Snapshot("taken".into()), "cloned");
    let left = test.folder_copy();
    let crashed = TestStore::at(left.clone()).unwrap();
    for bucket in [&bucket, &name("cloned"), &name("taken")] {
        let lock = |id: &Option<String>| crashed.store.head_object(bucket, &key("k"), id.as_deref()).unwrap().lock;
        assert_eq!(lock(&first.version), Lock { legal_hold: Some(true), ..first.lock });
        assert_eq!(lock(&second.version).retention, governance(2));
        assert_eq!(crashed.store.settings(bucket).unwrap().settings.object_lock.unwrap().default, Some(days));
    }
    crashed.audit_collected();
    drop(crashed);
    let report = crate::check::run(left.path(), &Default::default()).unwrap();
    assert!(report.clean(), "{report:?}");
}
