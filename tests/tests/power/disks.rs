//! Power cuts under block volumes: the store's file system is cut off at a random moment, while programs work on an ext4
//! on one device, and write to another device itself.
//!
//! - A device has a volatile cache, as disks do. What it acknowledged before a flush is there after the cut, so the
//!   journal of the ext4 is replayed, its check finds nothing, and each sync that returned to a program is kept.
//! - A page of a device that was in progress, written or discarded, is old or new.
//! - The node restarts as well: mounts and devices are gone, and the records of the node are of an earlier boot.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::mount::{UnmountFlags, unmount};

use super::*;
use crate::csi::Driver;
use crate::csi::block::{devices, open, read_direct, succeed, write_direct};
use crate::csi::inline::find_records;

const FORMATTED: &str = "pvc-ext4";
const RAW: &str = "pvc-raw";
const PAGE: usize = 4096;
const PAGES: usize = 256;

/// For each page of a device the promised byte, and those written since.
struct Device(Vec<(u8, Vec<u8>)>);

impl Device {
    fn change(file: &File, at: usize, byte: u8) -> Result<()> {
        let offset = (at * PAGE) as u64;
        match byte {
            // What is discarded is zeros.
            0 => Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, PAGE as u64)?),
            _ => write_direct(file, offset, &[byte; PAGE]),
        }
    }
}

impl Program for Device {
    fn name(&self) -> &'static str {
        RAW
    }

    fn begin(&mut self, device: &Path) -> Result<()> {
        sync_path(device)
    }

    fn work(&mut self, device: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        let file = open(device);
        loop {
            let at = rng.below(PAGES);
            let byte = if rng.chance(20) { 0 } else { rng.roll().to_le_bytes()[0] };
            self.0[at].1.push(byte);
            Self::change(&file, at, byte)?;
            if rng.chance(20) {
                fdatasync(&file)?;
                promises.count()?;
                for (page, since) in &mut self.0 {
                    *page = since.last().copied().unwrap_or(*page);
                    since.clear();
                }
            }
        }
    }

    fn compare(&mut self, device: &Path, cycle: usize) {
        let seen = read_direct(&open(device), 0, PAGE * PAGES).expect("the device is read");
        for (at, (page, (byte, since))) in seen.chunks(PAGE).zip(&mut self.0).enumerate() {
            let now = page[0];
            assert!(page.iter().all(|byte| *byte == now), "cycle {cycle}: page {at} is a mixture");
            assert!(
                now == *byte || since.contains(&now),
                "cycle {cycle}: page {at} holds {now}, {byte} was promised and {since:?} written since"
            );
            since.clear();
            *byte = now;
        }
        sync_path(device).expect("synced");
    }
}

/// The file system on a device.
struct Ext4 {
    device: PathBuf,
    dir: PathBuf,
    fsck: PathBuf,
}

impl Ext4 {
    fn make(device: PathBuf, dir: PathBuf) -> std::result::Result<Self, String> {
        let (mkfs, fsck) = (required("mkfs.ext4")?, required("fsck.ext4")?);
        std::fs::create_dir(&dir).map_err(|error| error.to_string())?;
        succeed(Command::new(mkfs).args(["-q", "-F", "-m", "0", "-b", &PAGE.to_string()]).arg(&device));
        let made = Self { device, dir, fsck };
        made.mount();
        Ok(made)
    }

    /// Mounts it, which replays its journal, and gives freed blocks back to the store.
    fn mount(&self) {
        succeed(Command::new("mount").args(["-t", "ext4", "-o", "discard"]).arg(&self.device).arg(&self.dir));
    }

    fn unmount(&self) {
        unmount(&self.dir, UnmountFlags::NOFOLLOW).expect("no file is open there");
    }

