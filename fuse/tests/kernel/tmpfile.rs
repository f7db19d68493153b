//! Files without a name (O_TMPFILE): as on ext4, call by call.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

use crate::folder_pair::{Actor, FolderPair, MEMBER, OTHER, OWNER, ROOT, chmod, shell, stat, told};
use crate::test_store::{pattern, run_all};

fn unnamed(dir: &Path, flags: OFlags, mode: u32) -> Result<OwnedFd, i32> {
    told(openat(CWD, dir, OFlags::TMPFILE | flags, Mode::from(mode)))
}

/// Gives the file a name in the way of a user that may not use AT_EMPTY_PATH.
fn give_name(file: &OwnedFd, at: &Path) -> Result<(), i32> {
    told(linkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), CWD, at, AtFlags::SYMLINK_FOLLOW))
}

fn stat_fd(file: &OwnedFd) -> String {
    let meta = File::from(file.try_clone().unwrap()).metadata().unwrap();
    format!("{:o} {} {}:{} {}", meta.mode(), meta.nlink(), meta.uid(), meta.gid(), meta.len())
}

#[test]
fn every_call_ends_as_on_ext4() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.agree("making them", ROOT, |dir| {
            shell(
                dir,
                "mkdir plain setgid acl closed gone; chgrp 2000 setgid acl; chmod 777 plain acl; chmod 2777 setgid;
                 chmod 755 closed; setfacl -d -m u:1002:rw,g::r,o::- acl; touch file",
            )
        });
        let flags =
            [OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR | OFlags::EXCL, OFlags::RDWR | OFlags::APPEND, OFlags::RDONLY];
        for actor in [ROOT, OWNER, MEMBER, OTHER] {
            for (index, flags) in flags.into_iter().enumerate() {
                for parent in ["plain", "setgid", "acl", "closed", "file", "absent"] {
                    for mode in [0o666, 0o6777] {
                        pair.agree((parent, flags, mode), actor, |dir| {
                            whole_life(dir, parent, flags, mode, actor, index)
                        });
                    }
                }
            }
        }
    });
}

/// Creates a file without a name, uses it and gives it names.
fn whole_life(dir: &Path, parent: &str, flags: OFlags, mode: u32, actor: Actor, index: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let file = match unnamed(&dir.join(parent), flags, mode) {
        Ok(file) => file,
        Err(errno) => return vec![format!("refused {errno}")],
    };
    seen.push(stat_fd(&file));
    seen.push(format!("{:?}", told(rustix::io::write(&file, b"content"))));
    let name = dir.join(parent).join(format!("named-{}-{index}-{mode}", actor.uid));
    seen.push(format!("{:?} {:?}", give_name(&file, &dir.join("file")), give_name(&file, &name)));
    seen.push(format!("{:?} {}", stat(&name), stat_fd(&file)));
    let again = name.with_extension("again");
    seen.push(format!("{:?} {:?}", give_name(&file, &again), stat(&name)));
    let _ = std::fs::remove_file(&again);
    seen.push(format!("{:?} {}", std::fs::remove_file(&name).is_ok(), stat_fd(&file)));
    seen.push(format!("{:?}", give_name(&file, &name)));
    seen
}

#[test]
fn a_file_is_written_whole_and_then_named() {
    run_all(|test| {
        let mount = test.mount("m");
        let content = pattern(3_000_000, 5);
        let mut file = File::from(unnamed(mount.path(), OFlags::RDWR, 0o644).unwrap());
        file.write_all(&content).unwrap();
        assert_eq!((test.get("f"), std::fs::read_dir(mount.path()).unwrap().count()), (None, 0));
        let file = OwnedFd::from(file);
        give_name(&file, &mount.path().join("f")).unwrap();
        assert_eq!(test.get("f").as_deref(), Some(&content[..]));
        File::from(file).write_all_at(b"later", 10).unwrap();
        assert_eq!(&test.get("f").unwrap()[10..15], b"later");
    });
}

#[test]
fn what_is_never_named_leaves_nothing() {
    run_all(|test| {
        let mount = test.mount("m");
        for seed in 0..20 {
            let mut file = File::from(unnamed(mount.path(), OFlags::RDWR | OFlags::EXCL, 0o600).unwrap());
            file.write_all(&pattern(50_000, seed)).unwrap();
        }
        // The effect of a close is delayed.
        let used = || test.store().usage(test.bucket()).unwrap();
        for _ in 0..1_000 {
            if used().inodes == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!((used().inodes, used().bytes), (0, 0));
        chmod(mount.path(), 0o755).unwrap();
    });
}
