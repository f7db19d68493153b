//! Persistent sessions: what is kept for them, which invalidations they receive, how they end.

use super::kernel::{Kernel, restart};
use super::test_store::{TestStore, find, make_file, read_file};
use crate::error::{Error, Posix};
use crate::meta::Read;
use crate::name::BucketName;
use crate::record::key::tag;
use crate::store::{Deletion, Mode, all};
use crate::volume::{Change, Make, Rename, RenameMode, SetAttr, Volume, VolumeOptions};

const SIZE: usize = 20 << 10;

/// How many records of a kind there are.
pub(super) fn records(test: &TestStore, kind: u8) -> usize {
    let snapshot = test.store.core.meta.snapshot();
    let read: &dyn Read = &*snapshot;
    all(read, &[kind]).unwrap().len()
}

/// Nothing is left of any session.
fn assert_all_ended(test: &TestStore) {
    test.store.core.meta.sync().wait().unwrap();
    let left = [tag::SESSION, tag::REPLAY, tag::OWED, tag::ORPHAN].map(|kind| records(test, kind));
    assert_eq!(left, [0; 4], "sessions, replays, owed, orphans");
    test.audit_collected();
}

fn is_gone(volume: &Volume, ino: u64) -> bool {
    matches!(volume.attr(ino), Err(Error::Posix(Posix::Stale)))
}

/// A bucket with one file of [`SIZE`] bytes, in a mount that holds it.
fn held(test: &TestStore) -> (BucketName, Kernel, u64) {
    let bucket = test.bucket("bucket");
    test.put(&bucket, "f", &[1; SIZE]).unwrap();
    let kernel = Kernel::mount(test, &bucket);
    let ino = kernel.look_up("f");
    (bucket, kernel, ino)
}

#[test]
fn an_unlinked_file_stays_open_over_a_kill_and_goes_with_its_last_user() {
    let test = TestStore::on_disk();
    let (bucket, mut kernel, ino) = held(&test);
    kernel.volume().open_writer(ino).unwrap();
    kernel.volume().write(ino, 3, b"before", false).unwrap();
    kernel.ask(|volume| volume.unlink(volume.root(), "f")).unwrap();
    let left = crate::check::run(test.folder_copy().path(), &Default::default()).unwrap();
    assert_eq!((left.problems, left.sessions), (vec![], 1), "what a session leaves is no damage");
    let test = restart(test, &mut [&mut kernel]);
    kernel.settle(&test);
    let volume = kernel.volume();
    assert!(kernel.told.lock().contains(&Change::Probe { ino }), "the kernel was asked, and holds it");
    volume.write(ino, 9, b" and after", false).unwrap();
    assert_eq!(&volume.read(ino, 3, 16).unwrap()[..], b"before and after");
    assert_eq!((volume.attr(ino).unwrap().nlink, volume.attr(ino).unwrap().size), (0, SIZE as u64));
    assert_eq!(test.store.usage(&bucket).unwrap().bytes, SIZE as u64, "its space is counted");
    volume.close_inherited_writer(ino).unwrap();
    test.audit();
    kernel.evict(ino);
    kernel.settle(&test);
    assert!(is_gone(kernel.volume(), ino));
    assert_eq!((test.store.usage(&bucket).unwrap().bytes, test.store.usage(&bucket).unwrap().inodes), (0, 0));
    test.collect();
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), [], "its space is given back");
    kernel.unmount();
    assert_all_ended(&test);
}

#[test]
fn what_a_kernel_does_not_hold_goes_at_the_takeover() {
    let test = TestStore::in_memory();
    let (_, mut kernel, ino) = held(&test);
    kernel.ask(|volume| volume.unlink(volume.root(), "f")).unwrap();
    // The server dies with the forget unread.
    kernel.nodes.lock().remove(&ino);
    let test = restart(test, &mut [&mut kernel]);
    kernel.settle(&test);
    assert!(is_gone(kernel.volume(), ino));
    kernel.unmount();
    assert_all_ended(&test);
}

