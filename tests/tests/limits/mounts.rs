//! Mounts: many programs on one, and more mounts than allowed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests::prelude::*;

use super::many_clients::print_measurement;
use super::process::process_use;
use crate::support::cli::{json, refusal};
use crate::support::{Mounted, make_bucket};

const PROGRAMS: usize = 300;

#[test]
fn many_programs_share_a_mount_within_its_limits() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "shared", &[]);
    let mounted = Mounted::new(&server, "shared", "mnt");
    let (dir, base) = (mounted.path(), process_use(&server));
    let (going, done) = (AtomicBool::new(true), [const { AtomicUsize::new(0) }; PROGRAMS]);
    let begin = Instant::now();
    let threads = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (number, done) in done.iter().enumerate() {
            let going = &going;
            scope.spawn(move || {
                let (path, content) = (dir.join(format!("f{number}")), vec![7; 20_000]);
                while going.load(Ordering::Relaxed) {
                    std::fs::write(&path, &content).expect("written");
                    assert_eq!(std::fs::read(&path).expect("read").len(), content.len());
                    std::fs::remove_file(&path).expect("removed");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let pid = server.pid().expect("running");
        while begin.elapsed() < Duration::from_secs(amount(4, 30)) {
            let count = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").count();
            threads.fetch_max(count, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
        going.store(false, Ordering::Relaxed);
    });
    let mut done: Vec<usize> = done.iter().map(|done| done.load(Ordering::Relaxed)).collect();
    done.sort_unstable();
    let (least, usual, threads) = (done[0], done[PROGRAMS / 2], threads.load(Ordering::Relaxed));
    let grown = process_use(&server).memory.saturating_sub(base.memory);
    print_measurement(&format!(
        "{PROGRAMS} programs: {least} rounds at least, median {usual}; {threads} threads, {grown} bytes more"
    ));
    assert!(least >= 1 && least * 10 >= usual, "{least} rounds at least, median {usual}");
    assert!(threads <= 300, "{threads} threads");
    assert!(grown <= 300 << 20, "{grown} bytes more");
}

#[test]
fn a_mount_beyond_the_limit_is_refused() {
    need!(root_and_fuse());
    let server = Options::default().args(["--max-mounts", "2"]).start();
    make_bucket(&server, "shelf", &[]);
    let dirs = ["a", "b", "c"].map(|name| server.home().path().join(name));
    for dir in &dirs {
        std::fs::create_dir(dir).expect("a folder");
    }
    let path = |at: usize| dirs[at].to_str().expect("a path of ours");
    json(&server, &["mount", "shelf", path(0)]);
    json(&server, &["mount", "shelf", path(1)]);
    let text = refusal(&server, &["mount", "shelf", path(2)], 1);
    assert!(text.contains("--max-mounts"), "{text}");
    json(&server, &["umount", path(0)]);
    json(&server, &["mount", "shelf", path(2)]);
    json(&server, &["umount", path(1)]);
    json(&server, &["umount", path(2)]);
}
