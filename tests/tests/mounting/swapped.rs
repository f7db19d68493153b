//! A directory that somebody swaps against a link while it is mounted at.

use std::os::unix::fs::{lchown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::support::cli::cli as outcome;

/// What a user may do in a folder of theirs while the administrator mounts there.
fn swap(folder: &Path, victim: &Path, going: &AtomicBool) {
    let (dir, aside) = (folder.join("m"), folder.join("aside"));
    while going.load(Ordering::Relaxed) {
        // Each may fail: a directory that is mounted at cannot be renamed.
        if rustix::fs::rename(&dir, &aside).is_ok() {
            let _ = symlink(victim, &dir);
            let _ = std::fs::remove_file(&dir);
            let _ = rustix::fs::rename(&aside, &dir);
        }
        // So that a mount gets through now and then.
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_directory_that_is_swapped_against_a_link_never_has_another_covered() {
    need!(root_and_fuse());
    let (server, theirs) = served();
    let (dir, victim) = (theirs.join("m"), folder(&server, "victim"));
    std::fs::create_dir(&dir).expect("a folder");
    std::fs::write(victim.join("mine"), "").expect("a file");
    let going = AtomicBool::new(true);
    let mounted = std::thread::scope(|threads| {
        threads.spawn(|| swap(&theirs, &victim, &going));
        let mounted = (0..amount(60, 600)).filter(|_| {
            let made = outcome(&server, &["mount", BUCKET, text(&dir)]).status.success();
            assert!(!is_mounted(&victim) && victim.join("mine").exists(), "another directory is covered");
            let _ = outcome(&server, &["umount", text(&dir)]);
            made
        });
        let mounted = mounted.count();
        going.store(false, Ordering::Relaxed);
        mounted
    });
    assert!(mounted > 0, "it was never mounted at all");
    // In a folder of somebody else a link is not followed at all.
    symlink(&victim, theirs.join("link")).expect("a link");
    lchown(theirs.join("link"), Some(1234), None).expect("theirs");
    std::fs::create_dir(victim.join("m")).expect("a folder");
    let refused = outcome(&server, &["mount", BUCKET, text(&theirs.join("link/m"))]);
    assert!(!refused.status.success() && refused.stderr.contains("1234"), "{refused}");
}
