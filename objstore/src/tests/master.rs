//! Rotating the master key of a store.

use super::test_store::TestStore;
use crate::error::Error;
use crate::store::*;

/// More keys than are encrypted again in one transaction.
const KEYS: usize = 300;

fn keys(test: &TestStore) -> Vec<NewKey> {
    let make = |number: usize| {
        let name = format!("account-{number}");
        test.run(test.store.create_account(&name, false)).unwrap();
        test.run(test.store.create_key(&name)).unwrap()
    };
    (0..KEYS).map(make).collect()
}

#[track_caller]
fn all_open(test: &TestStore, keys: &[NewKey]) {
    for key in keys {
        assert_eq!(test.store.identify(&key.id).unwrap().unwrap().secret, key.secret, "{}", key.id);
    }
}

#[test]
fn a_rotated_store_opens_every_secret_and_only_under_the_new_key() {
    let test = TestStore::in_memory();
    let keys = keys(&test);
    let file = test.dir.path().join("master.key");
    let before = std::fs::read(&file).unwrap();
    assert_eq!(test.run(test.store.rotate_master_key()).unwrap(), KEYS as u64 + 1, "root's too");
    assert_ne!(std::fs::read(&file).unwrap(), before);
    all_open(&test, &keys);
    let test = test.reopen();
    all_open(&test, &keys);
    std::fs::write(&file, before).unwrap();
    let test = test.reopen();
    let refused = test.store.identify(&keys[0].id);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

/// A crash after the next master key was written: some secrets, or none, are encrypted with it.
#[test]
fn an_opening_ends_the_rotation_that_a_crash_interrupted() {
    let test = TestStore::in_memory();
    let keys = keys(&test);
    let (file, next) = (test.dir.path().join("master.key"), test.dir.path().join("master.key.next"));
    let first = std::fs::read(&file).unwrap();
    test.run(test.store.rotate_master_key()).unwrap();
    let second = std::fs::read(&file).unwrap();
    // All secrets are encrypted with the second key, and the files are as they were before it replaced the first.
    let private = |path: &std::path::Path, bytes: &[u8]| {
        crate::disk::Disk::write_atomic(&crate::disk::RealDisk::new(), path, bytes, 0o600).unwrap();
    };
    private(&file, &first);
    private(&next, &second);
    let test = test.reopen();
    all_open(&test, &keys);
    assert!(!next.exists());
    assert_eq!(std::fs::read(&file).unwrap(), second);
    // No secret is encrypted with the third key.
    private(&next, &[7; 32]);
    let test = test.reopen();
    all_open(&test, &keys);
    assert!(!next.exists());
    assert_eq!(std::fs::read(&file).unwrap(), [7; 32]);
    // The third key has replaced the second, and only its file remains.
    private(&next, &[7; 32]);
    let test = test.reopen();
    all_open(&test, &keys);
    assert!(!next.exists());
}

#[test]
fn what_holds_a_secret_does_not_show_it() {
    let test = TestStore::in_memory();
    test.run(test.store.create_account("app", false)).unwrap();
    let key = test.run(test.store.create_key("app")).unwrap();
    let identity = test.store.identify(&key.id).unwrap().unwrap();
    let options = Options { root_key: Some(("ROOTKEYID".into(), key.secret.clone())), ..Options::new("dir") };
    let shown = [
        format!("{key:?} {key:#?}"),
        format!("{identity:?} {identity:#?}"),
        format!("{:?} {:#?}", key.secret, key.secret),
        format!("{:?}", options.root_key),
        format!("{:?}", test.store.keys(None).unwrap()),
    ];
    for text in shown {
        assert!(!text.contains(key.secret.reveal()), "{text}");
    }
}

#[test]
fn the_authority_of_the_volume_listener_is_kept_once_and_outlives_a_rotation() {
    let test = TestStore::in_memory();
    let authority = |number: u8| VolumeAuthority {
        certificate: format!("certificate {number}"),
        key: Secret::new(format!("hush {number}")),
    };
    let kept = |test: &TestStore, number| {
        let kept = test.store.keep_volume_authority(authority(number)).unwrap();
        assert!(!format!("{kept:?}").contains("hush"));
        (kept.certificate, kept.key.reveal().to_owned())
    };
    assert!(test.store.volume_authority().unwrap().is_none());
    let first = kept(&test, 1);
    assert_eq!(first, ("certificate 1".to_owned(), "hush 1".to_owned()));
    assert_eq!(kept(&test, 2), first, "nodes trust the first");
    let file = test.dir.path().join("master.key");
    let before = std::fs::read(&file).unwrap();
    assert_eq!(test.run(test.store.rotate_master_key()).unwrap(), 2, "root's key, and that of the authority");
    let test = test.reopen();
    assert_eq!(kept(&test, 3), first);
    assert_eq!(test.store.volume_authority().unwrap().unwrap().certificate, first.0);
    std::fs::write(&file, before).unwrap();
    let test = test.reopen();
    let refused = test.store.keep_volume_authority(authority(4));
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}: it is not replaced");
}
