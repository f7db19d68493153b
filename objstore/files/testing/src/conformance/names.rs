//! Names: creation, lookup, links, renames, removal and listings.

use objstore_base::error::Posix;
use objstore_files::{DirEntry, Files, Kind, Make, NAME_BYTES_MAX, NAMES_MAX, ROOT_INO, Rename, RenameMode};

use super::{OWNER, Subject, Test, file, make, refused};

pub(super) const TESTS: &[(&str, Test)] = &[
    ("what is created is found with its attributes", what_is_created_is_found),
    ("names are linked, moved and removed", names_are_linked_moved_and_removed),
    ("names that cannot be are refused", names_that_cannot_be_are_refused),
    ("a listing in pages is the whole listing", a_listing_in_pages_is_the_whole_listing),
    ("many lookups are as many single ones", many_lookups_are_as_many_single_ones),
    ("a file without a name gets one", a_file_without_a_name_gets_one),
];

fn what_is_created_is_found(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let files = session.own();
    let kinds = [
        (Make::File, Kind::File),
        (Make::Directory, Kind::Directory),
        (Make::Symlink("target".into()), Kind::Symlink),
        (Make::Special(Kind::CharDevice, 7), Kind::CharDevice),
    ];
    for (number, (what, kind)) in kinds.into_iter().enumerate() {
        let made = make(&files, &format!("name {number}"), what);
        assert_eq!((made.kind, made.uid, made.gid, made.mode & 0o777), (kind, 5, 6, 0o644));
        let found = other.own().lookup(ROOT_INO, format!("name {number}")).expect("another session finds it");
        assert_eq!(found, made);
    }
    let link = files.lookup(ROOT_INO, "name 2").expect("the link").ino;
    assert_eq!(files.read_link(link).expect("its target"), "target");
    refused(files.read_link(ROOT_INO), Posix::Invalid);
    assert_eq!(files.lookup(ROOT_INO, "name 3").expect("the device").rdev, 7);
    let directory = files.lookup(ROOT_INO, "name 1").expect("the directory").ino;
    let below = files.make(directory, "below", Make::File, OWNER).expect("a file below");
    assert_eq!(files.parent(directory).expect("its parent"), ROOT_INO);
    assert_eq!(files.path(below.ino).expect("its path").as_deref(), Some("name 1/below"));
    refused(files.lookup(ROOT_INO, "absent"), Posix::NotFound);
}

fn moving(from: &str, to: &str, mode: RenameMode) -> Rename {
    Rename { from_parent: ROOT_INO, from_name: from.into(), to_parent: ROOT_INO, to_name: to.into(), mode }
}

fn names_are_linked_moved_and_removed(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let (first, second) = (file(&files, "a"), file(&files, "b"));
    assert_eq!(files.link(first, ROOT_INO, "c").expect("linked").nlink, 2);
    refused(files.link(first, ROOT_INO, "b"), Posix::Exists);
    refused(files.rename(moving("a", "b", RenameMode::NoReplace)), Posix::Exists);
    files.rename(moving("a", "b", RenameMode::Exchange)).expect("exchanged");
    let ino = |name: &str| files.lookup(ROOT_INO, name).map(|found| found.ino).ok();
    assert_eq!((ino("a"), ino("b"), ino("c")), (Some(second), Some(first), Some(first)));
    files.rename(moving("a", "b", RenameMode::Replace)).expect("replaced");
    assert_eq!((ino("a"), ino("b")), (None, Some(second)));
    let whiteout = RenameMode::Whiteout { owner: OWNER, replace: false };
    files.rename(moving("b", "d", whiteout)).expect("moved");
    assert_eq!(files.lookup(ROOT_INO, "b").expect("a whiteout").kind, Kind::CharDevice);
    files.unlink(ROOT_INO, "c").expect("removed");
    refused(files.unlink(ROOT_INO, "c"), Posix::NotFound);
    let directory = make(&files, "dir", Make::Directory).ino;
    files.make(directory, "below", Make::File, OWNER).expect("a file below");
    refused(files.remove_dir(ROOT_INO, "dir"), Posix::NotEmpty);
    refused(files.unlink(ROOT_INO, "dir"), Posix::IsDirectory);
    refused(files.remove_dir(ROOT_INO, "d"), Posix::NotDirectory);
    files.unlink(directory, "below").expect("removed");
    files.remove_dir(ROOT_INO, "dir").expect("removed");
    refused(files.lookup(ROOT_INO, "dir"), Posix::NotFound);
}

