//! Idmapped mounts (mount_setattr(2), MOUNT_ATTR_IDMAP), as used for pods with user namespaces: as on ext4, call by
//! call.
//!
//! - User 0 of the file system is user 100000 through the mapped mount, and so on for 65536 users and groups.
//! - Where the kernel cannot map the file system (FUSE before Linux 6.12), the tests say so and pass.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FallocateFlags, FileType, Mode, XattrFlags, copy_file_range, fallocate, mknodat, setxattr};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use crate::folder_pair::{Actor, ROOT, acting, chmod, heard, rename, told};
use crate::test_store::{TestStore, pattern, run};

const SHIFT: u32 = 100_000;
const COUNT: u32 = 65_536;

/// Users outside of the mapping, who are users 0, 1000 and 1002 of the file system.
const INNER_ROOT: Actor = Actor { uid: SHIFT, gid: SHIFT, groups: &[] };
const INNER_OWNER: Actor = Actor { uid: SHIFT + 1000, gid: SHIFT + 1000, groups: &[SHIFT + 2000] };
const INNER_OTHER: Actor = Actor { uid: SHIFT + 1002, gid: SHIFT + 1002, groups: &[] };
/// A user that the file system has but the mapping does not.
const UNMAPPED: Actor = Actor { uid: 1000, gid: 1000, groups: &[2000] };

