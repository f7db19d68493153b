//! The simulated disk keeps what it has to, and guarantees nothing else.

use std::collections::BTreeSet;

use objstore_base::clock::Scripted;
use objstore_disk::Allocate;

use super::*;

const PATH: &str = "/folder/file";

fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new(Arc::new(Scripted::new(1)), FalseSyncs::default(), false);
    disk.make_dir_all(Path::new("/folder")).unwrap();
    disk
}

/// A file with this content that is on disk.
fn synced(disk: &SimulatedDisk, content: &[u8]) -> Arc<dyn File> {
    let file = disk.create(Path::new(PATH)).unwrap();
    file.write_at(content, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("/folder")).unwrap();
    file
}

/// All contents that 2,000 power cuts leave of the file; `None` if there is no file.
fn left(disk: &SimulatedDisk) -> BTreeSet<Option<Vec<u8>>> {
    (0..2_000).map(|seed| disk.after_power_cut(&mut Choices::with(seed)).read_all(Path::new(PATH)).ok()).collect()
}

#[test]
fn what_was_synced_stays_whatever_came_before() {
    let disk = disk();
    let file = synced(&disk, &[1; 5000]);
    assert_eq!(left(&disk), BTreeSet::from([Some(vec![1; 5000])]));
    file.write_at(&[2; 600], 1000).unwrap();
    file.set_len(3000).unwrap();
    file.allocate(0, 4000, Allocate::Extend).unwrap();
    file.punch(100, 50).unwrap();
    file.sync().unwrap();
    let mut expected = vec![1; 4000];
    expected[1000..1600].fill(2);
    expected[3000..].fill(0);
    expected[100..150].fill(0);
    assert_eq!(left(&disk), BTreeSet::from([Some(expected)]));
}

#[test]
fn what_was_not_synced_is_lost_kept_or_torn() {
    let disk = disk();
    let file = synced(&disk, &[1; 8192]);
    file.write_at(&[2; 8192], 0).unwrap();
    let left = left(&disk);
    assert!(left.contains(&Some(vec![1; 8192])) && left.contains(&Some(vec![2; 8192])));
    let torn: Vec<_> = left.iter().flatten().filter(|left| left.contains(&1) && left.contains(&2)).collect();
    assert!(torn.iter().any(|left| left[0] == 2) && torn.iter().any(|left| left[0] == 1 && left[8191] == 2));
    assert!(
        left.iter().flatten().all(|left| left.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])))
    );
}

#[test]
fn an_append_is_there_short_or_a_hole() {
    let disk = disk();
    let file = synced(&disk, &[1; 512]);
    file.write_at(&[2; 1024], 512).unwrap();
    let left: Vec<Vec<u8>> = left(&disk).into_iter().flatten().collect();
    assert!(left.iter().all(|left| left.len() >= 512 && left.len() <= 1536 && left[..512] == [1; 512]));
    assert!(left.iter().any(|left| left.len() == 512) && left.iter().any(|left| left.len() == 1000.max(left.len())));
    assert!(left.iter().any(|left| left.len() == 1536 && left[512..] == [0; 1024]), "the size came, the bytes did not");
}

#[test]
fn bytes_written_after_a_cut_never_come_without_it() {
    let disk = disk();
    let file = synced(&disk, &[1; 1024]);
    file.set_len(0).unwrap();
    file.write_at(&[2; 1024], 0).unwrap();
    for left in left(&disk).into_iter().flatten() {
        assert!(left == [1; 1024] || !left.contains(&1), "{left:?}");
    }
}

#[test]
fn names_come_and_go_on_their_own() {
    let disk = disk();
    synced(&disk, b"old");
    disk.remove(Path::new(PATH)).unwrap();
    assert_eq!(left(&disk), BTreeSet::from([None, Some(b"old".to_vec())]));
    let file = disk.create(Path::new(PATH)).unwrap();
    file.write_at(b"new", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(left(&disk), BTreeSet::from([None, Some(b"old".to_vec()), Some(b"new".to_vec())]));
    disk.sync_everything(Path::new("/")).unwrap();
    assert_eq!(left(&disk), BTreeSet::from([Some(b"new".to_vec())]));
}

#[test]
fn an_atomic_write_is_the_old_or_the_new_one_at_every_call() {
    for call in 1.. {
        let disk = disk();
        disk.write_atomic(Path::new(PATH), b"old", 0o600).unwrap();
        disk.dies_at(Some(Death { call, done: Amount::None }));
        let written = disk.write_atomic(Path::new(PATH), b"new", 0o600);
        let left = left(&disk);
        if written.is_ok() {
            assert_eq!(left, BTreeSet::from([Some(b"new".to_vec())]));
            assert!(call > 5, "{call}");
            return;
        }
        assert!(disk.is_dead() && disk.list(Path::new("/folder")).is_err());
        assert!(left.iter().all(|left| matches!(left.as_deref(), Some(b"old" | b"new"))), "{call}: {left:?}");
    }
}

#[test]
fn a_kill_loses_nothing_and_makes_nothing_safe() {
    let disk = disk();
    let file = synced(&disk, b"old");
    file.write_at(b"new", 0).unwrap();
    let _lock = disk.lock(Path::new("/lock")).unwrap();
    assert!(disk.lock(Path::new("/lock")).is_err());
    disk.dies();
    let next = disk.after_kill();
    drop(next.lock(Path::new("/lock")).unwrap());
    assert_eq!(next.read_all(Path::new(PATH)).unwrap(), b"new");
    assert_eq!(left(&next).len(), 2);
}

#[test]
fn a_seed_draws_the_same_crash_again() {
    let disk = disk();
    let file = synced(&disk, &[1; 9000]);
    (0..20).for_each(|at| file.write_at(&[at; 700], u64::from(at) * 400).unwrap());
    for seed in 0..50 {
        let draw = || disk.after_power_cut(&mut Choices::with(seed)).read_all(Path::new(PATH)).unwrap();
        assert!(draw() == draw());
    }
}

#[test]
fn a_disk_that_lies_about_its_syncs_loses_what_was_synced() {
    for lies in [
        FalseSyncs { file_sync: true, ..FalseSyncs::default() },
        FalseSyncs { dir_sync: true, ..FalseSyncs::default() },
    ] {
        let disk = disk().given(Arc::new(Scripted::new(1)), lies, false);
        synced(&disk, b"kept?");
        assert!(left(&disk).len() > 1, "{lies:?}");
    }
}