fn names_that_cannot_be_are_refused(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    refused(files.make(ROOT_INO, &long, Make::File, OWNER), Posix::NameTooLong);
    refused(files.lookup(ROOT_INO, &long), Posix::NameTooLong);
    for name in ["", ".", "..", "a/b"] {
        refused(files.make(ROOT_INO, name, Make::File, OWNER), Posix::Invalid);
    }
    file(&files, &long[1..]);
    refused(files.make(ROOT_INO, &long[1..], Make::File, OWNER), Posix::Exists);
    refused(files.make(ROOT_INO, "link", Make::Symlink("x".repeat(4096)), OWNER), Posix::NameTooLong);
}

fn listed(files: &Files<'_>, limit: u32) -> Vec<DirEntry> {
    let mut names = files.read_dir(ROOT_INO, None::<String>, limit).expect("names");
    let mut all = std::mem::take(&mut names.entries);
    while let Some(after) = names.next.take() {
        names = files.read_dir(ROOT_INO, after, limit).expect("more names");
        assert!(names.entries.len() <= limit as usize);
        all.append(&mut names.entries);
    }
    all
}

/// A file that a directory of the same name hides may lie a page before it: `a`, `a.1`, `a/`.
fn a_listing_in_pages_is_the_whole_listing(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    for key in ["a", "a.1", "a.2", "a.3", "a/b", "b", "c/", "c0", "hidden//key"] {
        subject.put(key, b"x");
    }
    let whole = listed(&files, NAMES_MAX);
    let names: Vec<_> = whole.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    let (file, directory) = (Kind::File, Kind::Directory);
    let expected = [
        ("a.1", file),
        ("a.2", file),
        ("a.3", file),
        ("a", directory),
        ("b", file),
        ("c", directory),
        ("c0", file),
        ("hidden", directory),
    ];
    assert_eq!(names, expected);
    for limit in 1..10 {
        assert_eq!(listed(&files, limit), whole, "in pages of {limit}");
    }
    refused(files.read_dir(whole[0].ino, None::<String>, 1u32), Posix::NotDirectory);
}

fn many_lookups_are_as_many_single_ones(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    for number in 0..50 {
        file(&files, &format!("{number:02}"));
    }
    let mut entries = listed(&files, NAMES_MAX);
    files.unlink(ROOT_INO, "07").expect("removed");
    entries.push(DirEntry { name: "zz".into(), ino: 99, kind: Kind::File });
    let looked = files.lookup_all(ROOT_INO, &entries[..], false).expect("looked up");
    assert_eq!(looked.len(), entries.len());
    for (entry, looked) in entries.iter().zip(looked) {
        match files.lookup(ROOT_INO, &entry.name) {
            Ok(single) => assert_eq!(looked.expect("it is there"), single),
            Err(_) => refused(looked, Posix::NotFound),
        }
    }
    let fresh = listed(&files, NAMES_MAX);
    let looked = files.lookup_all(ROOT_INO, &fresh[..], true).expect("looked up");
    let inos: Vec<_> = looked.into_iter().map(|attr| attr.expect("it is there").ino).collect();
    assert_eq!(inos, fresh.iter().map(|entry| entry.ino).collect::<Vec<_>>());
}

fn a_file_without_a_name_gets_one(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let made = files.create_nameless(ROOT_INO, OWNER, true).expect("created");
    assert_eq!((made.nlink, files.path(made.ino).expect("its path")), (0, None));
    files.write(made.ino, 0u64, false, b"content").expect("written");
    files.close_writer(made.ino, false).expect("closed");
    assert_eq!(files.link(made.ino, ROOT_INO, "named").expect("linked").nlink, 1);
    let never = files.create_nameless(ROOT_INO, OWNER, false).expect("created");
    refused(files.link(never.ino, ROOT_INO, "never"), Posix::NotFound);
    files.close_writer(never.ino, false).expect("closed");
    assert_eq!(files.lookup(ROOT_INO, "named").expect("found").size, 7);
}
