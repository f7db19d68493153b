//! Metadata of a file: ACLs, extended attributes, and the S3 attributes of the object.

use super::test_store::{TestStore, by_root, find, key, make, make_file};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::{Headers, ObjectInfo};
use crate::volume::{ACCESS_ACL, Attr, DEFAULT_ACL, Make, Ownership, SetAttr, Volume, XattrMode};

/// `u::rwx,u:9:rwx,g::r-x,m::rwx,o::---`
const NAMED: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 7, 0, 9, 0, 0, 0, 4, 0, 5, 0, 255, 255, 255, 255, 16, 0, 7, 0,
    255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

fn set(volume: &Volume, ino: u64, name: &str, value: &[u8]) -> Result<()> {
    volume.set_xattr(ino, name, value, XattrMode::Any)
}

fn get(volume: &Volume, ino: u64, name: &str) -> Option<String> {
    volume.xattr(ino, name).ok().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn head(test: &TestStore, bucket: &BucketName, at: &str) -> ObjectInfo {
    test.store.head_object(bucket, &key(at), None).unwrap()
}

fn at(volume: &Volume, path: &str) -> Attr {
    volume.attr(find(volume, path).unwrap()).unwrap()
}

fn refused<T>(result: Result<T>, why: Posix) -> bool {
    result.is_err_and(|error| matches!(error, Error::Posix(posix) if posix == why))
}

#[test]
fn acls_are_given_on_by_directories_to_both_handles() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    let dir = make(&volume, volume.root(), "d", Make::Directory).unwrap();
    set(&volume, dir, DEFAULT_ACL, &NAMED).unwrap();
    let who = Ownership { umask: 0o077, ..by_root(0o664) };
    let made = volume.make(dir, "f", Make::File, who).unwrap();
    assert_eq!(made.mode, 0o660, "the default ACL stands in place of the umask");
    assert!(volume.xattrs(made.ino).unwrap().contains(&ACCESS_ACL.to_owned()));
    test.put(&bucket, "d/sub/by-s3", b"x").unwrap();
    test.put(&bucket, "d/by-s3", b"x").unwrap();
    assert_eq!(at(&volume, "d/by-s3").mode, 0o660);
    let implied = find(&volume, "d/sub").unwrap();
    assert_eq!(volume.xattr(implied, DEFAULT_ACL).unwrap(), NAMED[..]);
    assert_eq!(at(&volume, "d/sub/by-s3").mode, 0o660);
    test.audit_collected();
}

#[test]
fn a_put_over_a_file_keeps_mode_owner_acl_and_labels() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    volume.set_attr(ino, SetAttr { uid: Some(4), gid: Some(5), ..SetAttr::default() }).unwrap();
    set(&volume, ino, ACCESS_ACL, &NAMED).unwrap();
    for name in ["security.label", "security.capability", "user.note", "trusted.note"] {
        set(&volume, ino, name, b"x").unwrap();
    }
    test.put(&bucket, "f", b"new").unwrap();
    let after = at(&volume, "f");
    assert_eq!((after.uid, after.gid, after.mode), (4, 5, 0o770));
    assert_eq!(volume.xattrs(after.ino).unwrap(), ["security.label", ACCESS_ACL]);
    assert_eq!(volume.xattr(after.ino, ACCESS_ACL).unwrap(), NAMED[..]);
}

#[test]
fn modes_and_acls_are_kept_in_step() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    set(&volume, ino, ACCESS_ACL, &NAMED).unwrap();
    assert_eq!(volume.attr(ino).unwrap().mode, 0o770);
    volume.set_attr(ino, SetAttr { mode: Some(0o640), ..SetAttr::default() }).unwrap();
    assert_eq!(volume.xattr(ino, ACCESS_ACL).unwrap()[30], 4, "the mask");
    assert!(matches!(set(&volume, ino, DEFAULT_ACL, &NAMED), Err(Error::Denied { .. })));
    assert!(refused(set(&volume, ino, ACCESS_ACL, &NAMED[..20]), Posix::Invalid));
    assert!(refused(set(&volume, ino, "system.other", b"x"), Posix::NotSupported));
    assert!(refused(set(&volume, ino, "user.", b"x"), Posix::Invalid));
    volume.remove_xattr(ino, ACCESS_ACL).unwrap();
    volume.remove_xattr(ino, ACCESS_ACL).unwrap();
    assert_eq!(volume.attr(ino).unwrap().mode, 0o640);
}

