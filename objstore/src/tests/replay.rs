//! Requests that a server executed and did not answer, sent again to the next one.

use objstore_files::{Caller, FileSession};

use super::kernel::{Kernel, restart};
use super::mounted_versions::{history, resize, texts};
use super::sessions::records;
use super::test_store::{TestStore, by_root, find, read_file};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::record::key::tag;
use crate::store::{SetBucket, Versioning};
use crate::volume::replay::{RequestId, serve};
use crate::volume::{Make, Rename, RenameMode, Volume, XattrMode};

fn mounted(test: &TestStore) -> (BucketName, Kernel) {
    let bucket = test.bucket("bucket");
    let kernel = Kernel::mount(test, &bucket);
    (bucket, kernel)
}

fn moving(from: &str, to: &str, mode: RenameMode) -> Rename {
    Rename { from_parent: 1, from_name: from.into(), to_parent: 1, to_name: to.into(), mode }
}

/// Sends a request whose answer is lost, and again after a kill: the answer is the same; sent as a new request, it is
/// another.
fn twice<T: PartialEq + std::fmt::Debug>(
    test: TestStore,
    kernel: &mut Kernel,
    call: impl Fn(&Volume) -> Result<T>,
) -> TestStore {
    let mut first = None;
    let sent_again = kernel.ask_in_vain(|volume| first = call(volume).ok());
    assert!(first.is_some());
    let test = restart(test, &mut [kernel]);
    assert_eq!(kernel.ask_as(sent_again, &call).ok(), first);
    assert!(call(kernel.volume()).is_err(), "it is not idempotent");
    test.audit();
    test
}

