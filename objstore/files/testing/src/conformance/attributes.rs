//! Attributes, flags, extended attributes, ACLs and space.

use objstore_base::acl::{Acl, Hidden};
use objstore_base::clock::Timestamp;
use objstore_base::error::Posix;
use objstore_files::{Flags, ROOT_INO, SetAcl, SetAttr, WhichAcl, XATTR_BYTES_MAX, XattrMode};

use super::{Subject, Test, file, refused};

pub(super) const TESTS: &[(&str, Test)] = &[
    ("attributes are set one by one", attributes_are_set_one_by_one),
    ("flags hold for every session", flags_hold_for_every_session),
    ("extended attributes are kept", extended_attributes_are_kept),
    ("access control lists and modes agree", access_control_lists_and_modes_agree),
    ("space is counted", space_is_counted),
];

fn attributes_are_set_one_by_one(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let files = session.own();
    let ino = file(&files, "a");
    let before = files.attr(ino).expect("attributes");
    let set = |set: SetAttr| {
        let after = files.set_attr(ino, set).expect("set");
        assert_eq!(other.own().attr(ino).expect("attributes"), after);
        after
    };
    assert_eq!(set(SetAttr { mode: Some(0o4751), ..SetAttr::default() }).mode, 0o4751);
    let owned = set(SetAttr { uid: Some(70_000), gid: Some(80_000), ..SetAttr::default() });
    assert_eq!((owned.uid, owned.gid, owned.mode), (70_000, 80_000, 0o4751));
    let old = Timestamp(-1_750_000_000);
    let timed = set(SetAttr { atime: Some(old), mtime: Some(Timestamp(7)), ..SetAttr::default() });
    assert_eq!((timed.atime, timed.mtime, timed.btime), (old, Timestamp(7), before.btime));
    files.lose_privileges(ino, true).expect("cleared");
    assert_eq!(files.attr(ino).expect("attributes").mode, 0o751);
    refused(files.attr(u64::MAX), Posix::Stale);
}

fn flags_hold_for_every_session(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let ino = file(&session.own(), "a");
    let all = [Flags { no_dump: true, ..Flags::default() }, Flags { immutable: true, ..Flags::default() }];
    for flags in all {
        session.own().set_flags(ino, flags).expect("set");
        assert_eq!(other.own().flags(ino).expect("flags"), flags);
    }
    refused(other.own().write(ino, 0u64, false, b"x"), Posix::NotPermitted);
    refused(other.own().unlink(ROOT_INO, "a"), Posix::NotPermitted);
    session.own().set_flags(ino, Flags::default()).expect("cleared");
    other.own().write(ino, 0u64, false, b"x").expect("written");
}

fn extended_attributes_are_kept(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let files = session.own();
    let ino = file(&files, "a");
    let large = vec![7; XATTR_BYTES_MAX];
    files.set_xattr(ino, "user.a", &b"one"[..], XattrMode::Create).expect("set");
    files.set_xattr(ino, "trusted.b", &large[..], XattrMode::Any).expect("set");
    refused(files.set_xattr(ino, "user.a", &b"x"[..], XattrMode::Create), Posix::Exists);
    refused(files.set_xattr(ino, "user.c", &b"x"[..], XattrMode::Replace), Posix::NoData);
    refused(files.set_xattr(ino, "user.c", vec![7; XATTR_BYTES_MAX + 1], XattrMode::Any), Posix::NoSpace);
    refused(files.set_xattr(ino, "other.c", &b"x"[..], XattrMode::Any), Posix::NotSupported);
    assert_eq!(other.own().xattr(ino, "user.a").expect("its value"), &b"one"[..]);
    assert_eq!(other.own().xattr(ino, "trusted.b").expect("its value"), large);
    let names = other.own().xattrs(ino).expect("names");
    assert!(["user.a", "trusted.b"].iter().all(|name| names.iter().any(|listed| listed == name)), "{names:?}");
    files.remove_xattr(ino, "user.a").expect("removed");
    refused(files.remove_xattr(ino, "user.a"), Posix::NoData);
    refused(other.own().xattr(ino, "user.a"), Posix::NoData);
}

/// `u::rwx,u:9:rw-,g::r-x,m::rwx,o::r--`
fn acl() -> Acl {
    let none = [255; 4];
    let entries = [(1, 7, none), (2, 6, [9, 0, 0, 0]), (4, 5, none), (16, 7, none), (32, 4, none)];
    let entries = entries.map(|(tag, allowed, id)| [&[tag, 0, allowed, 0][..], &id].concat()).concat();
    Acl::parse(&[&[2, 0, 0, 0][..], &entries].concat()).expect("it is valid").expect("it has entries")
}

fn access_control_lists_and_modes_agree(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let files = session.own();
    let ino = file(&files, "a");
    assert_eq!(files.acl(ino, WhichAcl::Access).expect("no ACL"), None);
    files.set_acl(ino, WhichAcl::Access, acl(), SetAcl::default()).expect("set");
    assert_eq!(other.own().acl(ino, WhichAcl::Access).expect("the ACL"), Some(acl()));
    assert_eq!(other.own().attr(ino).expect("attributes").mode & 0o777, 0o774);
    // Entries that the setter was not shown stay.
    let users = Hidden { users: true, groups: false };
    let how = SetAcl { kill_setgid: true, hidden: users };
    files.set_acl(ino, WhichAcl::Access, acl().without(users), how).expect("set");
    assert_eq!(files.acl(ino, WhichAcl::Access).expect("the ACL"), Some(acl()));
    files.remove_acl(ino, WhichAcl::Access).expect("removed");
    assert_eq!(files.acl(ino, WhichAcl::Access).expect("no ACL"), None);
    files.set_acl(ROOT_INO, WhichAcl::Default, acl(), SetAcl::default()).expect("set");
    assert!(files.set_acl(ino, WhichAcl::Default, acl(), SetAcl::default()).is_err(), "only directories have one");
    let inherited = file(&files, "b");
    assert!(files.acl(inherited, WhichAcl::Access).expect("an ACL").is_some());
}

fn space_is_counted(subject: &dyn Subject) {
    let session = subject.open();
    let files = session.own();
    let before = files.space().expect("space");
    let ino = file(&files, "a");
    files.write(ino, 0u64, false, &[1; 100_000]).expect("written");
    let after = files.space().expect("space");
    assert_eq!(after.used_bytes, before.used_bytes + 100_000);
    assert!(after.inodes > before.inodes && after.total_bytes >= after.used_bytes);
}