#[test]
fn what_others_unlink_after_a_takeover_stays_for_the_kernel_that_holds_it() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel, ino) = held(&test);
    test.put(&bucket, "g", b"not looked up").unwrap();
    let other = find(kernel.volume(), "g").unwrap();
    let test = restart(test, &mut [&mut kernel]);
    test.delete(&bucket, "f").unwrap();
    test.delete(&bucket, "g").unwrap();
    kernel.settle(&test);
    assert_eq!(read_file(kernel.volume(), ino), [1; SIZE], "nobody here counted it");
    assert!(is_gone(kernel.volume(), other));
    // Looked up again by number, as file handles are: a forget of that alone says nothing.
    kernel.volume().pin(ino).unwrap();
    kernel.volume().forget(ino, 1);
    kernel.settle(&test);
    assert_eq!(read_file(kernel.volume(), ino), [1; SIZE]);
    kernel.evict(ino);
    kernel.settle(&test);
    assert!(is_gone(kernel.volume(), ino));
    // What was made since is counted exactly: nobody needs to be asked.
    let asked = kernel.told.lock().len();
    let made = make_file(kernel.volume(), kernel.volume().root(), "new").unwrap();
    test.delete(&bucket, "new").unwrap();
    kernel.settle(&test);
    assert!(is_gone(kernel.volume(), made));
    assert!(!kernel.told.lock()[asked..].contains(&Change::Probe { ino: made }));
    kernel.unmount();
    assert_all_ended(&test);
}

#[test]
fn an_orphan_stays_until_the_last_of_several_mounts_lets_go() {
    let test = TestStore::in_memory();
    let (bucket, mut first, ino) = held(&test);
    let mut second = Kernel::mount(&test, &bucket);
    assert_eq!(second.look_up("f"), ino);
    let test = restart(test, &mut [&mut first, &mut second]);
    first.ask(|volume| volume.unlink(volume.root(), "f")).unwrap();
    first.evict(ino);
    first.settle(&test);
    assert_eq!(read_file(second.volume(), ino), [1; SIZE]);
    let test = restart(test, &mut [&mut first, &mut second]);
    first.settle(&test);
    assert_eq!(read_file(second.volume(), ino), [1; SIZE]);
    second.unmount();
    test.store.core.meta.sync().wait().unwrap();
    assert!(is_gone(first.volume(), ino));
    first.unmount();
    assert_all_ended(&test);
}

#[test]
fn sessions_that_are_not_said_to_go_on_end_as_the_store_opens() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel, ino) = held(&test);
    let before = kernel.ask_in_vain(|volume| volume.unlink(volume.root(), "f"));
    kernel.ask(|volume| volume.append(find(volume, "f").unwrap_or(ino), b"x")).unwrap();
    kernel.lose_server();
    let test = test.killed(&[]);
    assert_all_ended(&test);
    assert_eq!(std::fs::read_dir(test.dir.path().join("sessions")).unwrap().count(), 0);
    let options = VolumeOptions { session: Some(kernel.session), inherited: true, ..VolumeOptions::default() };
    assert!(matches!(test.store.open_volume(&bucket, options), Err(Error::Invalid { .. })));
    assert!(before.resent);
}

#[test]
fn a_session_that_nobody_takes_over_is_ended_by_its_number() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel, ino) = held(&test);
    kernel.ask(|volume| volume.unlink(volume.root(), "f")).unwrap();
    kernel.lose_server();
    let test = test.killed(&[kernel.session]);
    assert_eq!(read_file(&test.mount(&bucket), ino), [1; SIZE]);
    test.store.end_session(kernel.session).unwrap();
    test.store.end_session(kernel.session).unwrap();
    assert_all_ended(&test);
}

