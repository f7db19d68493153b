//! The chattr(1) flags: who may set them, and what they forbid, as on ext4, call by call.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, lchown, symlink};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, IFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags,
    copy_file_range, fallocate, ioctl_getflags, ioctl_setflags, linkat, mkdirat, mknodat, openat, removexattr,
    renameat_with, setxattr, unlinkat, utimensat,
};

use crate::folder_pair::{Actor, FolderPair, MEMBER, OTHER, OWNER, ROOT, chmod, heard, mode, rename, shell, told};
use crate::test_store::{TestStore, pattern, run_all};

const KEPT: [IFlags; 3] = [IFlags::IMMUTABLE, IFlags::APPEND, IFlags::NODUMP];

type Action = (&'static str, fn(&Path) -> Result<(), i32>);

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, i32> {
    told(openat(CWD, path, flags, Mode::from(0o644)))
}

fn set(path: &Path, flags: IFlags) -> Result<(), i32> {
    let file = open(path, OFlags::RDONLY)?;
    let others = told(ioctl_getflags(&file))?.difference(KEPT[0] | KEPT[1] | KEPT[2]);
    told(ioctl_setflags(&file, others | flags))
}

fn get(path: &Path) -> Result<IFlags, i32> {
    Ok(told(ioctl_getflags(open(path, OFlags::RDONLY)?))? & (KEPT[0] | KEPT[1] | KEPT[2]))
}

fn at(seconds: i64) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: 0 }
}

fn touch(path: &Path, to: Timespec) -> Result<(), i32> {
    let times = Timestamps { last_access: to, last_modification: to };
    told(utimensat(CWD, path, &times, AtFlags::empty()))
}

fn allocate(path: &Path, how: FallocateFlags) -> Result<(), i32> {
    told(fallocate(open(path, OFlags::WRONLY | OFlags::APPEND)?, how, 0, 9_000))
}

/// The actions on `f` and in `d`, which both have the flag; `d` contains the file `x` and the folder `sub`.
const ACTIONS: [Action; 34] = [
    ("open for reading", |d| open(&d.join("f"), OFlags::RDONLY).map(drop)),
    ("write", |d| heard(OpenOptions::new().write(true).open(d.join("f")).and_then(|f| f.write_all_at(b"x", 0)))),
    ("append", |d| told(rustix::io::write(open(&d.join("f"), OFlags::WRONLY | OFlags::APPEND)?, b"more")).map(drop)),
    ("truncate", |d| heard(OpenOptions::new().write(true).open(d.join("f")).and_then(|f| f.set_len(1)))),
    ("open with O_TRUNC", |d| open(&d.join("f"), OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC).map(drop)),
    ("chmod", |d| chmod(&d.join("f"), 0o640)),
    ("chown", |d| heard(lchown(d.join("f"), None, Some(2000)))),
    ("touch", |d| touch(&d.join("f"), Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW })),
    ("set a time", |d| touch(&d.join("f"), at(1_000))),
    ("setxattr", |d| told(setxattr(d.join("f"), "user.b", b"b", XattrFlags::empty()))),
    ("removexattr", |d| told(removexattr(d.join("f"), "user.a"))),
    ("an ACL", |d| match shell(d, "setfacl -m u:1002:r f").starts_with("Some(0)") {
        true => Ok(()),
        false => Err(1),
    }),
    ("unlink", |d| told(unlinkat(CWD, d.join("f"), AtFlags::empty()))),
    ("rename", |d| rename(&d.join("f"), &d.join("g"))),
    ("rename over", |d| rename(&d.join("other"), &d.join("f"))),
    ("rename over another", |d| rename(&d.join("f"), &d.join("other"))),
    ("exchange", |d| told(renameat_with(CWD, d.join("f"), CWD, d.join("other"), RenameFlags::EXCHANGE))),
    ("link", |d| told(linkat(CWD, d.join("f"), CWD, d.join("g"), AtFlags::empty()))),
    ("reserve", |d| allocate(&d.join("f"), FallocateFlags::empty())),
    ("reserve and keep the size", |d| allocate(&d.join("f"), FallocateFlags::KEEP_SIZE)),
    ("punch", |d| allocate(&d.join("f"), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)),
    ("zero", |d| allocate(&d.join("f"), FallocateFlags::ZERO_RANGE)),
    ("copy a range into", |d| {
        let (from, to) = (open(&d.join("other"), OFlags::RDONLY)?, open(&d.join("f"), OFlags::WRONLY)?);
        told(copy_file_range(from, None, to, None, 3)).map(drop)
    }),
    ("make a file in it", |d| open(&d.join("d/new"), OFlags::CREATE | OFlags::WRONLY).map(drop)),
    ("make a folder in it", |d| told(mkdirat(CWD, d.join("d/new"), Mode::from(0o755)))),
    ("make a pipe in it", |d| told(mknodat(CWD, d.join("d/new"), FileType::Fifo, Mode::from(0o644), 0))),
    ("make a link in it", |d| heard(symlink("x", d.join("d/new")))),
    ("link into it", |d| told(linkat(CWD, d.join("other"), CWD, d.join("d/new"), AtFlags::empty()))),
    ("make a nameless file in it", |d| open(&d.join("d"), OFlags::TMPFILE | OFlags::WRONLY).map(drop)),
    ("unlink in it", |d| told(unlinkat(CWD, d.join("d/x"), AtFlags::empty()))),
    ("remove a folder in it", |d| told(unlinkat(CWD, d.join("d/sub"), AtFlags::REMOVEDIR))),
    ("rename into it", |d| rename(&d.join("other"), &d.join("d/new"))),
    ("rename out of it", |d| rename(&d.join("d/x"), &d.join("new"))),
    ("write a file in it", |d| {
        heard(OpenOptions::new().write(true).open(d.join("d/x")).and_then(|f| f.write_all_at(b"x", 0)))
    }),
];

