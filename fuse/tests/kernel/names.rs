//! Names of files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use crate::test_store::{errno, run_all};

#[test]
#[expect(clippy::disallowed_methods, reason = "renames on the mount, as programs do")]
fn renames_move_replace_refuse_and_exchange() {
    run_all(|test| {
        let mount = test.mount("m");
        let at = |name: &str| mount.path().join(name);
        let text = |name: &str| std::fs::read_to_string(at(name)).unwrap_or_else(|error| error.to_string());
        std::fs::write(at("a"), "A").unwrap();
        std::fs::write(at("b"), "B").unwrap();
        let with = |from: &str, to: &str, flags| renameat_with(CWD, at(from), CWD, at(to), flags);
        assert_eq!(with("a", "b", RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
        with("a", "b", RenameFlags::EXCHANGE).unwrap();
        assert_eq!((text("a"), text("b")), ("B".into(), "A".into()));
        with("a", "c", RenameFlags::NOREPLACE).unwrap();
        std::fs::rename(at("c"), at("b")).unwrap();
        assert_eq!(text("b"), "B");
        assert!(!at("a").exists() && !at("c").exists());
        std::fs::create_dir_all(at("d/e")).unwrap();
        std::fs::rename(at("b"), at("d/e/f")).unwrap();
        std::fs::rename(at("d"), at("g")).unwrap();
        assert_eq!(text("g/e/f"), "B");
        assert_eq!(test.get("g/e/f").as_deref(), Some(b"B".as_slice()));
        assert_eq!(errno(std::fs::rename(at("g"), at("g/e/x"))), libc::EINVAL);
        std::fs::create_dir(at("full")).unwrap();
        std::fs::write(at("full/x"), "").unwrap();
        assert_eq!(errno(std::fs::rename(at("g"), at("full"))), libc::ENOTEMPTY);
        assert_eq!(errno(std::fs::remove_dir(at("full"))), libc::ENOTEMPTY);
    });
}

#[test]
fn hard_links_are_one_file() {
    run_all(|test| {
        let mount = test.mount("m");
        let at = |name: &str| mount.path().join(name);
        std::fs::write(at("a"), "one").unwrap();
        std::fs::hard_link(at("a"), at("b")).unwrap();
        assert_eq!(at("a").metadata().unwrap().nlink(), 2);
        assert_eq!(at("a").metadata().unwrap().ino(), at("b").metadata().unwrap().ino());
        std::fs::write(at("b"), "two").unwrap();
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "two");
        std::fs::remove_file(at("a")).unwrap();
        assert_eq!(at("b").metadata().unwrap().nlink(), 1);
        assert_eq!(test.get("b").as_deref(), Some(b"two".as_slice()));
    });
}

#[test]
fn symlinks_and_special_files_are_kept() {
    run_all(|test| {
        let mount = test.mount("m");
        let at = |name: &str| mount.path().join(name);
        std::os::unix::fs::symlink("some/where", at("link")).unwrap();
        assert_eq!(std::fs::read_link(at("link")).unwrap().to_str(), Some("some/where"));
        assert_eq!(at("link").symlink_metadata().unwrap().len(), 10);
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::from(0o640), 0).unwrap();
        mknodat(CWD, at("null"), FileType::CharacterDevice, Mode::from(0o600), rustix::fs::makedev(1, 3)).unwrap();
        mknodat(CWD, at("plain"), FileType::RegularFile, Mode::from(0o600), 0).unwrap();
        assert!(at("pipe").metadata().unwrap().file_type().is_fifo());
        assert_eq!(at("null").metadata().unwrap().rdev(), rustix::fs::makedev(1, 3));
        assert!(at("plain").metadata().unwrap().is_file());
        assert_eq!(test.get("link"), None, "S3 sees no symlinks");
    });
}

#[test]
fn names_no_key_could_have_are_refused() {
    run_all(|test| {
        let mount = test.mount("m");
        let bad = mount.path().join(OsStr::from_bytes(b"a\xffb"));
        assert_eq!(errno(std::fs::write(&bad, "")), libc::EILSEQ);
        assert_eq!(errno(std::fs::create_dir(&bad)), libc::EILSEQ);
        assert_eq!(errno(std::fs::write(mount.path().join("x".repeat(256)), "")), libc::ENAMETOOLONG);
        std::fs::write(mount.path().join("é".repeat(127)), "kept").unwrap();
        assert_eq!(test.get(&"é".repeat(127)).as_deref(), Some(b"kept".as_slice()));
    });
}

#[test]
fn a_setgid_directory_gives_its_group() {
    run_all(|test| {
        let mount = test.mount("m");
        let dir = mount.path().join("shared");
        std::fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, None, Some(1_234)).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o2775)).unwrap();
        std::fs::write(dir.join("file"), "").unwrap();
        std::fs::create_dir(dir.join("sub")).unwrap();
        assert_eq!(dir.join("file").metadata().unwrap().gid(), 1_234);
        let sub = dir.join("sub").metadata().unwrap();
        assert_eq!((sub.gid(), sub.mode() & 0o2000), (1_234, 0o2000));
    });
}