#[test]
fn what_was_done_and_not_answered_is_answered_and_not_done_again() {
    let test = TestStore::in_memory();
    let (_, mut kernel) = mounted(&test);
    let made =
        |what: Make| move |volume: &Volume| volume.make(1, "a", what.clone(), by_root(0o755)).map(|made| made.ino);
    let test = twice(test, &mut kernel, made(Make::File));
    let file = find(kernel.volume(), "a").unwrap();
    let test = twice(test, &mut kernel, |volume| volume.link(file, 1, "b").map(|linked| linked.ino));
    assert_eq!(kernel.volume().attr(file).unwrap().nlink, 2);
    let test = twice(test, &mut kernel, |volume| volume.set_xattr(file, "user.a", b"1", XattrMode::Create));
    let test = twice(test, &mut kernel, |volume| volume.remove_xattr(file, "user.a"));
    let test = twice(test, &mut kernel, |volume| volume.unlink(1, "a"));
    let test = twice(test, &mut kernel, |volume| volume.rename(moving("b", "c", RenameMode::NoReplace)));
    let test = twice(test, &mut kernel, made(Make::Symlink("c".into())));
    let test = twice(test, &mut kernel, |volume| volume.unlink(1, "a"));
    let test = twice(test, &mut kernel, made(Make::Directory));
    let test = twice(test, &mut kernel, |volume| volume.remove_dir(1, "a"));
    let test = twice(test, &mut kernel, |volume| volume.create(1, "d", by_root(0o644)).map(|made| made.ino));
    assert_eq!(find(kernel.volume(), "c").unwrap(), file);
    let exchange = moving("c", "d", RenameMode::Exchange);
    let sent_again = kernel.ask_in_vain(|volume| volume.rename(exchange.clone()));
    let test = restart(test, &mut [&mut kernel]);
    kernel.ask_as(sent_again, |volume| volume.rename(exchange.clone())).unwrap();
    assert_eq!(find(kernel.volume(), "d").unwrap(), file, "swapped once");
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn what_another_thread_did_for_a_request_is_not_done_again_either() {
    let test = TestStore::in_memory();
    let (_, mut kernel) = mounted(&test);
    let test = twice(test, &mut kernel, |volume| {
        let make = || volume.make(1, "a", Make::File, by_root(0o644)).map(|made| made.ino);
        std::thread::scope(|threads| threads.spawn(make).join().unwrap())
    });
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn a_record_goes_with_the_change_after_its_answer() {
    let test = TestStore::in_memory();
    let (_, mut kernel) = mounted(&test);
    for at in 0..10 {
        kernel.ask(|volume| volume.make(1, &format!("{at}"), Make::File, by_root(0o644))).unwrap();
        assert_eq!(records(&test, tag::REPLAY), 1);
    }
    // The request was answered, and the server killed before the record was removed, which does no harm.
    let test = restart(test, &mut [&mut kernel]);
    assert_eq!(records(&test, tag::REPLAY), 1);
    kernel.unmount();
    test.store.core.meta.sync().wait().unwrap();
    assert_eq!(records(&test, tag::REPLAY), 0);
}

#[test]
fn what_failed_or_was_not_served_is_done_when_it_comes_again() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel) = mounted(&test);
    let make = |volume: &Volume| volume.make(1, "a", Make::Directory, by_root(0o755)).map(|made| made.ino);
    let never_served = kernel.ask_in_vain(|_| {});
    test.put(&bucket, "b", b"x").unwrap();
    let mkdir = |volume: &Volume| volume.make(1, "b", Make::Directory, by_root(0o755)).map(|made| made.ino);
    let refused = kernel.ask_in_vain(|volume| assert!(mkdir(volume).is_err()));
    test.delete(&bucket, "b").unwrap();
    let test = restart(test, &mut [&mut kernel]);
    assert!(kernel.ask_as(never_served, make).is_ok() && kernel.ask_as(refused, mkdir).is_ok());
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn a_file_that_was_made_and_removed_again_meanwhile_is_made_anew() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel) = mounted(&test);
    let create = |volume: &Volume| volume.create(1, "a", by_root(0o644)).map(|made| made.ino);
    let mut first = None;
    let sent_again = kernel.ask_in_vain(|volume| first = create(volume).ok());
    let test = restart(test, &mut [&mut kernel]);
    test.delete(&bucket, "a").unwrap();
    kernel.settle(&test);
    let ino = kernel.got(kernel.ask_as(sent_again, create).unwrap());
    assert!(first.is_some_and(|first| first != ino) && find(kernel.volume(), "a").unwrap() == ino);
    kernel.volume().close_writer(ino).unwrap();
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn a_created_file_is_held_and_open_once() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel) = mounted(&test);
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    let create = |volume: &Volume| volume.create(1, "a", by_root(0o644)).map(|made| made.ino);
    let sent_again = kernel.ask_in_vain(create);
    let test = restart(test, &mut [&mut kernel]);
    let ino = kernel.got(kernel.ask_as(sent_again, create).unwrap());
    kernel.volume().write(ino, 0, b"one", false).unwrap();
    kernel.volume().write(ino, 3, b"two", false).unwrap();
    kernel.volume().close_writer(ino).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "a")), ["onetwo"], "all of it is the version it was made as");
    kernel.volume().write(ino, 0, b"ONE", false).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "a")), ["ONEtwo", "onetwo"], "closed once, it was closed");
    test.delete(&bucket, "a").unwrap();
    kernel.evict(ino);
    kernel.settle(&test);
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn an_append_is_made_once_and_the_others_where_the_file_ends() {
    let mut test = TestStore::in_memory();
    let (bucket, mut kernel) = mounted(&test);
    // Content in the record, and in an in-place blob.
    for (name, size) in [("small", 10), ("large", 8 << 10)] {
        test.put(&bucket, name, &vec![b'.'; size]).unwrap();
        let ino = kernel.look_up(name);
        let append = |data: &'static [u8]| move |volume: &Volume| volume.append(ino, data).map(drop);
        let served = kernel.ask_in_vain(append(b"one"));
        kernel.ask(append(b"two")).unwrap();
        let unserved = kernel.ask_in_vain(|_| {});
        test = restart(test, &mut [&mut kernel]);
        kernel.ask_as(unserved, append(b"three")).unwrap();
        kernel.ask_as(served, append(b"one")).unwrap();
        assert_eq!(&read_file(kernel.volume(), ino)[size..], b"onetwothree");
        // Sent again, killed again.
        let served = kernel.ask_in_vain(append(b"four"));
        for _ in 0..2 {
            test = restart(test, &mut [&mut kernel]);
            drop(serve(kernel.volume(), served, |volume| append(b"four")(volume).unwrap()));
        }
        test = restart(test, &mut [&mut kernel]);
        kernel.ask_as(served, append(b"four")).unwrap();
        assert_eq!(&read_file(kernel.volume(), ino)[size..], b"onetwothreefour");
        test.audit();
    }
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn a_request_begins_one_version_however_often_it_is_sent() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel) = mounted(&test);
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    test.put(&bucket, "f", b"one").unwrap();
    let ino = kernel.look_up("f");
    let cut = kernel.ask_in_vain(|volume| resize(volume, ino, 1));
    let test = restart(test, &mut [&mut kernel]);
    kernel.ask_as(cut, |volume| resize(volume, ino, 1)).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "f")), ["o", "one"]);
    let wrote = kernel.ask_in_vain(|volume| volume.write(ino, 1, b"ther", false).map(drop));
    let appended = kernel.ask_in_vain(|volume| volume.append(ino, b"!").map(drop));
    let test = restart(test, &mut [&mut kernel]);
    kernel.ask_as(appended, |volume| volume.append(ino, b"!").map(drop)).unwrap();
    kernel.ask_as(wrote, |volume| volume.write(ino, 1, b"ther", false).map(drop)).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "f")), ["other!", "o", "one"]);
    // S3 replaces the file between the two: the request continues on a file without a name.
    kernel.volume().close_inherited_writer(ino).unwrap();
    let late = kernel.ask_in_vain(|volume| volume.write(ino, 0, b"O", false).map(drop));
    let test = restart(test, &mut [&mut kernel]);
    test.put(&bucket, "f", b"S3").unwrap();
    kernel.ask_as(late, |volume| volume.write(ino, 0, b"O", false).map(drop)).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "f")), ["S3", "Other!", "other!", "o", "one"]);
    assert_eq!(read_file(kernel.volume(), ino), b"Other!");
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn a_change_through_the_seam_begins_one_version_however_often_it_is_sent() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel) = mounted(&test);
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    test.put(&bucket, "f", b"one").unwrap();
    let ino = kernel.look_up("f");
    let write = |kernel: &Kernel, request: RequestId| {
        let session = FileSession::from(kernel.volume().clone());
        let files = session.serving(Caller { uid: 0, gid: 0, pid: 0 }, request);
        files.write(ino, 0u64, false, b"ONE").unwrap();
        assert_eq!(files.recorded(), Some(request), "its record is removed once it is answered");
    };
    let request = kernel.request();
    write(&kernel, request);
    let test = restart(test, &mut [&mut kernel]);
    write(&kernel, RequestId { resent: true, ..request });
    assert_eq!(texts(&history(&test, &bucket, "f")), ["ONE", "one"]);
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn the_record_of_a_version_that_a_failed_change_began_goes_too() {
    let test = TestStore::in_memory();
    let (bucket, mut kernel) = mounted(&test);
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    test.put(&bucket, "f", b"one").unwrap();
    let set = SetBucket { quota_bytes: Some(Some(100)), ..SetBucket::default() };
    test.run(test.store.set_bucket(&bucket, set)).unwrap();
    let ino = kernel.look_up("f");
    let session = FileSession::from(kernel.volume().clone());
    let caller = Caller { uid: 0, gid: 0, pid: 0 };
    let (refused, made) = (kernel.request(), kernel.request());
    session.serving(caller, refused).write(ino, 0u64, false, &[0; 8 << 10]).unwrap_err();
    assert_eq!(texts(&history(&test, &bucket, "f")), ["one", "one"], "a version was begun");
    session.serving(caller, made).make(1u64, "g", Make::File, by_root(0o644)).unwrap();
    assert_eq!(records(&test, tag::REPLAY), 1, "that of the last request alone");
    drop(session);
    kernel.unmount();
    test.audit_collected();
}

#[test]
fn a_mount_of_a_snapshot_goes_on_too() {
    let test = TestStore::in_memory();
    let (bucket, kernel) = mounted(&test);
    kernel.unmount();
    test.put(&bucket, "f", b"x").unwrap();
    let taken = test.snapshot(&bucket, "taken");
    let mut kernel = Kernel::mount(&test, &taken);
    let ino = kernel.look_up("f");
    test.delete(&bucket, "f").unwrap();
    let test = restart(test, &mut [&mut kernel]);
    assert_eq!(read_file(kernel.volume(), ino), b"x");
    assert!(matches!(kernel.ask(|volume| volume.unlink(1, "f")), Err(Error::Posix(Posix::ReadOnly))));
    test.run(test.store.delete_snapshot("taken")).unwrap();
    let test = restart(test, &mut [&mut kernel]);
    assert!(matches!(kernel.volume().attr(ino), Err(Error::Posix(Posix::Stale))));
    kernel.unmount();
    test.audit_collected();
}
