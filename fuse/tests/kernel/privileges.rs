//! Who may change what, and which privileges a change clears: as on ext4, call by call.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, chown, lchown};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, XattrFlags, copy_file_range, fallocate, mkdirat, mknodat,
    openat, setxattr, unlinkat,
};

use crate::folder_pair::{
    Actor, FolderPair, MEMBER, OTHER, OWNER, ROOT, chmod, heard, mode, moved, rename, stat, told,
};
use crate::test_store::run;

type Action = (&'static str, fn(&Path) -> Result<(), i32>);

fn writable(path: &Path) -> Result<File, i32> {
    heard(OpenOptions::new().write(true).open(path))
}

fn beside(path: &Path, name: &str) -> std::path::PathBuf {
    path.parent().unwrap().join(name)
}

/// Actions that may change a file of 4,000 bytes.
const ACTIONS: [Action; 19] = [
    ("write", |f| heard(writable(f)?.write_all_at(b"x", 0))),
    ("write past the end", |f| heard(writable(f)?.write_all_at(&[1; 9_000], 4_000))),
    ("write nothing", |f| told(rustix::io::write(&writable(f)?, &[])).map(drop)),
    ("append", |f| {
        let file = heard(OpenOptions::new().append(true).open(f))?;
        told(rustix::io::write(&file, b"x")).map(drop)
    }),
    ("write directly", |f| {
        let file = heard(OpenOptions::new().write(true).custom_flags(libc::O_SYNC).open(f))?;
        heard(file.write_all_at(b"x", 1))
    }),
    ("truncate by path", |f| truncate(f, 10)),
    ("truncate to the same size", |f| truncate(f, 4_000)),
    ("truncate to more", |f| heard(writable(f)?.set_len(9_000))),
    ("open with O_TRUNC", |f| heard(OpenOptions::new().write(true).truncate(true).open(f)).map(drop)),
    ("reserve", |f| told(fallocate(&writable(f)?, FallocateFlags::empty(), 0, 9_000))),
    ("punch", |f| told(fallocate(&writable(f)?, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 1_000))),
    ("copy a range into", |f| {
        let from = heard(File::open(beside(f, "source")))?;
        told(copy_file_range(&from, None, &writable(f)?, None, 100)).map(drop)
    }),
    ("chown to oneself", |f| {
        // SAFETY: the call takes nothing.
        heard(chown(f, Some(unsafe { libc::geteuid() }), None))
    }),
    ("chgrp to 2000", |f| heard(chown(f, None, Some(2000)))),
    ("chown to nobody", |f| heard(chown(f, None, None))),
    ("chmod", |f| chmod(f, 0o6775)),
    ("touch", |f| heard(writable(f)?.set_modified(std::time::UNIX_EPOCH))),
    ("rename", |f| rename(f, &beside(f, "renamed")).and(rename(&beside(f, "renamed"), f))),
    ("setxattr", |f| told(setxattr(f, "user.a", b"b", XattrFlags::empty()))),
];

fn truncate(path: &Path, len: u64) -> Result<(), i32> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in NUL and outlives the call.
    let failed = unsafe { libc::truncate(path.as_ptr(), i64::try_from(len).unwrap()) };
    if failed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) }
}

fn fresh(pair: &FolderPair, mode: u32) {
    pair.same("making the file", ROOT, |dir| {
        let file = dir.join("f");
        std::fs::write(&file, [1; 4_000]).unwrap();
        std::fs::write(dir.join("source"), [2; 4_000]).unwrap();
        lchown(&file, Some(OWNER.uid), Some(2000)).unwrap();
        chmod(&file, mode).unwrap();
    });
}

fn change(pair: &FolderPair, from: u32, action: &Action, actor: Actor) {
    let (what, act) = action;
    let told = pair.same((what, format_args!("{from:o}")), actor, |dir| {
        let file = dir.join("f");
        let done = act(&file);
        (done, stat(&file))
    });
    assert!(told.1.is_ok());
}

