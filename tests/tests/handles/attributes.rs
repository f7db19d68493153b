//! Attributes set through one handle survive changes through the other, and every change of content shows in the entity
//! tag.

use std::collections::BTreeSet;
use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::types::{Tag, Tagging};
use rustix::fs::{FallocateFlags, XattrFlags, copy_file_range, fallocate, getxattr, rename, setxattr};

use super::both::{BUCKET, Both, METADATA};
use crate::support::load::Content;
use crate::support::mapping::Mapping;
use crate::support::*;

const ACCESS: &str = "system.posix_acl_access";

here_and_elsewhere! {
    fn attributes_set_by_a_mount_survive_s3_requests() {
        need!(root_and_fuse());
        let both = Both::new(None);
        let (file, folder) = (both.path("d/key"), both.path("d"));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(&file, "content").expect("a file");
        for path in [&file, &folder] {
            set_all(path);
        }
        let before = [&file, &folder].map(|path| (ownership(path), xattrs(path), times(path)));
        // Other keys in the same folder; the folder's own time moves with its names.
        for round in 0..50 {
            both.put(&format!("d/other-{}", round % 7), vec![1; 1 + round * 300], None).expect("put");
            both.upload("d/uploaded", vec![2; 9_000]).expect("uploaded");
            both.copy("d/key", "d/copy").expect("copied");
            both.delete(&format!("d/other-{}", round % 5)).expect("deleted");
            both.get("d/key").expect("read");
            both.head("d/key").expect("there");
        }
        assert_eq!((ownership(&file), xattrs(&file), times(&file)), before[0]);
        assert_eq!((ownership(&folder), xattrs(&folder)), (before[1].0, before[1].1.clone()));
        // A PUT over it creates another file with the same name, owner, mode and ACL.
        for (round, len) in [10, 10, 5_000, 200_000].into_iter().enumerate() {
            both.put("d/key", vec![3; len], None).expect("put");
            assert_eq!(ownership(&file), before[0].0, "after {} objects were put over it", round + 1);
            assert_eq!(xattrs(&file)[0], before[0].1[0], "its ACL");
            assert_eq!(std::fs::read(&file).expect("read").len(), len);
        }
        both.upload("d/key", vec![4; 70_000]).expect("uploaded");
        assert_eq!((ownership(&file), &xattrs(&file)[0]), (before[0].0, &before[0].1[0]), "after an upload");
    }
}

here_and_elsewhere! {
    fn attributes_set_by_s3_survive_writes_by_a_mount() {
        need!(root_and_fuse());
        let both = Both::new(None);
        let tagging = Tagging::builder().tag_set(Tag::builder().key("team").value("red").build().expect("a tag")).build();
        let put = both.client().put_object().bucket(BUCKET).key("key").content_type("text/x-story").tagging("team=red");
        let put = put.cache_control("no-cache").metadata(METADATA, "kept").body(vec![1; 6_000].into());
        both.wait(put.send()).expect("put");
        let said = |key: &str| {
            let head = both.head(key).expect("an object");
            let tags = both.client().get_object_tagging().bucket(BUCKET).key(key).send();
            let tags = both.wait(tags).expect("its tags").tag_set;
            let metadata = head.metadata().and_then(|all| all.get(METADATA)).cloned();
            (head.content_type().map(str::to_owned), head.cache_control().map(str::to_owned), metadata, tags)
        };
        let before = said("key");
        assert_eq!((before.0.as_deref(), before.2.as_deref()), (Some("text/x-story"), Some("kept")));
        assert_eq!(before.3, tagging.expect("tags").tag_set);
        let path = both.path("key");
        std::fs::write(&path, "shorter").expect("written again");
        assert_eq!(said("key"), before, "after open(2) with O_TRUNC");
        let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(&[5; 200_000]).expect("appended");
        drop(file);
        assert_eq!(said("key"), before, "after an append");
        set_all(&path);
        assert_eq!(said("key"), before, "after chmod, chown, setxattr and a change of times");
        rename(&path, both.path("moved")).expect("renamed");
        assert_eq!(said("moved"), before, "after a rename");
        std::fs::hard_link(both.path("moved"), both.path("twin")).expect("linked");
        assert_eq!(said("twin"), before, "by another hard link");
    }
}