    /// Replays the journal, and compares all records of the file system.
    fn check(&self) {
        self.mount();
        self.unmount();
        succeed(Command::new(&self.fsck).args(["-f", "-n"]).arg(&self.device));
        self.mount();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn block_volumes_survive_power_cuts_as_disks_do_on_ext4() {
    survive(Kind::Ext4, amount(20, 250)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn block_volumes_survive_power_cuts_as_disks_do_on_xfs() {
    survive(Kind::Xfs, amount(4, 250)).await;
}

async fn survive(kind: Kind, cycles: usize) {
    need!(loop_devices(kind));
    need!(devices());
    let mut rng = Rng::new("power::disks");
    let mut driver = Driver::of(Options::default().holder().image(kind, DISK_BYTES).start()).await;
    driver.create_block(FORMATTED, 256, None).await;
    driver.create_block(RAW, 16, None).await;
    driver.device(RAW, &HashMap::new()).await;
    let device = driver.device(FORMATTED, &HashMap::new()).await;
    let ext4 = need!(Ext4::make(device, driver.path("ext4")));
    let mut programs = programs(&ext4.dir);
    let (mut promised, cut) = (0, &*Box::leak(Box::new(AtomicBool::new(false))));
    for cycle in 0..cycles {
        cut.store(false, Ordering::SeqCst);
        let roots: Vec<_> = programs.iter().map(|program| root_of(&driver, &ext4, &**program)).collect();
        let begun = programs.drain(..).zip(&roots).map(|(program, root)| start(program, root, &mut rng, cut));
        let running: Vec<_> = begun.collect();
        tokio::time::sleep(Duration::from_millis(100 + rng.below(400) as u64)).await;
        cut.store(true, Ordering::SeqCst);
        driver.server.image().cut().expect("the file system ends");
        tokio::time::sleep(Duration::from_millis(rng.below(60) as u64)).await;
        driver.server.kill9();
        driver.server.end_holder();
        for program in running {
            let (program, kept) = program.join().expect("a program ends because a call failed");
            programs.push(program);
            promised += kept;
        }
        power_off(&driver, &ext4);
        power_on(&mut driver.server, cycle);
        driver.reconnect().await;
        driver.device(RAW, &HashMap::new()).await;
        driver.device(FORMATTED, &HashMap::new()).await;
        ext4.check();
        for (program, root) in programs.iter_mut().zip(&roots) {
            program.compare(&root.join(program.name()), cycle);
        }
        progress(&format!("power cuts under block volumes on {kind:?}"), cycle + 1, cycles);
    }
    assert!(promised > cycles as u64, "{promised} promises in {cycles} cycles");
    ext4.unmount();
    for volume in [FORMATTED, RAW] {
        driver.unpublish(volume, volume).await;
        driver.unstage(volume).await;
        driver.delete(volume).await;
    }
    assert!(loops(driver.server.home().path()).is_empty(), "a device is left");
    assert_eq!(driver.server.terminate().code(), Some(0), "{}", driver.server.log());
    check_store(&driver.server);
    print_summary(kind, cycles, promised);
}

fn programs(folder: &Path) -> Vec<Box<dyn Program>> {
    let mut programs: Vec<Box<dyn Program>> = vec![
        Box::<logs::Log>::default(),
        Box::new(pages::Pages::new()),
        Box::<names::Names>::default(),
        Box::<created::CreatedFiles>::default(),
        Box::<databases::Database>::default(),
    ];
    for program in &mut programs {
        let dir = folder.join(program.name());
        std::fs::create_dir(&dir).and_then(|()| program.begin(&dir)).expect("a folder for a program");
    }
    sync_path(folder).expect("synced");
    programs.push(Box::new(Device(vec![(0, Vec::new()); PAGES])));
    programs
}

/// Where a program has its folder, or its device.
fn root_of(driver: &Driver, ext4: &Ext4, program: &dyn Program) -> PathBuf {
    if program.name() == RAW { driver.path("targets") } else { ext4.dir.clone() }
}

/// Removes what a power cut leaves of a node: nothing. The server and the holder are dead.
fn power_off(driver: &Driver, ext4: &Ext4) {
    // The pages that the kernel has of the ext4 go with it: the device fails every write.
    ext4.unmount();
    for volume in [FORMATTED, RAW] {
        let _ = unmount(driver.path("targets").join(volume), UnmountFlags::DETACH);
    }
    let losetup = required("losetup").expect("installed with mount");
    for device in loops(driver.server.home().path()) {
        succeed(Command::new(&losetup).arg("--detach").arg(device));
    }
    for volume in [FORMATTED, RAW] {
        let staging = driver.path("staging").join(volume);
        let _ = unmount(staging, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

/// The loop devices over disks below a folder.
fn loops(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.to_str().expect("a path of ours");
    let is_disk = |file: &str| file.starts_with(folder) && file.contains("/disk.img");
    let blocks = std::fs::read_dir("/sys/block").expect("block devices").flatten();
    let of_disks = blocks.filter(|block| {
        std::fs::read_to_string(block.path().join("loop/backing_file")).is_ok_and(|file| is_disk(&file))
    });
    of_disks.map(|block| Path::new("/dev").join(block.file_name())).collect()
}

/// Mounts what the disk kept, and starts the server on it.
fn power_on(server: &mut Server, cycle: usize) {
    mount_again(server, cycle);
    std::fs::remove_dir_all(find_records(server.home().path())).expect("removed: they are of an earlier boot");
    server.restart();
}

#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn print_summary(kind: Kind, cycles: usize, promised: u64) {
    println!("{kind:?}: {cycles} power cuts under block volumes, {promised} promises to programs, all kept");
}