#[test]
fn capabilities_end_with_the_content_they_were_given_to() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    let changes: [&dyn Fn() -> Result<()>; 3] = [
        &|| volume.write(ino, 0, b"x", false).map(drop),
        &|| volume.set_attr(ino, SetAttr { size: Some(9), ..SetAttr::default() }).map(drop),
        &|| {
            let chown = SetAttr { uid: Some(1), kill_privileges: true, ..SetAttr::default() };
            volume.set_attr(ino, chown).map(drop)
        },
    ];
    for change in changes {
        set(&volume, ino, "security.capability", b"x").unwrap();
        change().unwrap();
        assert!(refused(volume.xattr(ino, "security.capability"), Posix::NoData));
    }
}

#[test]
fn a_thousand_attributes_and_the_longest_value_fit() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    for index in 0..1_000 {
        set(&volume, ino, &format!("user.{index:04}"), &[index as u8; 100]).unwrap();
    }
    set(&volume, ino, "user.long", &[7; 64 << 10]).unwrap();
    assert_eq!(volume.xattrs(ino).unwrap().len(), 1_001);
    assert!(refused(set(&volume, ino, "user.longer", &[7; (64 << 10) + 1]), Posix::NoSpace));
    for index in 0..5 {
        set(&volume, ino, &format!("user.long{index}"), &[7; 64 << 10]).unwrap();
    }
    assert!(refused(set(&volume, ino, "user.one more", &[7; 64 << 10]), Posix::NoSpace));
}

#[test]
fn what_a_mount_says_of_an_object_s3_tells_at_once() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    test.put(&bucket, "f", b"content").unwrap();
    let volume = test.mount(&bucket);
    let ino = find(&volume, "f").unwrap();
    let before = volume.attr(ino).unwrap();
    let first = head(&test, &bucket, "f");
    assert_eq!(get(&volume, ino, "user.s3.etag"), Some(first.etag.clone()));
    assert_eq!(get(&volume, ino, "user.s3.content-type"), None);
    set(&volume, ino, "user.s3.content-type", b"text/plain").unwrap();
    set(&volume, ino, "user.s3.meta.author", b"me").unwrap();
    set(&volume, ino, "user.s3.tag.Kind of", b"one").unwrap();
    set(&volume, ino, "user.plain", b"x").unwrap();
    let told = head(&test, &bucket, "f");
    assert_eq!(told.headers, Headers { content_type: Some("text/plain".into()), ..Headers::default() });
    assert_eq!(told.metadata.into_iter().collect::<Vec<_>>(), [("author".to_owned(), "me".to_owned())]);
    assert_eq!(told.tags.into_iter().collect::<Vec<_>>(), [("Kind of".to_owned(), "one".to_owned())]);
    assert_eq!((told.etag, told.modified), (first.etag, first.modified));
    assert!(volume.attr(ino).unwrap().ctime > before.ctime);
    volume.remove_xattr(ino, "user.s3.meta.author").unwrap();
    assert!(refused(volume.remove_xattr(ino, "user.s3.meta.author"), Posix::NoData));
    assert!(refused(volume.remove_xattr(ino, "user.s3.etag"), Posix::NotPermitted));
    assert!(refused(volume.set_xattr(ino, "user.s3.content-type", b"x", XattrMode::Create), Posix::Exists));
    assert!(refused(volume.set_xattr(ino, "user.s3.meta.new", b"x", XattrMode::Replace), Posix::NoData));
    let names = ["content-type", "tag.Kind of"].map(|name| format!("user.s3.{name}"));
    assert_eq!(volume.xattrs(ino).unwrap(), [&names[..], &["user.plain".to_owned()]].concat());
}

#[test]
fn who_reads_the_entity_tag_sees_another_after_the_next_write() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    volume.write(ino, 0, &[1; 20 << 10], false).unwrap();
    let tags: Vec<_> = (0..4)
        .map(|step| {
            volume.write(ino, step, b"x", false).unwrap();
            get(&volume, ino, "user.s3.etag").unwrap()
        })
        .collect();
    assert!(tags.windows(2).all(|pair| pair[0] != pair[1]), "{tags:?}");
}

#[test]
fn what_is_no_object_has_nothing_of_one() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    test.put(&bucket, "implied/f", b"x").unwrap();
    let volume = test.mount(&bucket);
    let link = make(&volume, volume.root(), "link", Make::Symlink("f".into())).unwrap();
    for ino in [volume.root(), find(&volume, "implied").unwrap(), link] {
        assert_eq!(volume.xattrs(ino).unwrap(), Vec::<String>::new());
        assert!(refused(set(&volume, ino, "user.s3.tag.a", b"b"), Posix::NotPermitted));
    }
    let dir = make(&volume, volume.root(), "dir", Make::Directory).unwrap();
    set(&volume, dir, "user.s3.tag.a", b"b").unwrap();
    assert_eq!(head(&test, &bucket, "dir/").tags["a"], "b");
}
