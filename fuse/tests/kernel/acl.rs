//! POSIX ACLs: as on ext4, call by call, and in cases that ext4 does not have (two mounts, S3, shown owners).

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use fuse::Options;
use objstore::volume::VolumeOptions;
use rustix::fs::{CWD, FileType, XattrFlags, getxattr, mknodat, removexattr, setxattr};

use crate::folder_pair::{Actor, FolderPair, MEMBER, OTHER, OWNER, ROOT, acting, chmod, heard, shell, stat, told};
use crate::test_store::run_all;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// An ACL in the kernel's layout, from tags, permissions and ids.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = vec![2, 0, 0, 0];
    for (tag, allowed, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(allowed.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

const NONE: u32 = u32::MAX;

/// `u::rwx,u:USER:USER_MAY,g::GROUP_MAY,g:3000:r,m::MASK,o::OTHER_MAY`
fn named(user: (u32, u16), group: u16, mask: u16, other: u16) -> Vec<u8> {
    acl(&[(1, 7, NONE), (2, user.1, user.0), (4, group, NONE), (8, 4, 3000), (16, mask, NONE), (32, other, NONE)])
}

#[test]
fn setfacl_and_getfacl_say_the_same() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.script(
            ROOT,
            &[
                "mkdir d; touch f d/g; chmod 640 f; getfacl -n f d; ls -ld f d | cut -c1-11",
                "setfacl -m u:1001:rwx,g:2000:r f; getfacl -n f; ls -l f | cut -c1-11; stat -c %a f",
                "setfacl -m m::r f; getfacl -n f; stat -c %a f",
                "chmod 751 f; getfacl -n f; stat -c %a f",
                "chmod g=w,o=rx f; getfacl -n f; stat -c %a f",
                "setfacl -m u::r,g::rwx,o::- f; getfacl -n f; stat -c %a f",
                "setfacl -x u:1001 f; getfacl -n f; stat -c %a f",
                "setfacl -x g:2000 f; getfacl -n f; stat -c %a f",
                "setfacl -x m f; getfacl -n f; stat -c %a f; ls -l f | cut -c1-11",
                "setfacl -m u:1:r f; setfacl -b f; getfacl -n f; stat -c %a f",
                "setfacl -d -m u:5:r f; setfacl -x u:77 f; getfacl -n f",
                "setfacl -d -m u:1001:rwx,g:2000:rx,o::- d; getfacl -n d; stat -c %a d",
                "umask 077; cd d; touch a; mkdir b; mkfifo p; ln -s a l; mknod c c 1 3; for x in a b p c; do getfacl -n $x; done",
                "stat -c '%n %a %F' d/*; touch d/b/deep; getfacl -n d/b/deep d/b",
                "umask 0; install -m 6711 /bin/true d/installed; getfacl -n d/installed; stat -c %a d/installed",
                "setfacl -k d; getfacl -n d; touch d/after; getfacl -n d/after",
                "setfacl -m u:9:rw f; cp -p f copy; cp --preserve=mode f mode; cp f plain; getfacl -n copy mode plain",
                "cp -a d tree; for x in tree tree/a tree/b tree/b/deep; do getfacl -n $x; done",
                "mv f moved; ln moved again; getfacl -n moved again; stat -c %h moved",
                "tar --acls -cf t.tar d; mkdir x; tar --acls -xf t.tar -C x; getfacl -n x/d/b x/d/a",
                "setfacl -R -b tree; for x in tree tree/a tree/b; do getfacl -n $x; done",
                "for i in $(seq 1 500); do echo u:$i:r; done > many; setfacl -M many d/a; getfacl -n d/a | md5sum",
                "for i in $(seq 1 600); do echo u:$i:r; done > many; setfacl -M many d/a 2>&1 | cut -d: -f1",
            ],
        );
    });
}

#[test]
fn who_is_no_owner_sets_no_acl_and_setgid_goes_as_on_ext4() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        let values = [acl(&[(1, 6, NONE), (4, 4, NONE), (32, 0, NONE)]), named((1001, 6), 5, 7, 0), acl(&[])];
        for actor in [ROOT, OWNER, MEMBER, OTHER] {
            for group in [1000, 2000, 3000] {
                for (mode, value) in [0o2755, 0o6745, 0o644].into_iter().zip(&values) {
                    for name in [ACCESS, DEFAULT] {
                        pair.agree("making them", ROOT, |dir| {
                            let _ = std::fs::remove_file(dir.join("f"));
                            let _ = std::fs::remove_dir(dir.join("d"));
                            std::fs::write(dir.join("f"), b"").unwrap();
                            std::fs::create_dir(dir.join("d")).unwrap();
                            for path in [dir.join("f"), dir.join("d")] {
                                std::os::unix::fs::chown(&path, Some(OWNER.uid), Some(group)).unwrap();
                                chmod(&path, mode).unwrap();
                            }
                        });
                        pair.agree((name, group, format_args!("{mode:o}")), actor, |dir| {
                            ["f", "d"].map(|path| {
                                let path = dir.join(path);
                                let set = told(setxattr(&path, name, value, XattrFlags::empty()));
                                (set, stat(&path), get(&path, name), told(removexattr(&path, name)), stat(&path))
                            })
                        });
                    }
                }
            }
        }
    });
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, i32> {
    let mut value = vec![0; 4096];
    let len = told(getxattr(path, name, &mut value))?;
    value.truncate(len);
    Ok(value)
}