/// A user namespace, which a process in it keeps alive.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut child =
            Command::new("unshare").args(["--user", "sleep", "600"]).stdin(Stdio::null()).spawn().expect("unshare");
        let map = format!("0 {SHIFT} {COUNT}");
        let own = std::fs::read_link("/proc/self/ns/user").unwrap();
        let theirs = format!("/proc/{}/ns/user", child.id());
        for _ in 0..1000 {
            if std::fs::read_link(&theirs).is_ok_and(|namespace| namespace != own) {
                break;
            }
            assert!(child.try_wait().unwrap().is_none(), "unshare(1) failed");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        for file in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{}/{file}", child.id()), &map).unwrap();
        }
        Self(child)
    }

    fn descriptor(&self) -> File {
        File::open(format!("/proc/{}/ns/user", self.0.id())).unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder in an idmapped mount.
struct Mapped(PathBuf);

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn mapped(test: &TestStore, namespace: &Namespace, folder: &Path, name: &str) -> Option<Mapped> {
    let tree = open_tree(CWD, folder, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC).unwrap();
    let user = namespace.descriptor();
    // struct mount_attr: the attributes to set and to clear, the propagation, and the user namespace.
    let attributes: [u64; 4] = [libc::MOUNT_ATTR_IDMAP, 0, 0, user.as_raw_fd() as u64];
    let empty = CString::default();
    // SAFETY: the descriptors, the string, which ends in NUL, and the struct, which has the given size, outlive the
    // call.
    let failed = unsafe {
        let (tree, path) = (tree.as_raw_fd(), empty.as_ptr());
        libc::syscall(libc::SYS_mount_setattr, tree, path, libc::AT_EMPTY_PATH, attributes.as_ptr(), 32usize)
    };
    if failed != 0 {
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        return None;
    }
    let at = test.folder(name);
    attach(&tree, &at);
    Some(Mapped(at))
}

fn attach(tree: &OwnedFd, at: &Path) {
    move_mount(tree.as_fd(), "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).unwrap();
}

/// A folder of ext4 and one of a mount, each plain and idmapped.
struct Sides {
    sides: Vec<(PathBuf, Mapped)>,
    _namespace: Namespace,
}

impl Sides {
    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    fn new(test: &TestStore, mount: &fuse::Mount) -> Option<Self> {
        let namespace = Namespace::new();
        let plain = [test.folder("reference"), mount.path().join("side")];
        let _ = std::fs::create_dir(&plain[1]);
        let mut sides = Vec::new();
        for (folder, name) in plain.into_iter().zip(["mapped-reference", "mapped"]) {
            chmod(&folder, 0o777).unwrap();
            match mapped(test, &namespace, &folder, name) {
                Some(mapped) => sides.push((folder, mapped)),
                None => println!("skipped: this kernel does not map {name}"),
            }
        }
        let is_tested = sides.iter().any(|(_, mapped)| mapped.0.ends_with("mapped"));
        is_tested.then_some(Self { sides, _namespace: namespace })
    }

    /// Runs a step on each of them: the results for the mapped and the plain folder must be equal.
    #[track_caller]
    fn agree<T: std::fmt::Debug + PartialEq + Send>(
        &self,
        what: impl std::fmt::Debug,
        actor: Actor,
        step: impl Fn(&Path, &Path) -> T + Sync,
    ) {
        let _ = self.same(what, actor, step);
    }

    /// Runs a step on each of them, asserts that the results are equal, and returns the result.
    #[track_caller]
    fn same<T: std::fmt::Debug + PartialEq + Send>(
        &self,
        what: impl std::fmt::Debug,
        actor: Actor,
        step: impl Fn(&Path, &Path) -> T + Sync,
    ) -> T {
        let run = |(plain, mapped): &(PathBuf, Mapped)| acting(actor, 0o022, || step(&mapped.0, plain));
        let mut told: Vec<T> = self.sides.iter().map(run).collect();
        let last = told.pop().unwrap();
        if let Some(reference) = told.pop() {
            assert_eq!(last, reference, "{what:?} by {actor:?}: the mount (left) is not as ext4 (right)");
        }
        last
    }
}

/// The type, mode and owner of a file.
fn owner(path: &Path) -> Result<(u32, u32, u32), i32> {
    heard(std::fs::symlink_metadata(path)).map(|found| (found.mode(), found.uid(), found.gid()))
}

fn both(mapped: &Path, plain: &Path, name: &str) -> [Result<(u32, u32, u32), i32>; 2] {
    [owner(&mapped.join(name)), owner(&plain.join(name))]
}

#[test]
fn what_is_made_through_a_mapped_mount_belongs_to_the_mapped_user() {
    run(|test| {
        let mount = test.mount("m");
        let Some(sides) = Sides::new(test, &mount) else { return };
        for actor in [INNER_ROOT, INNER_OWNER, INNER_OTHER, ROOT, UNMAPPED] {
            let told = sides.same("making", actor, |mapped, plain| {
                let name = |kind: &str| format!("{kind}-{}", actor.uid);
                let made = [
                    ("file", heard(std::fs::write(mapped.join(name("file")), b"content"))),
                    ("dir", heard(std::fs::create_dir(mapped.join(name("dir"))))),
                    ("link", heard(symlink("to", mapped.join(name("link"))))),
                    ("pipe", told(mknodat(CWD, mapped.join(name("pipe")), FileType::Fifo, Mode::from(0o644), 0))),
                ];
                made.map(|(kind, made)| (made, both(mapped, plain, &name(kind))))
            });
            if actor.uid == INNER_OWNER.uid {
                let [seen, kept] = &told[0].1;
                assert_eq!(seen.unwrap().1, SHIFT + 1000);
                assert_eq!(kept.unwrap().1, 1000, "the stored value");
            }
            if actor.uid == UNMAPPED.uid {
                assert_eq!(told[0].0, Err(libc::EOVERFLOW), "the mapping has no owner for it");
            }
        }
    });
}

#[test]
fn owners_and_permissions_are_those_of_the_mapping() {
    run(|test| {
        let mount = test.mount("m");
        let Some(sides) = Sides::new(test, &mount) else { return };
        for actor in [INNER_ROOT, INNER_OWNER, INNER_OTHER, ROOT, UNMAPPED] {
            for bits in [0o600, 0o640, 0o644, 0o666] {
                sides.agree("making it", ROOT, |_, plain| {
                    let path = plain.join("f");
                    let _ = std::fs::remove_file(&path);
                    std::fs::write(&path, b"content").unwrap();
                    lchown(&path, Some(1000), Some(2000)).unwrap();
                    chmod(&path, bits).unwrap();
                });
                sides.agree((bits, "use"), actor, |mapped, plain| {
                    let path = mapped.join("f");
                    let tried = [
                        heard(std::fs::read(&path)).map(drop),
                        heard(OpenOptions::new().write(true).open(&path).and_then(|f| f.write_all_at(b"C", 0))),
                        chmod(&path, bits | 0o004),
                        heard(lchown(&path, None, Some(SHIFT + 2000))),
                        heard(lchown(&path, None, Some(SHIFT + 3000))),
                        heard(lchown(&path, Some(SHIFT + 7), Some(SHIFT + 8))),
                        heard(lchown(&path, Some(7), None)),
                        told(setxattr(&path, "user.a", b"a", XattrFlags::empty())),
                        heard(std::fs::File::open(&path).and_then(|f| f.set_modified(std::time::UNIX_EPOCH))),
                    ];
                    (tried, both(mapped, plain, "f"))
                });
            }
        }
    });
}

/// An ACL that lets a user read: u::rw-,u:ID:r--,g::---,m::r--,o::---
fn acl(user: u32) -> Vec<u8> {
    let entry =
        |tag: u16, bits: u16, id: u32| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let entries = [entry(1, 6, none), entry(2, 4, user), entry(4, 0, none), entry(16, 4, none), entry(32, 0, none)];
    [vec![2, 0, 0, 0], entries.concat()].concat()
}

fn read_acl(path: &Path) -> Result<Vec<u8>, i32> {
    let mut value = [0; 256];
    told(rustix::fs::getxattr(path, "system.posix_acl_access", &mut value)).map(|len| value[..len].to_vec())
}

#[test]
fn acls_name_the_users_of_the_mapping() {
    run(|test| {
        let mount = test.mount("m");
        let Some(sides) = Sides::new(test, &mount) else { return };
        sides.agree("the file", INNER_OWNER, |mapped, plain| {
            std::fs::write(mapped.join("f"), b"content").unwrap();
            let set =
                told(setxattr(mapped.join("f"), "system.posix_acl_access", &acl(SHIFT + 1002), XattrFlags::empty()));
            (set, read_acl(&mapped.join("f")), read_acl(&plain.join("f")))
        });
        let plain = &sides.sides.last().unwrap().0;
        assert_eq!(read_acl(&plain.join("f")), Ok(acl(1002)), "the stored value");
        for actor in [INNER_ROOT, INNER_OTHER, UNMAPPED, ROOT] {
            sides.agree("reading", actor, |mapped, plain| {
                [mapped, plain].map(|side| heard(std::fs::read(side.join("f"))).map(drop))
            });
        }
    });
}

#[test]
fn setuid_goes_when_somebody_changes_a_file_through_a_mapped_mount() {
    run(|test| {
        let mount = test.mount("m");
        let Some(sides) = Sides::new(test, &mount) else { return };
        type Change = (&'static str, fn(&Path) -> Result<(), i32>);
        fn writable(path: &Path) -> Result<File, i32> {
            heard(OpenOptions::new().write(true).open(path))
        }
        let changes: [Change; 6] = [
            ("write", |f| heard(writable(f)?.write_all_at(b"x", 0))),
            ("truncate", |f| heard(writable(f)?.set_len(10))),
            ("reserve", |f| told(fallocate(writable(f)?, FallocateFlags::empty(), 0, 9_000))),
            ("copy a range", |f| {
                let from = heard(File::open(f.with_file_name("source")))?;
                told(copy_file_range(from, None, writable(f)?, None, 100)).map(drop)
            }),
            ("chown to nobody", |f| heard(chown(f, None, None))),
            ("rename", |f| rename(f, &f.with_file_name("r")).and(rename(&f.with_file_name("r"), f))),
        ];
        for bits in [0o6777, 0o4755, 0o2755] {
            for (what, change) in &changes {
                for actor in [INNER_OWNER, ROOT] {
                    // The server cannot identify this user, who is outside of the mount's user namespace and changes
                    // nothing.
                    if *what == "chown to nobody" && actor.uid != ROOT.uid {
                        continue;
                    }
                    sides.agree("making it", ROOT, |_, plain| {
                        for name in ["f", "source"] {
                            std::fs::write(plain.join(name), pattern(4_000, 1)).unwrap();
                            lchown(plain.join(name), Some(1000), Some(2000)).unwrap();
                            chmod(&plain.join(name), bits).unwrap();
                        }
                    });
                    sides.agree((bits, what), actor, |mapped, plain| {
                        (change(&mapped.join("f")), both(mapped, plain, "f"))
                    });
                }
            }
        }
    });
}

#[test]
fn a_large_file_is_read_and_mapped_through_a_mapped_mount() {
    run(|test| {
        let mount = test.mount("m");
        let Some(sides) = Sides::new(test, &mount) else { return };
        let content = pattern(3 << 20, 7);
        sides.agree("large", INNER_OWNER, |mapped, plain| {
            std::fs::write(mapped.join("large"), &content).unwrap();
            let read = [mapped, plain].map(|side| std::fs::read(side.join("large")).unwrap() == content);
            assert_eq!(read, [true; 2]);
            let renamed = rename(&mapped.join("large"), &mapped.join("moved"));
            (renamed, both(mapped, plain, "moved"), heard(std::fs::remove_file(mapped.join("moved"))))
        });
    });
}
