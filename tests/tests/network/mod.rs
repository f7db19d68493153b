//! Mounts of a store on another machine under faults: a proxy that cuts, delays and falls silent; the node's process, the
//! holder and the server killed or stopped.
//!
//! - Programs append with fsync, create names that must not exist, rename a counter, count under file locks on both mounts,
//!   and read what an S3 client has put. Each knows the result that each call must have. No fault here lasts as long as a lease, so no call may fail.
//! - Two mounts of one bucket, each over a proxy of its own.
//! - 10 faults within `cargo verify`, 300 with `cargo verify --full network`, which prints the pauses.

mod ahead;
mod faults;
mod held;
mod programs;
mod proxy;
mod sqlite;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::access::root_client;
use crate::support::cli::check_store;
use crate::support::*;
use faults::Fault;
use programs::{Longest, Programs};
use proxy::Proxy;

const BUCKET: &str = "work";

/// A mount of the bucket through a proxy.
struct Remote {
    dir: PathBuf,
    proxy: Proxy,
}

impl Remote {
    fn new(server: &Server, name: &str) -> Self {
        let dir = server.home().path().join(name);
        std::fs::create_dir(&dir).expect("a mount point");
        let proxy = Proxy::to(volume_address(server));
        let mut mount = server.cli(["mount", BUCKET]);
        mount.arg(&dir).arg("--server").arg(proxy.address.to_string());
        mount.arg("--credentials").arg(server.ready().word("credentials"));
        drop(run(&mut mount, limit(60)).unwrap_or_else(|error| panic!("{error}")).ok());
        Self { dir, proxy }
    }

    /// The processes of the mount's node that have this word among their arguments; all are named by the mount's folder.
    fn processes(&self, word: &str) -> Vec<u32> {
        let folder = node_folder(&self.dir);
        let all = std::fs::read_dir("/proc").expect("the processes").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_it = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            words.iter().any(|it| it == word) && words.iter().any(|it| it.contains(&folder))
        };
        pids.filter(is_it).collect()
    }

    fn unmount(&self, server: &Server) {
        let mut umount = server.cli(["umount"]);
        drop(run(umount.arg(&self.dir), limit(60)).unwrap_or_else(|error| panic!("{error}")).ok());
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.proxy.silence(false, false);
            let _ = Command::new("umount").arg("-fl").arg(&self.dir).status();
        }
    }
}

/// Where the server listens for nodes.
fn volume_address(server: &Server) -> SocketAddr {
    server.ready().word("volume").parse().expect("an address")
}

/// The folder of the node that serves a mount: see `amphora/src/node/own.rs`.
fn node_folder(dir: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;

    let namespace = std::fs::metadata("/proc/self/ns/mnt").expect("the mount namespace").ino();
    let dir = std::fs::canonicalize(dir.parent().expect("a folder"))
        .expect("the folder")
        .join(dir.file_name().expect("a name"));
    let bytes = namespace.to_le_bytes().into_iter().chain(dir.as_os_str().as_bytes().iter().copied());
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    format!("amphora-mounts/{:016x}", bytes.fold(0xCBF2_9CE4_8422_2325, step))
}

#[test]
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn no_program_notices_faults_of_the_network_and_of_processes() {
    need!(root_and_fuse());
    let mut rng = Rng::new("network::no_program_notices_faults_of_the_network_and_of_processes");
    let mut server = Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    make_bucket(&server, BUCKET, &[]);
    let mounts = [Remote::new(&server, "a"), Remote::new(&server, "b")];
    let (going, longest) = (AtomicBool::new(true), Longest::default());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let programs = Programs { going: &going, longest: &longest };
    let (dirs, count) = (mounts.each_ref().map(|mount| mount.dir.as_path()), amount(10, 300));
    let s3 = root_client(&server);
    let done = std::thread::scope(|threads| {
        let running = [
            threads.spawn(|| programs.append(&dirs[0].join("log"))),
            threads.spawn(|| programs.create(&dirs)),
            threads.spawn(|| programs.rename(&dirs[1].join("counter"))),
            threads.spawn(|| programs.put_and_read(&runtime, &s3, BUCKET, dirs[1])),
            threads.spawn(|| programs.count(&dirs, "counted-in-ranges", programs::of_ranges)),
            threads.spawn(|| programs.count(&dirs, "counted-whole", programs::of_whole_files)),
        ];
        for number in 0..count {
            let fault = Fault::any(&mut rng);
            let began = std::time::Instant::now();
            fault.happens(&mut server, &mounts[rng.below(2)], &mounts, &mut rng);
            std::thread::sleep(std::time::Duration::from_millis(300));
            println!("{number}: {fault:?}, {:?}, longest call {:?}", began.elapsed(), longest.take());
            if running.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        going.store(false, Ordering::SeqCst);
        running.map(|program| program.join().expect("the program saw what it had to"))
    });
    println!("appends, creates, renames, puts, counts under locks: {done:?}");
    assert!(done.iter().all(|done| *done > 3), "{done:?}");
    programs::check(&dirs, done);
    mounts.iter().for_each(|mount| mount.unmount(&server));
    drop(mounts);
    server.terminate();
    check_store(&server);
}