#[test]
fn what_is_no_acl_is_refused_as_on_ext4() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        let good = named((1001, 6), 5, 7, 0);
        let mut values = vec![
            Vec::new(),
            good[..3].to_vec(),
            good[..11].to_vec(),
            good[..good.len() - 8].to_vec(),
            [&[3], &good[1..]].concat(),
            [&[1], &good[1..]].concat(),
            acl(&[(1, 7, NONE)]),
            acl(&[(1, 7, NONE), (4, 7, NONE)]),
            acl(&[(1, 7, NONE), (4, 7, NONE), (32, 8, NONE)]),
            acl(&[(1, 7, 5), (4, 7, 6), (32, 0, 7)]),
            acl(&[(4, 7, NONE), (1, 7, NONE), (32, 0, NONE)]),
            acl(&[(1, 7, NONE), (2, 7, 9), (4, 7, NONE), (32, 0, NONE)]),
            acl(&[(1, 7, NONE), (2, 7, NONE), (4, 7, NONE), (16, 7, NONE), (32, 0, NONE)]),
            acl(&[(1, 7, NONE), (2, 7, 9), (2, 6, 9), (4, 7, NONE), (16, 7, NONE), (32, 0, NONE)]),
            acl(&[(1, 7, NONE), (2, 7, 9), (2, 6, 3), (4, 7, NONE), (16, 7, NONE), (32, 0, NONE)]),
            acl(&[(1, 7, NONE), (4, 7, NONE), (16, 5, NONE), (32, 0, NONE)]),
            acl(&[(1, 7, NONE), (4, 7, NONE), (16, 5, NONE), (16, 5, NONE), (32, 0, NONE)]),
            acl(&[(1, 7, NONE), (4, 7, NONE), (64, 5, NONE), (32, 0, NONE)]),
            good,
        ];
        values.push([&values[18][..], &[0; 4]].concat());
        for (index, value) in values.iter().enumerate() {
            for name in [ACCESS, DEFAULT] {
                pair.agree((index, name), ROOT, |dir| {
                    ["f", "d", "l", "p"].map(|kind| {
                        let path = dir.join(format!("{kind}{index}"));
                        let _ = match kind {
                            "f" => std::fs::write(&path, b""),
                            "d" => std::fs::create_dir(&path),
                            "l" => std::os::unix::fs::symlink("target", &path),
                            _ => mknodat(CWD, &path, FileType::Fifo, 0o644.into(), 0).map_err(Into::into),
                        };
                        let set = told(rustix::fs::lsetxattr(&path, name, value, XattrFlags::empty()));
                        let mut held = vec![0; 4096];
                        let len = told(rustix::fs::lgetxattr(&path, name, &mut held));
                        held.truncate(len.unwrap_or(0));
                        (set, len, held, stat(&path), told(rustix::fs::lremovexattr(&path, name)))
                    })
                });
            }
        }
    });
}

/// What a user can do with a file and with a directory.
fn can(dir: &Path, name: &str) -> [Result<(), i32>; 6] {
    let (file, folder) = (dir.join(format!("f{name}")), dir.join(format!("d{name}")));
    let mine = folder.join("mine");
    [
        heard(OpenOptions::new().read(true).open(&file)).map(drop),
        heard(OpenOptions::new().write(true).open(&file)).map(drop),
        told(rustix::fs::access(&file, rustix::fs::Access::EXEC_OK)),
        heard(std::fs::read_dir(&folder)).map(drop),
        heard(std::fs::write(&mine, b"")).and_then(|()| heard(std::fs::remove_file(&mine))),
        heard(folder.join("inside").metadata()).map(drop),
    ]
}

