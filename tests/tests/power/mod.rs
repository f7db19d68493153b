//! Power cuts under the whole server: its file system is cut off at a random moment of S3 and mount load, and mounted
//! again.
//!
//! - The effects of every acknowledged request and every returned fsync are there afterwards; those in progress are old
//!   or new. An acknowledged snapshot or clone has the content of its moment.
//! - 20 cuts each of ext4 and XFS within `cargo verify`, 250 each with `cargo verify --full power`.

mod created;
mod databases;
mod disks;
mod logs;
mod names;
mod pages;
mod snapshots;

use std::io::Result;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::access::root_client;
use crate::support::cli::check_store;
use crate::support::load::{ExpectedEnd, Load};
use crate::support::*;

const BUCKET: &str = "mounted";
/// The size of the disk; XFS needs at least 300 MiB.
const DISK_BYTES: u64 = 512 << 20;

/// A program on a mount. It works in its folder until a call fails, and compares after the power cut.
trait Program: Send {
    /// The name of its folder.
    fn name(&self) -> &'static str;
    /// Prepares the folder; what it creates is on disk then.
    fn begin(&mut self, dir: &Path) -> Result<()>;
    /// Makes one change after another, until the first error.
    fn work(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()>;
    /// Compares the folder with what was promised, and continues from there.
    fn compare(&mut self, dir: &Path, cycle: usize);
}

/// The syncs that returned before the power cut.
struct Promises {
    count: u64,
    cut: &'static AtomicBool,
}

impl Promises {
    /// Counts a sync that has returned; an error if the power was cut meanwhile, since then no program can have seen it
    /// return.
    fn count(&mut self) -> Result<()> {
        if self.cut.load(Ordering::SeqCst) {
            return Err(rustix::io::Errno::IO.into());
        }
        self.count += 1;
        Ok(())
    }
}

type Running = JoinHandle<(Box<dyn Program>, u64)>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synced_data_survives_power_cuts_on_ext4() {
    survive(Kind::Ext4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synced_data_survives_power_cuts_on_xfs() {
    survive(Kind::Xfs).await;
}

async fn survive(kind: Kind) {
    need!(loop_devices(kind));
    let cycles = amount(20, 250);
    let mut rng = Rng::new("power::");
    let mut server = Options::default().holder().image(kind, DISK_BYTES).start();
    let mut load = Load::new(&server, 4, 2);
    make_bucket(&server, BUCKET, &[]);
    let mut mount = Mounted::held(&server, BUCKET, "m");
    let mut programs = programs(mount.path(), &server);
    let (mut promised, cut) = (0, &*Box::leak(Box::new(AtomicBool::new(false))));
    for cycle in 0..cycles {
        cut.store(false, Ordering::SeqCst);
        let round = load.begin(&root_client(&server), &mut rng, ExpectedEnd::PowerCut(cut));
        let running: Vec<_> = programs.drain(..).map(|program| start(program, mount.path(), &mut rng, cut)).collect();
        tokio::time::sleep(Duration::from_millis(100 + rng.below(400) as u64)).await;
        cut.store(true, Ordering::SeqCst);
        server.image().cut().expect("the file system ends");
        tokio::time::sleep(Duration::from_millis(rng.below(60) as u64)).await;
        power_off(&mut server, &mount);
        load.end(round).await;
        for program in running {
            let (program, kept) = program.join().expect("a program ends because a call failed");
            programs.push(program);
            promised += kept;
        }
        power_on(&mut server, cycle);
        mount = Mounted::held(&server, BUCKET, "m");
        load.compare(&root_client(&server), cycle).await;
        programs.iter_mut().for_each(|program| program.compare(&mount.path().join(program.name()), cycle));
        progress(&format!("power cuts on {kind:?}"), cycle + 1, cycles);
    }
    assert!(load.counts.done > cycles && promised > cycles as u64, "{:?}, {promised}", load.counts);
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
    print_summary(kind, cycles, load.counts.done, promised);
}

fn programs(root: &Path, server: &Server) -> Vec<Box<dyn Program>> {
    let mut programs: Vec<Box<dyn Program>> = vec![
        Box::<logs::Log>::default(),
        Box::new(pages::Pages::new()),
        Box::<names::Names>::default(),
        Box::<created::CreatedFiles>::default(),
        Box::<databases::Database>::default(),
        Box::new(snapshots::Snapshots::new(server)),
    ];
    for program in &mut programs {
        let dir = root.join(program.name());
        std::fs::create_dir(&dir).and_then(|()| program.begin(&dir)).expect("a folder for a program");
    }
    programs
}

fn start(mut program: Box<dyn Program>, root: &Path, rng: &mut Rng, cut: &'static AtomicBool) -> Running {
    let (dir, number) = (root.join(program.name()), rng.roll());
    let mut rng = rng.fork(number);
    std::thread::spawn(move || {
        let mut promises = Promises { count: 0, cut };
        let error = program.work(&dir, &mut rng, &mut promises).expect_err("it ends with the disk");
        // The error comes from the mount, not from the program's own checks.
        assert!(error.raw_os_error().is_some(), "{}: {error}", program.name());
        (program, promises.count)
    })
}

/// Ends the server, the holder and the mount, as a power cut does.
fn power_off(server: &mut Server, mount: &Mounted) {
    server.kill9();
    server.end_holder();
    mount.break_off();
}

/// Mounts what the disk kept, and starts the server on it.
fn power_on(server: &mut Server, cycle: usize) {
    mount_again(server, cycle);
    server.restart();
}

/// Mounts what the disk kept.
fn mount_again(server: &Server, cycle: usize) {
    server.image().unmount().expect("no process has it open");
    server.image().mount().expect("the journal is replayed");
    if cycle.is_multiple_of(5) {
        check_store(server);
    }
}

#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn print_summary(kind: Kind, cycles: usize, done: usize, promised: u64) {
    println!(
        "{kind:?}: {cycles} power cuts, {done} S3 requests acknowledged, {promised} promises to programs, all kept"
    );
}

/// fsync(2) of a file or folder by its path.
fn sync_path(path: &Path) -> Result<()> {
    Ok(rustix::fs::fsync(std::fs::File::open(path)?)?)
}
