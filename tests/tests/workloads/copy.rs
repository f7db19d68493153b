//! `cp -a` of a source tree to a mount and back.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::mounted;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(120);

here_and_elsewhere! {
    fn a_copied_tree_is_the_same_tree() {
        need!(root_and_fuse());
        let (mount, server) = mounted();
        let source = server.home().path().join("source");
        gather(&source);
        let copy = mount.path().join("copy");
        do_in(server.home().path(), "cp", [OsStr::new("-a"), source.as_os_str(), copy.as_os_str()]);
        // diff(1) fails on a difference.
        let trees = [OsStr::new("--no-dereference"), OsStr::new("-r"), source.as_os_str(), copy.as_os_str()];
        do_in(server.home().path(), "diff", trees);
        assert_eq!(inventory(&copy), inventory(&source));
        let back = server.home().path().join("back");
        do_in(server.home().path(), "cp", [OsStr::new("-a"), copy.as_os_str(), back.as_os_str()]);
        assert_eq!(inventory(&back), inventory(&source));
        std::fs::remove_dir_all(&copy).expect("the copy is deleted");
        assert_eq!(std::fs::read_dir(mount.path()).expect("the mount is listed").count(), 0);
    }
}

/// A copy of this repository's sources, and kinds of files that it lacks. A copy, since the sources may be edited now.
fn gather(source: &Path) {
    std::fs::create_dir(source).expect("a folder");
    for part in ["amphora", "cosi", "csi", "fuse", "objstore", "proto", "s3", "tests/src", "tests/tests"] {
        let from = repo().join(part);
        do_in(source, "cp", [OsStr::new("-a"), from.as_os_str(), OsStr::new(".")]);
    }
    let odd = source.join("odd");
    std::fs::create_dir_all(odd.join("empty/folders/only")).expect("folders");
    std::fs::write(odd.join("two names"), "one file").expect("a file");
    std::fs::hard_link(odd.join("two names"), odd.join("zwei Namen é")).expect("a link");
    symlink("../nowhere", odd.join("dangling")).expect("a symbolic link");
    std::fs::write(odd.join("run"), "#!/bin/sh\n").expect("a file");
    std::fs::set_permissions(odd.join("run"), Permissions::from_mode(0o4751)).expect("a mode");
    let sparse = std::fs::File::create(odd.join("sparse")).expect("a file");
    sparse.set_len(50 << 20).expect("a hole");
}

/// The attributes of stat(2) that a copy keeps, for each name. The size of a directory depends on its file system.
fn inventory(dir: &Path) -> Vec<String> {
    let files = ["-not", "-type", "d", "-printf", r"%P %y %m %U %G %n %s %T@ %l\n"];
    let folders = ["-type", "d", "-printf", r"%P %y %m %U %G %T@\n"];
    let mut lines: Vec<String> = [&files[..], &folders[..]]
        .iter()
        .flat_map(|what| {
            do_in(dir, "find", [".", "-mindepth", "1"].iter().chain(*what))
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    lines.sort();
    lines
}

fn do_in(dir: &Path, program: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    run(Command::new(program).args(args).current_dir(dir), LIMIT).expect("it ends").ok()
}