#[test]
fn the_kernel_lets_in_whom_it_lets_in_on_ext4() {
    let mut values = Vec::new();
    for (user, group, mask, other) in
        [(7, 0, 7, 0), (0, 7, 7, 7), (7, 7, 4, 0), (6, 5, 3, 1), (0, 0, 0, 7), (4, 2, 7, 0), (7, 4, 7, 2)]
    {
        values.push(named((MEMBER.uid, user), group, mask, other));
        values.push(named((OTHER.uid, user), group, mask, other));
    }
    run_all(move |test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for (index, value) in values.iter().enumerate() {
            pair.agree("making them", ROOT, |dir| {
                let (file, folder) = (dir.join(format!("f{index}")), dir.join(format!("d{index}")));
                std::fs::write(&file, b"content").unwrap();
                std::fs::create_dir(&folder).unwrap();
                std::fs::write(folder.join("inside"), b"").unwrap();
                for path in [&file, &folder] {
                    std::os::unix::fs::chown(path, Some(OWNER.uid), Some(2000)).unwrap();
                    setxattr(path, ACCESS, value, XattrFlags::empty()).unwrap();
                }
            });
            let stranger = Actor { uid: 1003, gid: 3000, groups: &[] };
            for actor in [ROOT, OWNER, MEMBER, OTHER, stranger] {
                pair.agree(index, actor, |dir| can(dir, &index.to_string()));
            }
        }
        // A revoked permission takes effect at once, also for a user that has used it.
        for mode in [0o700, 0o770, 0o707, 0o744] {
            pair.agree("chmod", ROOT, |dir| chmod(&dir.join("f0"), mode));
            for actor in [OWNER, MEMBER, OTHER] {
                pair.agree(mode, actor, |dir| can(dir, "0"));
            }
        }
    });
}

fn in_time(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_acl_that_another_mount_sets_counts_on_this_one() {
    run_all(|test| {
        let (one, other) = (test.mount("one"), test.mount("other"));
        std::fs::write(one.path().join("f"), b"content").unwrap();
        chmod(&one.path().join("f"), 0o600).unwrap();
        let reads = || acting(OTHER, 0, || std::fs::read(one.path().join("f")).is_ok());
        assert!(!reads());
        let value = named((OTHER.uid, 4), 0, 7, 0);
        setxattr(other.path().join("f"), ACCESS, &value, XattrFlags::empty()).unwrap();
        in_time("the new ACL counts", reads);
        assert_eq!(get(&one.path().join("f"), ACCESS), Ok(value));
        removexattr(other.path().join("f"), ACCESS).unwrap();
        in_time("that it is gone counts", || !reads());
        chmod(&other.path().join("f"), 0o604).unwrap();
        in_time("the new mode counts", reads);
    });
}

#[test]
fn what_s3_puts_has_the_acls_of_its_place() {
    run_all(|test| {
        let mount = test.mount("m");
        let dir = mount.path().join("d");
        std::fs::create_dir(&dir).unwrap();
        let say = |line: &str| shell(mount.path(), line);
        say("setfacl -m d:u:1002:rw,d:g::r,d:m::rwx,d:o::- d; setfacl -m u:1002:rx d");
        test.put("d/sub/new", b"content");
        let reads = |path: &str| acting(OTHER, 0, || std::fs::read(mount.path().join(path)).is_ok());
        assert!(reads("d/sub/new"));
        say("setfacl -b d/sub/new; chmod 600 d/sub/new; setfacl -m u:1001:rw d/sub/new; chown 7:8 d/sub/new");
        let before = say("getfacl -n d/sub/new");
        assert!(!reads("d/sub/new"));
        test.put("d/sub/new", b"other content");
        assert_eq!(say("getfacl -n d/sub/new"), before);
        assert!(before.contains("user:1001:rw-") && before.contains("# owner: 7"), "{before}");
    });
}

#[test]
fn acls_agree_with_owners_and_modes_that_a_mount_shows() {
    run_all(|test| {
        let plain = test.mount("plain");
        let file = plain.path().join("f");
        std::fs::write(&file, b"content").unwrap();
        let value = acl(&[(1, 7, NONE), (2, 7, OTHER.uid), (4, 0, NONE), (8, 7, 3000), (16, 7, NONE), (32, 4, NONE)]);
        setxattr(&file, ACCESS, &value, XattrFlags::empty()).unwrap();
        let options = Options { uid: Some(1000), umask: 0o022, ..Options::default() };
        let shown = test.mount_with("shown", VolumeOptions::default(), options);
        let seen = shown.path().join("f");
        let expected = acl(&[(1, 7, NONE), (4, 0, NONE), (8, 7, 3000), (16, 5, NONE), (32, 4, NONE)]);
        assert_eq!(get(&seen, ACCESS), Ok(expected));
        assert!(acting(OTHER, 0, || OpenOptions::new().write(true).open(&seen).is_err()));
        assert_eq!(told(setxattr(&seen, ACCESS, &value, XattrFlags::empty())), Err(libc::EPERM));
        // Setting an ACL there keeps the named entries that were not shown.
        let narrower = acl(&[(1, 6, NONE), (4, 4, NONE), (32, 0, NONE)]);
        setxattr(&seen, ACCESS, &narrower, XattrFlags::empty()).unwrap();
        let kept = acl(&[(1, 6, NONE), (2, 7, OTHER.uid), (4, 4, NONE), (16, 4, NONE), (32, 0, NONE)]);
        in_time("the other mount shows it", || get(&file, ACCESS) == Ok(kept.clone()));
    });
}