#[test]
fn a_session_is_served_by_one_volume_at_a_time() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel, ino) = held(&test);
    let again = |inherited| VolumeOptions { session: Some(kernel.session), inherited, ..VolumeOptions::default() };
    assert!(
        test.store.open_volume(&bucket, again(true)).is_err() && test.store.open_volume(&bucket, again(false)).is_err()
    );
    assert!(test.store.end_session(kernel.session).is_err());
    kernel.ask(|volume| volume.unlink(volume.root(), "f")).unwrap();
    // Left without an end, it can be taken over in the same process too.
    kernel.lose_server();
    test.put(&bucket, "g", b"meanwhile").unwrap();
    kernel.told.lock().clear();
    kernel.go_on(&test);
    kernel.settle(&test);
    assert!(kernel.told.lock().contains(&Change::Entry { parent: 1, name: "g".into() }));
    assert_eq!(read_file(kernel.volume(), ino), [1; SIZE]);
    kernel.unmount();
    assert_all_ended(&test);
}

#[test]
fn a_session_keeps_its_bucket_and_its_root_whatever_they_are_called() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    test.put(&bucket, "below/f", b"x").unwrap();
    let id = test.store.new_session();
    let options = VolumeOptions { session: Some(id), prefix: "below".into(), ..VolumeOptions::default() };
    let volume = test.store.open_volume(&bucket, options.clone()).unwrap();
    let root = volume.root();
    drop(volume);
    let rename = Rename {
        from_parent: 1,
        from_name: "below".into(),
        to_parent: 1,
        to_name: "elsewhere".into(),
        mode: RenameMode::Replace,
    };
    test.mount(&bucket).rename(rename).unwrap();
    let test = test.killed(&[id]);
    let options = VolumeOptions { inherited: true, ..options };
    let volume = test.store.open_volume(&bucket, options.clone()).unwrap();
    assert_eq!((volume.root(), volume.inherited(), volume.session()), (root, true, Some(id)));
    find(&volume, "f").unwrap();
    drop(volume);
    test.run(test.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    test.bucket("bucket");
    let test = test.killed(&[id]);
    let volume = test.store.open_volume(&bucket, options).unwrap();
    assert!(is_gone(&volume, root), "another bucket has the name now");
    volume.end();
    assert_all_ended(&test);
}

#[test]
fn what_a_kernel_was_not_told_before_the_kill_it_is_told_after() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let (volume, id) = test.mount_persistent(&bucket);
    let other = Kernel::mount(&test, &bucket);
    drop(volume.feed());
    let ino = make_file(other.volume(), 1, "theirs").unwrap();
    other.volume().write(ino, 0, b"x", false).unwrap();
    make_file(&volume, 1, "mine").unwrap();
    assert!(records(&test, tag::OWED) > 0);
    drop(volume);
    let mut other = other;
    other.lose_server();
    other.told.lock().clear();
    let test = test.killed(&[id, other.session]);
    let volume = test.take_over(&bucket, id);
    let mut feed = volume.feed();
    let told = feed.gathered();
    let entry = |name: &str| Change::Entry { parent: 1, name: name.into() };
    assert!(
        told.contains(&entry("theirs")) && told.contains(&Change::Content { ino }) && !told.contains(&entry("mine"))
    );
    other.go_on(&test);
    feed.acknowledge();
    other.settle(&test);
    assert!(other.told.lock().contains(&entry("mine")) && !other.told.lock().contains(&entry("theirs")));
    feed.acknowledge();
    make_file(other.volume(), 1, "later").unwrap();
    assert!(records(&test, tag::OWED) <= 4, "what was told is forgotten with the next change");
    volume.end();
    other.unmount();
    assert_all_ended(&test);
}

