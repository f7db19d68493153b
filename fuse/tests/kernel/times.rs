//! Which timestamps an operation changes, and which can be set: as on ext4, call by call.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FallocateFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags, utimensat};

use crate::folder_pair::{FolderPair, MEMBER, OTHER, OWNER, ROOT, chmod, heard, moved, rename, shell, told};
use crate::test_store::run;

fn writable(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

type Action = (&'static str, fn(&Path));

/// The actions in a folder with the files `f` and `g`, the links `h` to `f` and `l`, and the directories `d` and `e`.
const ACTIONS: [Action; 34] = [
    ("create", |d| drop(File::create_new(d.join("d/new")).unwrap())),
    ("mkdir", |d| std::fs::create_dir(d.join("d/sub")).unwrap()),
    ("symlink", |d| std::os::unix::fs::symlink("x", d.join("d/link")).unwrap()),
    ("link", |d| std::fs::hard_link(d.join("f"), d.join("d/again")).unwrap()),
    ("unlink one of two", |d| std::fs::remove_file(d.join("h")).unwrap()),
    ("unlink", |d| std::fs::remove_file(d.join("d/inside")).unwrap()),
    ("rmdir", |d| std::fs::remove_dir(d.join("e")).unwrap()),
    ("rename", |d| rename(&d.join("f"), &d.join("renamed")).unwrap()),
    ("rename into", |d| rename(&d.join("g"), &d.join("d/g")).unwrap()),
    ("rename over", |d| rename(&d.join("g"), &d.join("f")).unwrap()),
    ("rename a directory", |d| rename(&d.join("e"), &d.join("d/e")).unwrap()),
    ("exchange", |d| {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(CWD, d.join("g"), CWD, d.join("d/inside"), flags).unwrap();
    }),
    ("rename to oneself", |d| rename(&d.join("f"), &d.join("h")).unwrap()),
    ("chmod", |d| chmod(&d.join("f"), 0o600).unwrap()),
    ("chmod to the same", |d| chmod(&d.join("f"), 0o644).unwrap()),
    ("chmod of a directory", |d| chmod(&d.join("d"), 0o700).unwrap()),
    ("chown", |d| std::os::unix::fs::chown(d.join("f"), Some(5), Some(6)).unwrap()),
    ("chown to nobody", |d| std::os::unix::fs::chown(d.join("f"), None, None).unwrap()),
    ("write", |d| writable(&d.join("f")).write_all_at(b"x", 0).unwrap()),
    ("write nothing", |d| assert_eq!(rustix::io::write(writable(&d.join("f")), &[]), Ok(0))),
    ("append", |d| drop(shell(d, "echo more >> f"))),
    ("truncate to the same size", |d| writable(&d.join("f")).set_len(7).unwrap()),
    ("truncate", |d| writable(&d.join("f")).set_len(3).unwrap()),
    ("open with O_TRUNC", |d| drop(File::create(d.join("f")).unwrap())),
    ("open an empty one with O_TRUNC", |d| drop(File::create(d.join("g")).unwrap())),
    ("open and close", |d| drop(writable(&d.join("f")))),
    ("reserve", |d| rustix::fs::fallocate(writable(&d.join("f")), FallocateFlags::empty(), 0, 9_000).unwrap()),
    ("punch", |d| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(writable(&d.join("f")), flags, 0, 5).unwrap();
    }),
    ("copy a range", |d| {
        let from = File::open(d.join("f")).unwrap();
        rustix::fs::copy_file_range(&from, None, writable(&d.join("g")), None, 5).unwrap();
    }),
    ("read", |d| drop(std::fs::read(d.join("f")).unwrap())),
    ("list", |d| assert_eq!(std::fs::read_dir(d.join("d")).unwrap().count(), 1)),
    ("setxattr", |d| rustix::fs::setxattr(d.join("f"), "user.a", b"b", XattrFlags::empty()).unwrap()),
    ("setfacl", |d| drop(shell(d, "setfacl -m u:5:r f"))),
    ("setfacl of the default", |d| drop(shell(d, "setfacl -d -m u:5:r d"))),
];

#[test]
fn an_action_moves_the_times_that_it_moves_on_ext4() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for (index, (what, act)) in ACTIONS.into_iter().enumerate() {
            pair.agree(what, ROOT, |dir| {
                let dir = dir.join(index.to_string());
                std::fs::create_dir(&dir).unwrap();
                shell(&dir, "echo 123456 > f; touch g; mkdir d e; echo x > d/inside; ln f h; ln -s f l");
                let paths = [".", "f", "g", "h", "l", "d", "e", "d/inside"].map(|name| dir.join(name));
                let open = File::open(&paths[1]).unwrap();
                let told = moved(&paths.each_ref().map(std::path::PathBuf::as_path), || act(&dir));
                (told, open.metadata().unwrap().nlink())
            });
        }
    });
}

