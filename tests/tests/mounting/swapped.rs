//! A directory that an attacker swaps with a link during the mount.

use std::os::unix::fs::{lchown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;
use crate::support::cli::cli as outcome;

/// Swaps the directory with a symbolic link, as a user may in their own folder while the administrator mounts there. It
/// fails while the directory is a mount point.
fn swap(dir: &Path, link: &Path, going: &AtomicBool) {
    let begin = Instant::now();
    // The swapping ends also after a panic of the mounting thread.
    while going.load(Ordering::Relaxed) && begin.elapsed() < limit(120) {
        let _ = renameat_with(CWD, dir, CWD, link, RenameFlags::EXCHANGE);
    }
}

#[test]
fn a_directory_replaced_by_a_link_redirects_no_mount() {
    need!(root_and_fuse());
    let (server, theirs) = served();
    let (dir, victim) = (theirs.join("m"), folder(&server, "victim"));
    std::fs::create_dir(&dir).expect("a folder");
    std::fs::write(victim.join("mine"), "").expect("a file");
    let link = theirs.join("link");
    symlink(&victim, &link).expect("a link");
    let going = AtomicBool::new(true);
    let mounted = std::thread::scope(|threads| {
        threads.spawn(|| swap(&dir, &link, &going));
        let mounted = (0..amount(60, 600)).filter(|_| {
            let made = outcome(&server, &["mount", BUCKET, text(&dir)]).status.success();
            assert!(!is_mounted(&victim) && victim.join("mine").exists(), "the mount covers another directory");
            let _ = outcome(&server, &["umount", text(&dir)]);
            made
        });
        let mounted = mounted.count();
        going.store(false, Ordering::Relaxed);
        mounted
    });
    assert!(mounted > 0, "it was never mounted at all");
    // A link in another user's folder is not followed.
    let way = theirs.join("way");
    symlink(&victim, &way).expect("a link");
    lchown(&way, Some(1234), None).expect("theirs");
    std::fs::create_dir(victim.join("m")).expect("a folder");
    let refused = outcome(&server, &["mount", BUCKET, text(&way.join("m"))]);
    assert!(!refused.status.success() && refused.stderr.contains("1234"), "{refused}");
}
