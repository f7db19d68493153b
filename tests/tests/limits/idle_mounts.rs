//! Idle mounts: after any load their extra threads end and their buffers are freed.

use std::time::Duration;

use tests::prelude::*;

use super::many_clients::print_measurement;
use super::process::process_use;
use crate::support::{Mounted, make_bucket};

const MOUNTS: usize = 12;
/// The memory that a mount without activity may take: stacks and tables of its threads, and no buffer.
const IDLE_MOUNT_BYTES: u64 = 512 << 10;
/// How much else the server may have grown by everything that programs did.
const OTHER_GROWTH_BYTES: u64 = 24 << 20;
/// The threads of a mount without activity: for requests, for changes by others, and for the end of the session.
const THREADS: usize = 3;
const LIMIT: Duration = Duration::from_secs(60);

fn threads(server: &Server) -> usize {
    let pid = server.pid().expect("running");
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let named = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
    tasks.filter(|task| named(task.path()).starts_with("fuse")).count()
}

#[test]
fn idle_mounts_hold_no_buffers_after_any_load() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "shared", &[]);
    let base = process_use(&server).memory;
    let mounts: Vec<_> = (0..MOUNTS).map(|number| Mounted::new(&server, "shared", &format!("m{number}"))).collect();
    for round in 0..2 {
        std::thread::scope(|scope| {
            for (number, mount) in mounts.iter().enumerate() {
                for program in 0..4 {
                    let path = mount.path().join(format!("f-{number}-{program}"));
                    scope.spawn(move || {
                        for _ in 0..4 {
                            std::fs::write(&path, vec![7; 2 << 20]).expect("written");
                            assert_eq!(std::fs::read(&path).expect("read").len(), 2 << 20);
                        }
                        std::fs::remove_file(&path).expect("removed");
                    });
                }
            }
        });
        let busy = process_use(&server).memory;
        let rest = wait_until(LIMIT, || (threads(&server) <= MOUNTS * THREADS + 2).then_some(()));
        assert!(rest.is_some(), "{} threads stay", threads(&server));
        let bound = base + MOUNTS as u64 * IDLE_MOUNT_BYTES + OTHER_GROWTH_BYTES;
        let back = wait_until(LIMIT, || Some(process_use(&server).memory).filter(|memory| *memory <= bound));
        let now = process_use(&server).memory;
        print_measurement(&format!(
            "round {round}: {base} bytes before, {busy} at work, {now} at rest, {bound} allowed"
        ));
        assert!(back.is_some(), "{now} bytes at rest, more than {bound}");
    }
    std::fs::write(mounts[0].path().join("again"), b"x").expect("an idle mount serves the next call");
}