#[test]
fn what_a_kernel_cannot_know_of_its_own_changes_it_is_told_after_the_kill_too() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let (volume, id) = test.mount_persistent(&bucket);
    drop(volume.feed());
    let [armed, appended, plain] = ["armed", "appended", "plain"].map(|name| make_file(&volume, 1, name).unwrap());
    volume.set_attr(armed, SetAttr { mode: Some(0o4755), ..SetAttr::default() }).unwrap();
    assert_eq!(records(&test, tag::OWED), 0);
    for ino in [armed, plain] {
        volume.write(ino, 0, b"x", true).unwrap();
    }
    assert_eq!(volume.attr(armed).unwrap().mode & 0o7777, 0o755);
    volume.recall(appended).unwrap();
    drop(volume);
    let test = test.killed(&[id]);
    let volume = test.take_over(&bucket, id);
    let mut feed = volume.feed();
    let told: Vec<u64> = feed.gathered().iter().filter_map(content_of).collect();
    assert_eq!(told, [armed, appended]);
    feed.acknowledge();
    volume.end();
    assert_all_ended(&test);
}

fn content_of(change: &Change) -> Option<u64> {
    match change {
        Change::Content { ino } => Some(*ino),
        _ => None,
    }
}

#[test]
fn a_mount_that_ends_with_the_server_costs_no_records() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    drop(volume.feed());
    let request = crate::volume::replay::RequestId { unique: 2, resent: false };
    let (made, recorded) = crate::volume::replay::serve(&volume, request, |volume| {
        volume.make(1, "a", Make::File, super::test_store::by_root(0o644))
    });
    assert!(made.is_ok() && recorded.is_none());
    let left = [tag::SESSION, tag::REPLAY, tag::OWED].map(|kind| records(&test, kind));
    assert_eq!(left, [0; 3]);
}

#[test]
fn handles_from_before_are_not_taken_for_those_counted_here() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel, ino) = held(&test);
    test.switch_versioning(&bucket, crate::store::Versioning::Enabled).unwrap();
    kernel.volume().open_writer(ino).unwrap();
    let life = kernel.volume().life();
    let test = restart(test, &mut [&mut kernel]);
    assert!(kernel.volume().life() > life);
    let volume = kernel.volume();
    volume.open_writer(ino).unwrap();
    volume.write(ino, 0, b"one", false).unwrap();
    volume.close_inherited_writer(ino).unwrap();
    volume.write(ino, 3, b"two", false).unwrap();
    volume.close_writer(ino).unwrap();
    let history = super::mounted_versions::history(&test, &bucket, "f");
    assert_eq!(history.len(), 2, "one version was written, though a handle from before was closed amid it");
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn a_session_without_a_grant_is_taken_over_refused_and_lives_as_its_grant_does() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("granted");
    test.put(&bucket, "f", b"x").unwrap();
    test.run(test.store.create_account("app", false)).unwrap();
    test.run(test.store.add_grant(&bucket, "app", Mode::ReadWrite)).unwrap();
    let id = test.store.new_session();
    let options = VolumeOptions { session: Some(id), account: Some("app".into()), ..VolumeOptions::default() };
    let volume = test.store.open_volume(&bucket, options.clone()).unwrap();
    let (root, ino) = (volume.root(), find(&volume, "f").unwrap());
    drop(volume);
    test.run(test.store.remove_grant(&bucket, "app")).unwrap();
    let denied = |volume: &Volume| matches!(volume.attr(root), Err(Error::Denied { .. }));
    let fresh = VolumeOptions { session: None, ..options.clone() };
    let test = test.killed(&[id]);
    assert!(matches!(test.store.open_volume(&bucket, fresh), Err(Error::Denied { .. })));
    let volume = test.store.open_volume(&bucket, VolumeOptions { inherited: true, ..options }).unwrap();
    let mut feed = volume.feed();
    volume.open_before([ino]);
    let told = feed.next().unwrap();
    feed.acknowledge();
    assert!(told.contains(&Change::Content { ino }) && told.contains(&Change::Content { ino: root }), "{told:?}");
    assert!(denied(&volume));
    test.run(test.store.add_grant(&bucket, "app", Mode::Read)).unwrap();
    volume.attr(root).unwrap();
    assert!(matches!(volume.unlink(root, "f"), Err(Error::Denied { .. })), "no more than the grant of now");
    volume.close_feed();
    test.run(test.store.delete_account("app")).unwrap();
    assert!(denied(&volume));
}