here_and_elsewhere! {
    fn every_change_of_content_changes_the_entity_tag() {
        need!(root_and_fuse());
        let mut rng = Rng::new("handles::attributes");
        let both = Both::new(None);
        let path = both.path("key");
        let mut seen = BTreeSet::new();
        let tag = |what: &str| both.head("key").expect(what).e_tag.expect("an entity tag");
        for round in 0..30 {
            // Lengths for each place of content: the record, a segment, a file. Content of one byte would repeat, and a PUT
            // of the same bytes has the same tag.
            let len = *rng.pick(&[8, 100, 4_096, 4_097, 60_000, 140_000]);
            let content = |seed| Content { len, seed }.bytes();
            both.put("key", content(rng.roll()), None).expect("put");
            let mut last = tag("put");
            assert!(seen.insert(last.clone()), "round {round}: the tag repeats");
            let mut changed = |what: &str| {
                let now = tag(what);
                assert_ne!(now, last, "round {round}: {what} of {len} bytes");
                assert!(seen.insert(now.clone()), "round {round}: {what}: the tag repeats");
                assert_eq!(tag(what), now, "round {round}: the tag stays while the content does not change");
                last = now;
            };
            let file = OpenOptions::new().read(true).write(true).open(&path).expect("opened");
            // Changes that keep the size, within one tick of the clock.
            for turn in 0..3 {
                file.write_all_at(&[turn], 0).expect("written");
                changed("a write in place, the file still open");
            }
            file.set_len(len as u64 + 10_000).expect("longer");
            changed("a truncation to more");
            let mut mapping = Mapping::new(&file, 0, 1).expect("mapped");
            mapping.write(0, &[200]);
            mapping.sync().expect("synced");
            drop(mapping);
            changed("a write through a mapping");
            fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 1).expect("punched");
            changed("a hole");
            let other = File::create(both.path("other")).expect("a file");
            drop(other);
            std::fs::write(both.path("other"), [7; 5_000]).expect("written");
            let other = File::open(both.path("other")).expect("opened");
            copy_file_range(&other, Some(&mut 0), &file, Some(&mut 3), 5_000).expect("copied");
            changed("copy_file_range");
            file.set_len(0).expect("cut");
            changed("a truncation to nothing");
            drop(file);
            std::fs::write(&path, content(rng.roll())).expect("written again");
            changed("a rewrite of the file");
        }
    }
}

/// Sets everything that a mount can set on a file.
fn set_all(path: &Path) {
    chown(path, Some(1234), Some(4321)).expect("an owner");
    std::fs::set_permissions(path, Permissions::from_mode(0o2750)).expect("a mode");
    setxattr(path, ACCESS, &acl(), XattrFlags::empty()).expect("an ACL");
    setxattr(path, "user.colour", b"blue\0green", XattrFlags::empty()).expect("an attribute");
    setxattr(path, "trusted.secret", b"of root", XattrFlags::empty()).expect("an attribute");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    let file = File::open(path).expect("opened");
    file.set_times(FileTimes::new().set_modified(time).set_accessed(time)).expect("its times");
}

fn ownership(path: &Path) -> (u32, u32, u32) {
    let stat = path.symlink_metadata().expect("attributes");
    (stat.uid(), stat.gid(), stat.mode())
}

fn times(path: &Path) -> (i64, i64, i64) {
    let stat = path.symlink_metadata().expect("attributes");
    (stat.mtime(), stat.mtime_nsec(), stat.atime())
}

/// The ACL and the attributes.
fn xattrs(path: &Path) -> [Vec<u8>; 3] {
    [ACCESS, "user.colour", "trusted.secret"].map(|name| {
        let mut value = vec![0; 1024];
        let len = getxattr(path, name, &mut value).unwrap_or(0);
        value.truncate(len);
        value
    })
}

/// As acl(5) and the kernel write it: the owner rwx, user 1234 rw-, the group r-x, a mask rwx, others nothing.
fn acl() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 7, u32::MAX), (0x02, 6, 1234), (0x04, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}