/// Creates everything again, with the flags on `f` and `d`.
fn fresh(pair: &FolderPair, flags: IFlags) {
    pair.agree("making it", ROOT, |side| {
        let dir = side.join("t");
        for kept in ["f", "d"] {
            let _ = set(&dir.join(kept), IFlags::empty());
        }
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("d/sub")).unwrap();
        for name in ["f", "other", "d/x"] {
            std::fs::write(dir.join(name), b"content").unwrap();
        }
        told(setxattr(dir.join("f"), "user.a", b"a", XattrFlags::empty())).unwrap();
        for name in ["", "f", "other", "d", "d/x", "d/sub"] {
            lchown(dir.join(name), Some(OWNER.uid), Some(OWNER.gid)).unwrap();
        }
        (set(&dir.join("f"), flags), set(&dir.join("d"), flags), get(&dir.join("f")), get(&dir.join("d")))
    });
}

#[test]
fn flags_forbid_what_they_forbid_on_ext4() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        let each = KEPT.into_iter().chain([KEPT[0] | KEPT[1], IFlags::empty()]);
        for flags in each {
            for (what, act) in &ACTIONS {
                for actor in [ROOT, OWNER] {
                    fresh(&pair, flags);
                    pair.agree((flags, what), actor, |side| {
                        let dir = side.join("t");
                        (act(&dir), std::fs::read(dir.join("f")).ok(), std::fs::read(dir.join("other")).ok())
                    });
                }
            }
        }
        fresh(&pair, IFlags::empty());
    });
}

#[test]
fn flags_are_set_by_who_may() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for before in [IFlags::empty(), KEPT[0], KEPT[1]] {
            for flags in KEPT.into_iter().chain([IFlags::empty(), KEPT[0] | KEPT[2]]) {
                for actor in [ROOT, OWNER, MEMBER, OTHER] {
                    fresh(&pair, before);
                    pair.agree((before, flags), actor, |side| {
                        let set_both = ["f", "d"].map(|name| set(&side.join("t").join(name), flags));
                        (set_both, ["f", "d"].map(|name| get(&side.join("t").join(name))))
                    });
                }
            }
        }
        fresh(&pair, KEPT[2]);
        pair.agree("what is made in a directory with nodump has it", OWNER, |side| {
            let dir = side.join("t/d");
            std::fs::create_dir(dir.join("made")).unwrap();
            std::fs::write(dir.join("file"), b"").unwrap();
            [get(&dir.join("made")), get(&dir.join("file")), get(&dir.join("x"))]
        });
        fresh(&pair, IFlags::empty());
    });
}

