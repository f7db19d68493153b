//! Names and directories: as on ext4, call by call.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, linkat, mkdirat, openat, renameat_with, unlinkat};

use crate::folder_pair::{FolderPair, OTHER, OWNER, ROOT, chmod, heard, rename, shell, stat, told};
use crate::test_store::run;

const KINDS: [&str; 8] = ["file", "other", "hard", "empty", "full", "link", "fifo", "absent"];

/// A folder with a file of each type.
fn stocked(dir: &Path, name: &str) -> std::path::PathBuf {
    let at = dir.join(name);
    shell(
        dir,
        &format!(
            "rm -rf {name}; mkdir {name}; cd {name}; echo 1 > file; echo 2 > other; ln file hard; mkdir empty full full/sub; touch full/x; ln -s file link; mkfifo fifo"
        ),
    );
    at
}

/// The names in a folder, and the type of each.
fn inventory(dir: &Path) -> Vec<(String, Result<String, i32>)> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    let listed = names.into_iter().map(|name| (name.to_string_lossy().into_owned(), stat(&dir.join(&name))));
    [(".".to_owned(), stat(dir))].into_iter().chain(listed).collect()
}

#[test]
fn renames_end_as_on_ext4() {
    let flags = [
        RenameFlags::empty(),
        RenameFlags::NOREPLACE,
        RenameFlags::EXCHANGE,
        RenameFlags::WHITEOUT,
        RenameFlags::NOREPLACE | RenameFlags::EXCHANGE,
        RenameFlags::NOREPLACE | RenameFlags::WHITEOUT,
        RenameFlags::WHITEOUT | RenameFlags::EXCHANGE,
        RenameFlags::from_bits_retain(8),
    ];
    run(move |test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for flags in flags {
            for from in KINDS {
                for to in
                    KINDS.into_iter().chain(["new", "full/x", "full/sub", "full/sub/y", "empty/y", "empty/", "new/"])
                {
                    pair.agree((flags, from, to), ROOT, |dir| {
                        let at = stocked(dir, "r");
                        let done = told(renameat_with(CWD, at.join(from), CWD, at.join(to), flags));
                        (done, inventory(&at), heard(std::fs::read_dir(at.join("full"))).map(Iterator::count))
                    });
                }
            }
        }
    });
}

#[test]
fn names_are_made_and_removed_as_on_ext4() {
    let long = |len: usize| "x".repeat(len);
    let names = [
        "new",
        "file",
        "empty",
        "link",
        "empty/",
        "new/",
        "file/",
        "file/x",
        "absent/x",
        ".",
        "..",
        "empty/.",
        "",
        &long(255),
        &long(256),
        &format!("{}/x", long(256)),
        &"d/".repeat(2_100),
        "loop",
        "loop/x",
        "/",
    ]
    .map(str::to_owned);
    run(move |test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        type Call = fn(&Path, &Path) -> Result<(), i32>;
        let calls: [(&str, Call); 10] = [
            ("create", |_, at| {
                told(openat(CWD, at, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, Mode::from(0o644))).map(drop)
            }),
            ("open", |_, at| told(openat(CWD, at, OFlags::RDWR, Mode::empty())).map(drop)),
            ("open a directory", |_, at| told(openat(CWD, at, OFlags::DIRECTORY, Mode::empty())).map(drop)),
            ("mkdir", |_, at| told(mkdirat(CWD, at, Mode::from(0o755)))),
            ("unlink", |_, at| told(unlinkat(CWD, at, AtFlags::empty()))),
            ("rmdir", |_, at| told(unlinkat(CWD, at, AtFlags::REMOVEDIR))),
            ("link to", |dir, at| told(linkat(CWD, dir.join("file"), CWD, at, AtFlags::empty()))),
            ("link from", |dir, at| told(linkat(CWD, at, CWD, dir.join("linked"), AtFlags::empty()))),
            ("symlink", |_, at| heard(std::os::unix::fs::symlink("target", at))),
            ("readlink", |_, at| heard(std::fs::read_link(at)).map(drop)),
        ];
        for (what, call) in calls {
            for name in &names {
                pair.agree((what, name), ROOT, |dir| {
                    let at = stocked(dir, "n");
                    std::os::unix::fs::symlink("loop", at.join("loop")).unwrap();
                    let path = if name == "/" {
                        at.clone()
                    } else {
                        std::path::PathBuf::from(format!("{}/{name}", at.display()))
                    };
                    let path = if name.is_empty() { std::path::PathBuf::new() } else { path };
                    (call(&at, &path), at.exists().then(|| inventory(&at)))
                });
            }
        }
        for target in [0, 1, 4_000, 4_095, 4_096] {
            pair.agree(("a symbolic link", target), ROOT, |dir| {
                let at = dir.join(format!("to{target}"));
                (heard(std::os::unix::fs::symlink(long(target), &at)), heard(std::fs::read_link(&at)))
            });
        }
    });
}

