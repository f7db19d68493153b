//! rsync and tar to and from a mount, with links, holes, owners, times, ACLs and extended attributes.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, setxattr};

use super::mounted;
use crate::support::*;

/// The time limit of one program, in seconds.
const LIMIT: u64 = 120;

here_and_elsewhere! {
    fn a_synchronized_tree_has_nothing_left_to_send() {
        need!(root_and_fuse());
        let rsync = need!(required("rsync"));
        let (mount, server) = mounted();
        let source = server.home().path().join("source");
        gather(&source);
        let (copy, back) = (mount.path().join("copy"), server.home().path().join("back"));
        let sync = |from: &Path, to: &Path, more: &[&str]| {
            let (from, to) = (format!("{}/", from.display()), format!("{}/", to.display()));
            let words = [&["-aHAXS", "--numeric-ids", "--delete", "--itemize-changes"], more, &[&from, &to]].concat();
            call(&rsync, server.home().path(), &words)
        };
        assert!(sync(&source, &copy, &[]).lines().count() > 50);
        assert_eq!(sync(&source, &copy, &[]), "", "rsync finds no difference in sizes and times");
        assert_eq!(sync(&source, &copy, &["--checksum"]), "", "rsync finds no difference in content");
        change(&source);
        assert!(sync(&source, &copy, &["--inplace", "--no-whole-file"]).lines().count() > 3);
        assert_eq!(sync(&source, &copy, &["--checksum"]), "");
        sync(&copy, &back, &[]);
        assert_eq!(sync(&source, &back, &["--checksum"]), "", "the tree that came back equals the one that was sent");
    }
}

here_and_elsewhere! {
    fn an_unpacked_archive_equals_what_was_packed() {
        need!(root_and_fuse());
        let tar = need!(required("tar"));
        let (mount, server) = mounted();
        let home = server.home().path();
        gather(&home.join("source"));
        let kept = ["--acls", "--xattrs", "--xattrs-include=user.*", "--numeric-owner", "--sparse"];
        let (first, second) = (mount.path().join("first.tar"), home.join("second.tar"));
        let tar = |dir: &Path, words: &[&str]| call(&tar, dir, &[&kept[..], words].concat());
        tar(home, &["-cf", text(&first), "source"]);
        tar(mount.path(), &["-xpf", text(&first)]);
        // Both fail on a difference.
        tar(mount.path(), &["--compare", "-f", text(&first)]);
        tar(mount.path(), &["-cf", text(&second), "source"]);
        tar(home, &["--compare", "-f", text(&second)]);
        std::fs::remove_dir_all(mount.path().join("source")).expect("the tree is deleted");
    }
}

/// This repository's sources, and kinds of files they lack.
fn gather(source: &Path) {
    std::fs::create_dir(source).expect("a folder");
    for part in ["objstore", "fuse", "tests/tests"] {
        let from = repo().join(part);
        call(OsStr::new("cp"), source, &["-a", text(&from), "."]);
    }
    let odd = source.join("odd");
    std::fs::create_dir_all(odd.join("empty/folders")).expect("folders");
    std::fs::write(odd.join("one"), "linked").expect("a file");
    std::fs::hard_link(odd.join("one"), odd.join("two")).expect("a link");
    symlink("../nowhere", odd.join("dangling")).expect("a symbolic link");
    std::fs::File::create(odd.join("sparse")).and_then(|file| file.set_len(20 << 20)).expect("a hole");
    std::fs::write(odd.join("large"), Rng::new("workloads::archive").bytes(3 << 20)).expect("a file");
    chown(odd.join("large"), Some(1234), Some(4321)).expect("an owner");
    std::fs::set_permissions(odd.join("large"), Permissions::from_mode(0o6750)).expect("a mode");
    // Attributes and ACLs, as far as the file system with the source tree supports them.
    let _ = setxattr(odd.join("one"), "user.colour", b"blue\0and green", XattrFlags::empty());
    let _ = run(Command::new("setfacl").args(["-m", "u:1234:rwx,g:7:r"]).arg(odd.join("one")), limit(LIMIT));
    let _ = run(Command::new("setfacl").args(["-d", "-m", "u:1234:rwx"]).arg(odd.join("empty")), limit(LIMIT));
}

fn change(source: &Path) {
    let odd = source.join("odd");
    let mut content = std::fs::read(odd.join("large")).expect("a file");
    content[1_000_000..1_000_100].fill(7);
    content.extend([9; 5_000]);
    std::fs::write(odd.join("large"), content).expect("changed");
    std::fs::remove_file(odd.join("dangling")).expect("deleted");
    std::fs::write(odd.join("new"), "file").expect("a file");
    std::fs::set_permissions(odd.join("one"), Permissions::from_mode(0o600)).expect("a mode");
}

fn call(program: impl AsRef<OsStr>, dir: &Path, words: &[&str]) -> String {
    run(Command::new(program).args(words).current_dir(dir), limit(LIMIT)).expect("it ends").ok()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}