#[test]
fn an_open_file_is_not_written_once_it_is_immutable() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for size in [0, 100, 10_000, 400_000] {
            pair.agree(size, ROOT, |side| {
                let path = side.join("file");
                let _ = set(&path, IFlags::empty());
                std::fs::write(&path, pattern(size, 1)).unwrap();
                let file = OpenOptions::new().append(true).custom_flags(libc::O_NOATIME).open(&path).unwrap();
                let over = File::options().write(true).open(&path).unwrap();
                heard(over.write_all_at(b"before", 1)).unwrap();
                let flagged = set(&path, IFlags::IMMUTABLE);
                let tried = [
                    told(rustix::io::write(&file, b"x")).map(drop),
                    heard(over.write_all_at(b"x", 0)),
                    heard(over.set_len(3)),
                    told(fallocate(&over, FallocateFlags::empty(), 0, 20_000)),
                    told(rustix::fs::fchmod(&file, Mode::from(0o600))),
                ];
                let content = std::fs::read(&path).unwrap();
                let cleared = set(&path, IFlags::empty());
                (flagged, tried, content, cleared, heard(over.write_all_at(b"after", 0)), mode(&path))
            });
        }
    });
}

#[test]
fn an_open_file_grows_at_its_end_alone_once_it_is_append_only() {
    run_all(|test| {
        let mount = test.mount("m");
        for size in [100, 10_000, 400_000] {
            let path = mount.path().join(format!("file-{size}"));
            std::fs::write(&path, pattern(size, 1)).unwrap();
            let log = OpenOptions::new().append(true).open(&path).unwrap();
            let over = File::options().write(true).open(&path).unwrap();
            set(&path, IFlags::APPEND).unwrap();
            assert_eq!(
                heard(over.write_all_at(b"x", 0)),
                Err(libc::EPERM),
                "stricter than ext4, which asks at open(2)"
            );
            for _ in 0..3 {
                told(rustix::io::write(&log, b"line\n")).unwrap();
                assert_eq!(heard(over.write_all_at(b"x", 0)), Err(libc::EPERM));
            }
            let expected = [pattern(size, 1), b"line\n".repeat(3)].concat();
            assert!(std::fs::read(&path).unwrap() == expected);
            set(&path, IFlags::empty()).unwrap();
        }
    });
}

#[test]
fn what_may_be_stored_through_a_mapping_past_the_server_is_not_called_immutable() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("large");
        std::fs::write(&path, pattern(4 << 20, 1)).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let set_while_open = set(&path, IFlags::IMMUTABLE);
        match set_while_open {
            // The file is mapped by passthrough.
            Err(errno) => assert_eq!(errno, libc::EBUSY),
            Ok(()) => assert_eq!(heard(file.write_all_at(b"x", 0)), Err(libc::EPERM)),
        }
        drop(file);
        let since = std::time::Instant::now();
        while set(&path, IFlags::IMMUTABLE) == Err(libc::EBUSY) {
            assert!(since.elapsed().as_secs() < 60, "the file is closed in time");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(get(&path), Ok(IFlags::IMMUTABLE));
        assert!(File::options().write(true).open(&path).is_err());
        set(&path, IFlags::empty()).unwrap();
    });
}

#[test]
fn s3_snapshots_and_restarts_keep_flags() {
    run_all(|test: &TestStore| {
        let mount = test.mount("m");
        for (name, flags) in [("immutable", KEPT[0]), ("append", KEPT[1]), ("nodump", KEPT[2])] {
            test.put(name, b"content");
            set(&mount.path().join(name), flags).unwrap();
        }
        assert_eq!(test.get("immutable").unwrap(), b"content");
        mount.unmount().unwrap();
        let mount = test.mount("again");
        for (name, flags) in [("immutable", KEPT[0]), ("append", KEPT[1]), ("nodump", KEPT[2])] {
            assert_eq!(get(&mount.path().join(name)), Ok(flags), "{name}");
        }
        test.put("nodump", b"replaced");
        assert_eq!(get(&mount.path().join("nodump")), Ok(KEPT[2]), "the name keeps it");
        for name in ["immutable", "append"] {
            set(&mount.path().join(name), IFlags::empty()).unwrap();
        }
    });
}

/// As a user that owns the file but has no capability.
#[test]
fn the_programs_of_e2fsprogs_work() {
    run_all(|test| {
        let mount = test.mount("m");
        std::fs::write(mount.path().join("f"), b"x").unwrap();
        let said = shell(mount.path(), "command -v chattr lsattr >/dev/null && chattr +ia f && lsattr f; chattr -ia f");
        if said.contains("not found") || !said.contains("f\n") {
            return;
        }
        assert!(said.contains("----ia"), "{said}");
        let _: Actor = OTHER;
    });
}