#[test]
fn setuid_and_setgid_go_when_they_go_on_ext4() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for from in [0o6777, 0o6767, 0o4666, 0o2666, 0o2676, 0o6707] {
            for action in &ACTIONS {
                for actor in [ROOT, OWNER, MEMBER, OTHER] {
                    // If it would succeed, the server cannot distinguish this call from the one that precedes a write.
                    if action.0 == "chown to nobody" && ![ROOT.uid, OWNER.uid].contains(&actor.uid) {
                        continue;
                    }
                    fresh(&pair, from);
                    change(&pair, from, action, actor);
                }
            }
        }
    });
}

/// A user that may neither own nor write a file changes nothing by the call, and no time of a file for which ext4 refuses
/// it: the only difference is that ext4 returns an error.
#[test]
fn chown_to_nobody_moves_the_time_that_it_moves_on_ext4() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for mode in [0o644, 0o666, 0o755, 0o4755, 0o6755, 0o2755, 0o2744, 0o2745, 0o1644] {
            for actor in [ROOT, OWNER, MEMBER, OTHER] {
                fresh(&pair, mode);
                pair.agree(("chown to nobody", format_args!("{mode:o}")), actor, |dir| {
                    let file = dir.join("f");
                    let moved = moved(&[&file], || drop(chown(&file, None, None)));
                    (moved, stat(&file))
                });
            }
        }
        for actor in [ROOT, OWNER, MEMBER, OTHER] {
            pair.agree("chown of a directory to nobody", actor, |dir| {
                let below = dir.join(actor.uid.to_string());
                std::fs::create_dir(&below).unwrap();
                moved(&[&below], || chown(&below, None, None).unwrap())
            });
        }
    });
}

#[test]
fn capabilities_of_programs_go_when_they_go_on_ext4() {
    // vfs_cap_data, version 2: cap_net_raw, effective.
    const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for action in &ACTIONS {
            for actor in [ROOT, OWNER, MEMBER] {
                fresh(&pair, 0o777);
                let (what, act) = action;
                pair.same("giving it a capability", ROOT, |dir| {
                    told(setxattr(dir.join("f"), "security.capability", &CAPABILITY, XattrFlags::empty()))
                })
                .unwrap();
                pair.agree(what, actor, |dir| act(&dir.join("f")));
                pair.agree((what, "leaves"), ROOT, |dir| {
                    let mut value = [0; 32];
                    told(rustix::fs::getxattr(dir.join("f"), "security.capability", &mut value))
                });
            }
        }
    });
}

#[test]
fn setgid_directories_give_their_group() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.same("the directories", ROOT, |dir| {
            for (name, mode) in [("plain", 0o777), ("setgid", 0o2777), ("sticky", 0o3777)] {
                std::fs::create_dir(dir.join(name)).unwrap();
                chown(dir.join(name), None, Some(2000)).unwrap();
                chmod(&dir.join(name), mode).unwrap();
            }
        });
        for (index, umask) in [0, 0o022, 0o077].into_iter().enumerate() {
            for actor in [ROOT, OWNER, MEMBER, OTHER] {
                for (at, mode) in [0o644, 0o2755, 0o6775, 0o2664, 0o1777].into_iter().enumerate() {
                    pair.same_with_umask(umask, actor, |dir| {
                        let parents = ["plain", "setgid", "sticky"].map(|name| dir.join(name));
                        parents.map(|parent| made(&parent, mode, &format!("{index}-{at}-{}", actor.uid)))
                    });
                }
            }
        }
    });
}

