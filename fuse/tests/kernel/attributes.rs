//! Modes, owners, times, extended attributes and space.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use fuse::Options;
use objstore::volume::VolumeOptions;
use rustix::fs::{
    AtFlags, CWD, Timespec, Timestamps, XattrFlags, getxattr, listxattr, removexattr, setxattr, utimensat,
};

use crate::test_store::run_all;

#[test]
fn modes_and_owners_are_kept() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).unwrap();
        assert_eq!(path.metadata().unwrap().mode(), 0o104_751);
        std::os::unix::fs::chown(&path, Some(7), Some(8)).unwrap();
        let meta = path.metadata().unwrap();
        assert_eq!((meta.uid(), meta.gid()), (7, 8));
        assert_eq!(meta.mode() & 0o7777, 0o751, "chown(2) clears setuid");
        mount.unmount().unwrap();
        let again = test.mount("again");
        let meta = again.path().join("f").metadata().unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode()), (7, 8, 0o100_751));
    });
}

#[test]
fn times_are_kept_to_the_nanosecond_also_before_1970() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, "").unwrap();
        for (secs, nanos) in [(1_700_000_000, 123_456_789), (0, 1), (-1, 750_000_000), (-86_400, 0)] {
            let time = Timespec { tv_sec: secs, tv_nsec: nanos };
            let times = Timestamps { last_access: time, last_modification: time };
            utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
            let meta = path.metadata().unwrap();
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (secs, nanos));
            assert_eq!((meta.atime(), meta.atime_nsec()), (secs, nanos));
        }
        let old = path.metadata().unwrap();
        std::fs::write(&path, "new").unwrap();
        let new = path.metadata().unwrap();
        assert!(new.mtime() > old.mtime() && new.ctime() >= old.ctime());
    });
}

#[test]
fn extended_attributes_are_kept() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, "").unwrap();
        let get = |name: &str| {
            let mut value = vec![0; 64];
            getxattr(&path, name, &mut value).map(|len| value[..len].to_vec())
        };
        setxattr(&path, "user.a", b"one", XattrFlags::CREATE).unwrap();
        setxattr(&path, "trusted.b", b"", XattrFlags::empty()).unwrap();
        assert_eq!(get("user.a"), Ok(b"one".to_vec()));
        assert_eq!(setxattr(&path, "user.a", b"", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
        assert_eq!(setxattr(&path, "user.c", b"", XattrFlags::REPLACE), Err(rustix::io::Errno::NODATA));
        assert_eq!(getxattr(&path, "user.a", &mut [0; 2]), Err(rustix::io::Errno::RANGE));
        let mut list = vec![0; 256];
        let len = listxattr(&path, &mut list).unwrap();
        let mut names: Vec<_> = list[..len].split_inclusive(|&byte| byte == 0).collect();
        names.retain(|name| !name.starts_with(b"user.s3."));
        names.sort_unstable();
        assert_eq!(names, [b"trusted.b\0".as_slice(), b"user.a\0"]);
        removexattr(&path, "user.a").unwrap();
        assert_eq!(get("user.a"), Err(rustix::io::Errno::NODATA));
        assert_eq!(setxattr(&path, "system.x", b"", XattrFlags::empty()), Err(rustix::io::Errno::OPNOTSUPP));
    });
}

#[test]
fn an_owner_and_umask_can_be_shown() {
    run_all(|test| {
        test.put("f", b"content");
        let options = Options { uid: Some(41), gid: Some(42), umask: 0o027, ..Options::default() };
        let mount = test.mount_with("m", VolumeOptions::default(), options);
        let meta = mount.path().join("f").metadata().unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o027), (41, 42, 0));
        std::fs::write(mount.path().join("g"), "").unwrap();
        assert_eq!(std::os::unix::fs::chown(mount.path().join("g"), Some(41), None).ok(), Some(()));
        assert!(std::os::unix::fs::chown(mount.path().join("g"), Some(5), None).is_err());
        let plain = test.mount("plain");
        assert_eq!(plain.path().join("g").metadata().unwrap().uid(), 41);
    });
}

#[test]
fn the_space_is_told() {
    run_all(|test| {
        let mount = test.mount("m");
        let told = |path: &Path| rustix::fs::statvfs(path).unwrap();
        let before = told(mount.path());
        assert!(before.f_blocks > 0 && before.f_bavail <= before.f_blocks && before.f_files > 0);
        assert_eq!(before.f_namemax, 255);
    });
}

#[test]
fn files_with_holes_say_what_space_they_take() {
    const MIB: u64 = 1 << 20;
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let blocks = || path.metadata().unwrap().blocks();
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(100 * MIB).unwrap();
        assert_eq!(blocks(), 0, "nothing but a hole");
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 256 << 10], 50 * MIB).unwrap();
        let some = 512..2_048;
        assert!(some.contains(&blocks()), "{}", blocks());
        drop(file);
        test.store().head_object(test.bucket(), &"f".parse().unwrap(), None).unwrap();
        mount.unmount().unwrap();
        let mount = test.mount("again");
        let path = mount.path().join("f");
        let blocks = || path.metadata().unwrap().blocks();
        assert!(some.contains(&blocks()), "{}", blocks());
        std::fs::write(&path, vec![1; 2 << 20]).unwrap();
        assert!(blocks() >= 4_096, "{}", blocks());
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, punch, 0, MIB).unwrap();
        assert!((2_048..3_000).contains(&blocks()), "{}", blocks());
    });
}