#[test]
fn a_removed_directory_is_empty_and_takes_nothing() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.agree("an open one", ROOT, |dir| {
            let gone = dir.join("gone");
            std::fs::create_dir(&gone).unwrap();
            let open = openat(CWD, &gone, OFlags::DIRECTORY, Mode::empty()).unwrap();
            std::fs::remove_dir(&gone).unwrap();
            let stat = rustix::fs::fstat(&open).unwrap();
            let listed = Dir::read_from(&open).map(|listed| listed.filter_map(Result::ok).count());
            (
                stat.st_nlink,
                told(listed),
                told(openat(&open, "f", OFlags::CREATE | OFlags::WRONLY, Mode::from(0o644))).map(drop),
                told(mkdirat(&open, "d", Mode::from(0o755))),
                told(openat(&open, "..", OFlags::DIRECTORY, Mode::empty())).is_ok(),
                told(rustix::fs::fchmod(&open, Mode::from(0o700))),
                told(linkat(CWD, dir, &open, "l", AtFlags::empty())),
            )
        });
        for way in ["removed", "renamed", "replaced"] {
            pair.agree(("the working directory", way), ROOT, |dir| {
                let (here, there) = (dir.join(format!("here-{way}")), dir.join(format!("there-{way}")));
                std::fs::create_dir(&here).unwrap();
                std::env::set_current_dir(&here).unwrap();
                match way {
                    "removed" => std::fs::remove_dir(&here).unwrap(),
                    "renamed" => rename(&here, &there).unwrap(),
                    _ => {
                        std::fs::create_dir(&there).unwrap();
                        rename(&there, &here).unwrap();
                    }
                }
                let at = heard(std::env::current_dir()).map(|at| at.strip_prefix(dir).unwrap().to_owned());
                let made = heard(std::fs::write("f", b"x"));
                let listed = heard(std::fs::read_dir(".")).map(|listed| listed.filter_map(Result::ok).count());
                (at, made, listed, heard(std::fs::metadata("..")).is_ok())
            });
        }
    });
}

#[test]
fn links_of_directories_and_numbers_of_entries_are_told() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.script(
            ROOT,
            &[
                "mkdir -p a/b/c a/d; touch a/f; stat -c '%n %h' a a/b a/b/c a/d",
                "rmdir a/d; mv a/b/c a/e; stat -c '%n %h' a a/b a/e",
                "mkdir x; mv -T x a/e; stat -c '%n %h' . a a/e; find . -noleaf | sort",
                "cd a/b/..; pwd -P | sed 's,.*/,,'; ls -a",
            ],
        );
        let dir = pair.mounted().join("a");
        let inner = rustix::fs::open(&dir, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for entry in Dir::read_from(&inner).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_str().unwrap();
            assert_eq!(entry.ino(), dir.join(name).symlink_metadata().unwrap().ino(), "{name}");
        }
    });
}

/// A directory stream of the C library.
struct Stream(*mut libc::DIR);

impl Stream {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends in NUL and outlives the call.
        let stream = unsafe { libc::opendir(path.as_ptr()) };
        assert!(!stream.is_null());
        Self(stream)
    }

    /// The next name, and its position in the stream.
    fn next(&mut self) -> Option<(libc::c_long, String)> {
        // SAFETY: the stream is open as long as `self`, and no one else uses it; the entry is read before the next
        // call.
        unsafe {
            let at = libc::telldir(self.0);
            let entry = libc::readdir(self.0);
            if entry.is_null() {
                return None;
            }
            Some((at, CStr::from_ptr((*entry).d_name.as_ptr()).to_string_lossy().into_owned()))
        }
    }

    fn seek(&mut self, to: libc::c_long) {
        // SAFETY: as above; the position is from `telldir` of this stream.
        unsafe { libc::seekdir(self.0, to) };
    }

    fn rewind(&mut self) {
        // SAFETY: as above.
        unsafe { libc::rewinddir(self.0) };
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).map(|(_, name)| name).collect()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open, and is not used again.
        unsafe { libc::closedir(self.0) };
    }
}

#[test]
fn a_directory_stream_stays_stable_while_the_directory_changes() {
    run(|test| {
        let mount = test.mount("m");
        let dir = mount.path().join("d");
        std::fs::create_dir(&dir).unwrap();
        let name = |index: usize| format!("{index:04}");
        for index in 0..2_000 {
            std::fs::write(dir.join(name(index)), b"").unwrap();
        }
        let mut stream = Stream::open(&dir);
        let all: Vec<_> = std::iter::from_fn(|| stream.next()).collect();
        assert_eq!(all.len(), 2_002);
        for index in (0..2_000).step_by(2) {
            std::fs::remove_file(dir.join(name(index))).unwrap();
            std::fs::write(dir.join(format!("new{index}")), b"").unwrap();
        }
        for at in [3, 700, 1_999, 50] {
            stream.seek(all[at].0);
            let rest: BTreeSet<_> = stream.rest().into_iter().filter(|name| !name.starts_with("new")).collect();
            let stays = |name: &&String| name.parse::<usize>().is_ok_and(|index| index % 2 == 1);
            for (_, name) in all[at..].iter().filter(|(_, name)| stays(&name)) {
                assert!(rest.contains(name), "{name} after {at}");
            }
            assert!(all[..at].iter().all(|(_, name)| !rest.contains(name)), "nothing from before {at}");
        }
        stream.rewind();
        assert_eq!(stream.rest().len(), 2_002);
    });
}

#[test]
fn searching_a_directory_takes_the_right_to() {
    run(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for mode in [0o000, 0o111, 0o444, 0o711, 0o755, 0o333] {
            pair.agree("making it", ROOT, |dir| {
                chmod(&dir.join("s"), 0o755).ok();
                shell(dir, "mkdir -p s; touch s/f; chown 1000 s s/f");
                chmod(&dir.join("s"), mode).unwrap();
            });
            for actor in [ROOT, OWNER, OTHER] {
                pair.agree(mode, actor, |dir| {
                    let at = dir.join("s");
                    (
                        heard(std::fs::read_dir(&at)).map(drop),
                        stat(&at.join("f")),
                        heard(std::fs::write(at.join("new"), b""))
                            .and_then(|()| heard(std::fs::remove_file(at.join("new")))),
                        heard(std::env::set_current_dir(&at)),
                    )
                });
            }
        }
    });
}
