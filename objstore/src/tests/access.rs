//! Tests of accounts, keys, grants and publications.

use super::test_store::{TestStore, name};
use crate::error::{Error, Noun};
use crate::store::*;

#[test]
fn an_account_has_two_keys_at_most_and_they_rotate() {
    let test = TestStore::in_memory();
    let (made, outcome) = test.run(test.store.create_account("app", false)).unwrap();
    assert_eq!(outcome, Outcome::Made);
    assert_eq!(test.run(test.store.create_account("app", false)).unwrap(), (made.clone(), Outcome::Found));
    assert!(matches!(test.run(test.store.create_account("app", true)), Err(Error::Exists { .. })));
    for bad in ["", "a/b", "a b", &"x".repeat(129)] {
        assert!(matches!(test.run(test.store.create_account(bad, false)), Err(Error::Invalid { .. })), "{bad}");
    }
    let first = test.run(test.store.ensure_key("app")).unwrap();
    let again = test.run(test.store.ensure_key("app")).unwrap();
    assert_eq!((&again.id, &again.secret), (&first.id, &first.secret), "the same on each retry");
    let second = test.run(test.store.create_key("app")).unwrap();
    assert!(matches!(test.run(test.store.create_key("app")), Err(Error::TooMany { limit: 2, .. })));
    let third = test.run(test.store.rotate_key("app")).unwrap();
    let ids: Vec<String> = test.store.keys(Some("app")).unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(ids, [second.id.clone(), third.id]);
    assert!(test.store.identify(&first.id).unwrap().is_none());
    let known = test.store.identify(&second.id).unwrap().unwrap();
    assert_eq!((known.account, known.secret), (made, second.secret.clone()));
    test.run(test.store.delete_key(&second.id)).unwrap();
    assert!(matches!(test.run(test.store.delete_key(&second.id)), Err(Error::NotFound { noun: Noun::AccessKey, .. })));
    assert!(!format!("{second:?}").contains(second.secret.reveal()));
    test.run(test.store.delete_account("app")).unwrap();
    assert_eq!(test.store.keys(None).unwrap().len(), 1, "root's");
    assert!(matches!(test.run(test.store.create_key("app")), Err(Error::NotFound { noun: Noun::Account, .. })));
}

#[test]
fn root_and_owners_cannot_be_deleted() {
    let test = TestStore::in_memory();
    assert!(matches!(test.run(test.store.delete_account(ROOT_ACCOUNT)), Err(Error::Invalid { .. })));
    test.run(test.store.create_account("owner", true)).unwrap();
    let request = CreateBucket { owner: "owner".into(), ..super::test_store::bucket_request("owned") };
    test.run(test.store.create_bucket(request)).unwrap();
    assert!(matches!(test.run(test.store.delete_account("owner")), Err(Error::Invalid { .. })));
    test.run(test.store.delete_bucket(&name("owned"), Deletion::IfEmpty)).unwrap();
    test.run(test.store.delete_account("owner")).unwrap();
}

#[test]
fn without_a_grant_there_is_no_access() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("granted");
    test.run(test.store.create_account("app", false)).unwrap();
    let app = test.store.account("app").unwrap();
    let access = |bucket: &str| test.store.access(&app, &name(bucket)).unwrap();
    assert_eq!(access("granted"), None);
    assert_eq!(test.store.access(&test.store.account(ROOT_ACCOUNT).unwrap(), &bucket).unwrap(), Some(Mode::Owner));
    test.snapshot(&bucket, "frozen");
    for mode in [Mode::Read, Mode::Write, Mode::ReadWrite, Mode::Owner] {
        test.run(test.store.add_grant(&bucket, "app", mode)).unwrap();
        assert_eq!(access("granted"), Some(mode));
        assert_eq!(access("frozen"), mode.reads().then_some(Mode::Read));
    }
    assert_eq!(test.store.grants(Some(&bucket), None).unwrap().len(), 1);
    assert_eq!(test.store.grants(None, Some("app")).unwrap()[0].mode, Mode::Owner);
    test.run(test.store.remove_grant(&bucket, "app")).unwrap();
    assert_eq!((access("granted"), access("frozen")), (None, None));
    let absent = test.run(test.store.remove_grant(&bucket, "app"));
    assert!(matches!(absent, Err(Error::NotFound { noun: Noun::Grant, .. })));
    assert!(matches!(test.run(test.store.add_grant(&name("none"), "app", Mode::Read)), Err(Error::NotFound { .. })));
    assert!(matches!(test.run(test.store.add_grant(&bucket, "none", Mode::Read)), Err(Error::NotFound { .. })));

    test.run(test.store.add_grant(&bucket, "app", Mode::Read)).unwrap();
    test.run(test.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    test.bucket("granted");
    assert_eq!(access("granted"), None, "a bucket of the same name is another bucket");
}

#[test]
fn a_snapshot_tells_the_settings_its_bucket_has_now() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("told");
    test.snapshot(&bucket, "frozen");
    let put = |text: &'static str| {
        let change = move |settings: &mut Settings| {
            settings.policy = Some(text.into());
            Ok(())
        };
        test.run(test.store.change_settings(&bucket, change)).unwrap();
    };
    let of_bucket = || {
        let found = test.store.settings(&name("frozen")).unwrap();
        assert_eq!(found.settings.policy, None, "it has none of its own");
        found.taken_of.map(|taken| (taken.0, taken.1.settings.policy.clone()))
    };
    assert_eq!(of_bucket(), Some((bucket.clone(), None)));
    for text in ["one", "two"] {
        put(text);
        assert_eq!(of_bucket(), Some((bucket.clone(), Some(text.into()))));
    }
    assert!(test.store.settings(&bucket).unwrap().taken_of.is_none());
    test.run(test.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    test.bucket("told");
    assert_eq!(of_bucket(), None, "a bucket of the same name is another bucket");
}

#[test]
fn a_volume_is_published_to_a_node_in_one_way() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let publication = |node: &str, read_only| Publication {
        bucket: bucket.clone(),
        node: node.into(),
        read_only,
        capability: "mount rw".into(),
        ticket_suffices: true,
        fenced_by: None,
    };
    let publish = |publication| test.run(test.store.publish(publication));
    assert_eq!(publish(publication("n1", false)).unwrap(), Outcome::Made);
    assert_eq!(publish(publication("n1", false)).unwrap(), Outcome::Found);
    assert!(matches!(publish(publication("n1", true)), Err(Error::Exists { noun: Noun::Publication, .. })));
    publish(publication("n2", true)).unwrap();
    assert_eq!(test.store.publications(Some(&bucket)).unwrap(), [publication("n1", false), publication("n2", true)]);
    test.run(test.store.unpublish(&bucket, Some("n1"))).unwrap();
    test.run(test.store.unpublish(&bucket, Some("n1"))).unwrap();
    assert_eq!(test.store.publications(None).unwrap(), [publication("n2", true)]);
    test.run(test.store.unpublish(&bucket, None)).unwrap();
    assert_eq!(test.store.publications(None).unwrap(), []);
    test.run(test.store.unpublish(&name("none"), None)).unwrap();
}
