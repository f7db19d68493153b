//! The master key on disk: who may read it, and a rotation that is interrupted anywhere.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use objstore_testing::faulty::FaultyDisk;

use super::Secret;
use super::{Bound, KeyPlace, Master};
use crate::clock::Scripted;
use crate::disk::RealDisk;
use crate::error::{Error, Result};

const BOUND: Bound<'static> = Bound { account: 1, key_id: "AK", version: 1 };

fn open(dir: &Path, new: bool) -> Result<Master> {
    Master::open(Arc::new(RealDisk::new()), KeyPlace::new(dir, None), None, &Scripted::new(1), new)
}

#[track_caller]
fn refusal(dir: &Path) -> String {
    match open(dir, false) {
        Err(Error::Unusable { why }) => why,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was taken"),
    }
}

#[test]
fn a_master_key_that_others_may_read_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), true).unwrap();
    let path = dir.path().join("master.key");
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    for open_to_others in [0o640, 0o604, 0o660, 0o610, 0o666, 0o777] {
        mode(open_to_others);
        let why = refusal(dir.path());
        assert!(why.contains("chmod 600") && why.contains(&format!("{open_to_others:04o}")), "{why}");
    }
    for private in [0o600, 0o400, 0o700] {
        mode(private);
        open(dir.path(), false).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let why = refusal(dir.path());
        assert!(why.contains("chown") && why.contains("65534"), "{why}");
    }
}

#[test]
fn a_master_key_that_is_missing_or_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(refusal(dir.path()).contains("missing"));
    for bytes in [0, 31, 33] {
        std::fs::write(dir.path().join("master.key"), vec![0; bytes]).unwrap();
        std::fs::set_permissions(dir.path().join("master.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(refusal(dir.path()).contains(&format!("{bytes} bytes")));
    }
}

/// Of two secrets, one was sealed again when the rotation stopped: both open afterwards, wherever it stopped.
#[test]
fn a_rotation_that_stops_anywhere_loses_no_secret_and_can_be_ended() {
    for after in [false, true] {
        for changes in 0..=4 {
            let dir = tempfile::tempdir().unwrap();
            open(dir.path(), true).unwrap();
            let disk = FaultyDisk::default();
            *disk.faults.stop.lock() = Some((changes, after));
            let random = Scripted::new(2);
            let master = Master::open(Arc::new(disk), KeyPlace::new(dir.path(), None), None, &random, false).unwrap();
            let seal = |master: &Master| master.sealer().seal(&random, &Secret::new("hush"), BOUND).unwrap();
            let mut sealed = [seal(&master), seal(&master)];
            let rotated = master.rotate(&random, || {
                // The first is on disk, and the process ends before the second is, if a later change was to fail.
                sealed[0] = seal(&master);
                match changes {
                    1 => Err(Error::Engine { why: "stopped".into() }),
                    _ => {
                        sealed[1] = seal(&master);
                        Ok(())
                    }
                }
            });
            let opens = |master: &Master, sealed: &[u8]| {
                master.sealer().open_secret(sealed, BOUND).is_ok_and(|secret| secret.reveal() == "hush")
            };
            assert!(sealed.iter().all(|sealed| opens(&master, sealed)), "in the process, {changes} {after}");
            drop(master);
            let master = open(dir.path(), false).unwrap();
            assert!(sealed.iter().all(|sealed| opens(&master, sealed)), "after a crash, {changes} {after}");
            assert!(rotated.is_err() || !master.is_rotating());
            sealed = master.rotate(&random, || Ok([seal(&master), seal(&master)])).unwrap();
            assert!(!dir.path().join("master.key.next").exists());
            drop(master);
            let master = open(dir.path(), false).unwrap();
            assert!(sealed.iter().all(|sealed| opens(&master, sealed)), "after it was ended, {changes} {after}");
        }
    }
}

#[test]
fn a_master_key_that_is_named_lives_where_it_is_named_and_is_rotated_there() {
    let (dir, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = keys.path().join("amphora.key");
    let open = |new| {
        Master::open(Arc::new(RealDisk::new()), KeyPlace::new(dir.path(), Some(&file)), None, &Scripted::new(1), new)
    };
    let why = |opened: Result<Master>| opened.map(drop).unwrap_err().to_string();
    assert!(why(open(false)).contains("amphora.key is missing"));
    let master = open(true).unwrap();
    let old = std::fs::read(&file).unwrap();
    let sealed = master.sealer().seal(&Scripted::new(2), &Secret::new("hush"), BOUND).unwrap();
    let resealed = master.rotate(&Scripted::new(3), || {
        assert!(keys.path().join("amphora.key.next").exists());
        let secret = master.sealer().open_secret(&sealed, BOUND)?;
        master.sealer().seal(&Scripted::new(4), &secret, BOUND)
    });
    assert_ne!(std::fs::read(&file).unwrap(), old);
    assert_eq!(std::fs::read_dir(keys.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing of it is beside the data");
    let again = open(false).unwrap();
    assert_eq!(again.sealer().open_secret(&resealed.unwrap(), BOUND).unwrap().reveal(), "hush");

    // As Kubernetes mounts a Secret: a link to a file of root that a group may read.
    let link = keys.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let place = KeyPlace::new(dir.path(), Some(&link));
    Master::open(Arc::new(RealDisk::new()), place, None, &Scripted::new(1), false).unwrap();
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    assert!(why(open(false)).contains("chmod"));
    mode(0o600);

    std::fs::write(dir.path().join("master.key"), &old).unwrap();
    assert!(why(open(false)).contains("remove one of them"));
    std::fs::remove_file(&file).unwrap();
    assert!(why(open(true)).contains("mv "), "a key that exists is not created again elsewhere");
}