/// A file of each type, made with a mode.
fn made(parent: &Path, mode: u32, name: &str) -> Vec<(Result<(), i32>, Result<String, i32>)> {
    let at = |kind: &str| parent.join(format!("{name}-{kind}"));
    let mode = Mode::from(mode);
    let open = OFlags::CREATE | OFlags::WRONLY | OFlags::EXCL;
    let done = [
        ("file", told(openat(CWD, at("file"), open, mode)).map(drop)),
        ("dir", told(mkdirat(CWD, at("dir"), mode))),
        ("node", told(mknodat(CWD, at("node"), FileType::RegularFile, mode, 0))),
        ("fifo", told(mknodat(CWD, at("fifo"), FileType::Fifo, mode, 0))),
        ("char", told(mknodat(CWD, at("char"), FileType::CharacterDevice, mode, rustix::fs::makedev(1, 3)))),
        ("link", heard(std::os::unix::fs::symlink("target", at("link")))),
    ];
    done.into_iter().map(|(kind, done)| (done, stat(&at(kind)))).collect()
}

#[test]
fn modes_and_owners_are_changed_by_who_may() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for actor in [ROOT, OWNER, MEMBER, OTHER] {
            for kind in ["file", "dir", "fifo"] {
                for (owner, group) in [(None, Some(1000)), (None, Some(2000)), (None, Some(3000)), (Some(1001), None)] {
                    pair.same("making it", ROOT, |dir| remake(dir, kind));
                    pair.agree((kind, "chown", owner, group), actor, |dir| {
                        (heard(lchown(dir.join("x"), owner, group)), stat(&dir.join("x")))
                    });
                }
                for mode in [0o600, 0o2775, 0o6711, 0o1777, 0o2644] {
                    for group in [1000, 2000, 3000] {
                        pair.same("making it", ROOT, |dir| {
                            remake(dir, kind);
                            lchown(dir.join("x"), None, Some(group)).unwrap();
                        });
                        pair.agree((kind, "chmod", mode, group), actor, |dir| {
                            (chmod(&dir.join("x"), mode), stat(&dir.join("x")))
                        });
                    }
                }
            }
        }
    });
}

fn remake(dir: &Path, kind: &str) {
    let at = dir.join("x");
    let _ = unlinkat(CWD, &at, AtFlags::empty());
    let _ = unlinkat(CWD, &at, AtFlags::REMOVEDIR);
    match kind {
        "dir" => std::fs::create_dir(&at).unwrap(),
        "fifo" => mknodat(CWD, &at, FileType::Fifo, Mode::from(0o644), 0).unwrap(),
        _ => std::fs::write(&at, b"content").unwrap(),
    }
    lchown(&at, Some(OWNER.uid), Some(2000)).unwrap();
    chmod(&at, 0o6755).unwrap();
}

#[test]
fn a_sticky_directory_keeps_others_off() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for actor in [ROOT, OWNER, MEMBER, OTHER] {
            for (what, act) in [
                ("unlink", (|d| heard(std::fs::remove_file(d.join("f")))) as fn(&Path) -> Result<(), i32>),
                ("rename", |d| rename(&d.join("f"), &d.join("g"))),
                ("rename over", |d| rename(&d.join("mine"), &d.join("f"))),
                ("rmdir", |d| heard(std::fs::remove_dir(d.join("sub")))),
            ] {
                pair.same("the directory", ROOT, |dir| {
                    let sticky = dir.join("sticky");
                    let _ = std::fs::remove_dir_all(&sticky);
                    std::fs::create_dir(&sticky).unwrap();
                    chmod(&sticky, 0o1777).unwrap();
                    std::fs::write(sticky.join("f"), b"").unwrap();
                    std::fs::write(sticky.join("mine"), b"").unwrap();
                    std::fs::create_dir(sticky.join("sub")).unwrap();
                    for name in ["f", "sub"] {
                        chown(sticky.join(name), Some(OWNER.uid), None).unwrap();
                    }
                    chown(sticky.join("mine"), Some(OTHER.uid), None).unwrap();
                });
                pair.agree(what, actor, |dir| act(&dir.join("sticky")));
            }
        }
        assert_eq!(mode(&pair.mounted().join("sticky")), 0o1777);
    });
}