#[test]
fn times_are_set_by_who_may() {
    let fixed = |seconds| Timespec { tv_sec: seconds, tv_nsec: 5 };
    let special = |nanos| Timespec { tv_sec: 0, tv_nsec: nanos };
    let (now, omit) = (special(UTIME_NOW), special(UTIME_OMIT));
    run(move |test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for mode in [0o600, 0o666, 0o444] {
            for (access, change) in [
                (now, now),
                (omit, omit),
                (fixed(1), fixed(2)),
                (now, omit),
                (omit, now),
                (fixed(1), omit),
                (now, fixed(3)),
            ] {
                for actor in [ROOT, OWNER, MEMBER, OTHER] {
                    pair.agree("making it", ROOT, |dir| {
                        std::fs::write(dir.join("f"), b"").unwrap();
                        std::os::unix::fs::chown(dir.join("f"), Some(OWNER.uid), None).unwrap();
                        chmod(&dir.join("f"), mode).unwrap();
                    });
                    let times = Timestamps { last_access: access, last_modification: change };
                    pair.agree((mode, &access, &change), actor, |dir| {
                        let path = dir.join("f");
                        let mut set = Ok(());
                        let moved = moved(&[&path], || set = told(utimensat(CWD, &path, &times, AtFlags::empty())));
                        (set, moved)
                    });
                }
            }
        }
    });
}

#[test]
fn times_are_kept_from_1678_to_2262_and_cut_beyond() {
    run(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, b"").unwrap();
        let set = |seconds: i64, nanos: i64| {
            let time = Timespec { tv_sec: seconds, tv_nsec: nanos };
            let times = Timestamps { last_access: time, last_modification: time };
            told(utimensat(CWD, &path, &times, AtFlags::empty())).unwrap();
            let meta = path.metadata().unwrap();
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (meta.atime(), meta.atime_nsec()));
            (meta.mtime(), meta.mtime_nsec())
        };
        for kept in [(-9_214_560_000, 1), (-1, 999_999_999), (0, 0), (4_294_967_296, 7), (9_214_646_400, 999_999_999)] {
            assert_eq!(set(kept.0, kept.1), kept);
        }
        // As on other file systems, the nearest time that can be represented.
        assert_eq!(set(20_000_000_000, 0).0, i64::MAX / 1_000_000_000);
        assert_eq!(set(-20_000_000_000, 0).0, i64::MIN / 1_000_000_000 - 1);
        mount.unmount().unwrap();
        let again = test.mount("again");
        assert_eq!(heard(again.path().join("f").metadata()).unwrap().mtime(), i64::MIN / 1_000_000_000 - 1);
    });
}

#[test]
fn a_birth_time_is_told_and_never_moves() {
    run(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, b"").unwrap();
        let born = path.metadata().unwrap().created().unwrap();
        assert!(born.elapsed().unwrap() < std::time::Duration::from_secs(60));
        std::fs::write(&path, b"more").unwrap();
        writable(&path).set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(path.metadata().unwrap().created().unwrap(), born);
    });
}

#[test]
fn reading_moves_no_time() {
    run(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, b"content").unwrap();
        let before = path.metadata().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(12));
        std::fs::read(&path).unwrap();
        let after = path.metadata().unwrap();
        assert_eq!((before.atime(), before.atime_nsec()), (after.atime(), after.atime_nsec()));
    });
}
