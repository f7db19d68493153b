//! Tests of accounts, keys, grants and publications.

use super::rig::{Rig, name};
use crate::error::{Error, Noun};
use crate::store::*;

#[test]
fn an_account_has_two_keys_at_most_and_they_rotate() {
    let rig = Rig::in_memory();
    let (made, outcome) = rig.run(rig.store.create_account("app", false)).unwrap();
    assert_eq!(outcome, Outcome::Made);
    assert_eq!(rig.run(rig.store.create_account("app", false)).unwrap(), (made.clone(), Outcome::Found));
    assert!(matches!(rig.run(rig.store.create_account("app", true)), Err(Error::Exists { .. })));
    for bad in ["", "a/b", "a b", &"x".repeat(129)] {
        assert!(matches!(rig.run(rig.store.create_account(bad, false)), Err(Error::Invalid { .. })), "{bad}");
    }
    let first = rig.run(rig.store.ensure_key("app")).unwrap();
    let again = rig.run(rig.store.ensure_key("app")).unwrap();
    assert_eq!((&again.id, &again.secret), (&first.id, &first.secret), "the same on each retry");
    let second = rig.run(rig.store.create_key("app")).unwrap();
    assert!(matches!(rig.run(rig.store.create_key("app")), Err(Error::TooMany { limit: 2, .. })));
    let third = rig.run(rig.store.rotate_key("app")).unwrap();
    let ids: Vec<String> = rig.store.keys(Some("app")).unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(ids, [second.id.clone(), third.id]);
    assert!(rig.store.identify(&first.id).unwrap().is_none());
    let known = rig.store.identify(&second.id).unwrap().unwrap();
    assert_eq!((known.account, known.secret), (made, second.secret.clone()));
    rig.run(rig.store.delete_key(&second.id)).unwrap();
    assert!(matches!(rig.run(rig.store.delete_key(&second.id)), Err(Error::NotFound { noun: Noun::AccessKey, .. })));
    assert!(!format!("{second:?}").contains(second.secret.reveal()));
    rig.run(rig.store.delete_account("app")).unwrap();
    assert_eq!(rig.store.keys(None).unwrap().len(), 1, "root's");
    assert!(matches!(rig.run(rig.store.create_key("app")), Err(Error::NotFound { noun: Noun::Account, .. })));
}

#[test]
fn root_and_owners_cannot_be_deleted() {
    let rig = Rig::in_memory();
    assert!(matches!(rig.run(rig.store.delete_account(ROOT_ACCOUNT)), Err(Error::Invalid { .. })));
    rig.run(rig.store.create_account("owner", true)).unwrap();
    let request = CreateBucket { owner: "owner".into(), ..super::rig::bucket_request("owned") };
    rig.run(rig.store.create_bucket(request)).unwrap();
    assert!(matches!(rig.run(rig.store.delete_account("owner")), Err(Error::Invalid { .. })));
    rig.run(rig.store.delete_bucket(&name("owned"), Deletion::IfEmpty)).unwrap();
    rig.run(rig.store.delete_account("owner")).unwrap();
}

#[test]
fn without_a_grant_there_is_no_access() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("granted");
    rig.run(rig.store.create_account("app", false)).unwrap();
    let app = rig.store.account("app").unwrap();
    let access = |bucket: &str| rig.store.access(&app, &name(bucket)).unwrap();
    assert_eq!(access("granted"), None);
    assert_eq!(rig.store.access(&rig.store.account(ROOT_ACCOUNT).unwrap(), &bucket).unwrap(), Some(Mode::Owner));
    rig.snapshot(&bucket, "frozen");
    for mode in [Mode::Read, Mode::Write, Mode::ReadWrite, Mode::Owner] {
        rig.run(rig.store.add_grant(&bucket, "app", mode)).unwrap();
        assert_eq!(access("granted"), Some(mode));
        assert_eq!(access("frozen"), mode.reads().then_some(Mode::Read));
    }
    assert_eq!(rig.store.grants(Some(&bucket), None).unwrap().len(), 1);
    assert_eq!(rig.store.grants(None, Some("app")).unwrap()[0].mode, Mode::Owner);
    rig.run(rig.store.remove_grant(&bucket, "app")).unwrap();
    assert_eq!((access("granted"), access("frozen")), (None, None));
    let absent = rig.run(rig.store.remove_grant(&bucket, "app"));
    assert!(matches!(absent, Err(Error::NotFound { noun: Noun::Grant, .. })));
    assert!(matches!(rig.run(rig.store.add_grant(&name("none"), "app", Mode::Read)), Err(Error::NotFound { .. })));
    assert!(matches!(rig.run(rig.store.add_grant(&bucket, "none", Mode::Read)), Err(Error::NotFound { .. })));

    rig.run(rig.store.add_grant(&bucket, "app", Mode::Read)).unwrap();
    rig.run(rig.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    rig.bucket("granted");
    assert_eq!(access("granted"), None, "a bucket of the same name is another bucket");
}

#[test]
fn a_snapshot_tells_the_settings_its_bucket_has_now() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("told");
    rig.snapshot(&bucket, "frozen");
    let put = |text: &'static str| {
        let change = move |settings: &mut Settings| {
            settings.policy = Some(text.into());
            Ok(())
        };
        rig.run(rig.store.change_settings(&bucket, change)).unwrap();
    };
    let of_bucket = || {
        let found = rig.store.settings(&name("frozen")).unwrap();
        assert_eq!(found.settings.policy, None, "it has none of its own");
        found.taken_of.map(|taken| (taken.0, taken.1.settings.policy.clone()))
    };
    assert_eq!(of_bucket(), Some((bucket.clone(), None)));
    for text in ["one", "two"] {
        put(text);
        assert_eq!(of_bucket(), Some((bucket.clone(), Some(text.into()))));
    }
    assert!(rig.store.settings(&bucket).unwrap().taken_of.is_none());
    rig.run(rig.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    rig.bucket("told");
    assert_eq!(of_bucket(), None, "a bucket of the same name is another bucket");
}

#[test]
fn a_volume_is_published_to_a_node_in_one_way() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("volume");
    let publication = |node: &str, read_only| Publication {
        bucket: bucket.clone(),
        node: node.into(),
        read_only,
        capability: "mount rw".into(),
    };
    let publish = |publication| rig.run(rig.store.publish(publication));
    assert_eq!(publish(publication("n1", false)).unwrap(), Outcome::Made);
    assert_eq!(publish(publication("n1", false)).unwrap(), Outcome::Found);
    assert!(matches!(publish(publication("n1", true)), Err(Error::Exists { noun: Noun::Publication, .. })));
    publish(publication("n2", true)).unwrap();
    assert_eq!(rig.store.publications(Some(&bucket)).unwrap(), [publication("n1", false), publication("n2", true)]);
    rig.run(rig.store.unpublish(&bucket, Some("n1"))).unwrap();
    rig.run(rig.store.unpublish(&bucket, Some("n1"))).unwrap();
    assert_eq!(rig.store.publications(None).unwrap(), [publication("n2", true)]);
    rig.run(rig.store.unpublish(&bucket, None)).unwrap();
    assert_eq!(rig.store.publications(None).unwrap(), []);
    rig.run(rig.store.unpublish(&name("none"), None)).unwrap();
}
