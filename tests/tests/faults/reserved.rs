//! fallocate(2) on a disk of 64 MiB: reserved space can be written though others fill the disk, and a refused
//! reservation leaves no trace and no alarm.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fsync};
use rustix::io::Errno;

use super::full::DISK_BYTES;
use crate::support::cli::check_store;
use crate::support::*;

const BUCKET: &str = "mounted";
const MIB: u64 = 1 << 20;

fn open(path: &Path) -> File {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).expect("opened")
}

/// A new file, one with its content in its record, and one with a blob.
fn files(root: &Path) -> [(File, u64); 3] {
    [("new", 0), ("record", 100), ("blob", 100_000)].map(|(name, size)| {
        let file = open(&root.join(name));
        file.write_all_at(&vec![7; size], 0).expect("written");
        (file, size as u64)
    })
}

#[test]
fn a_reservation_larger_than_the_disk_is_refused_without_an_alarm() {
    need!(loop_devices(Kind::Ext4));
    let mut server = Options::default().image(Kind::Ext4, DISK_BYTES).start();
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::new(&server, BUCKET, "m");
    for (file, size) in files(mount.path()) {
        let before = file.metadata().expect("there").blocks();
        for how in [FallocateFlags::empty(), FallocateFlags::KEEP_SIZE, FallocateFlags::ZERO_RANGE] {
            for bytes in [1 << 40, DISK_BYTES] {
                assert_eq!(fallocate(&file, how, 0, bytes), Err(Errno::NOSPC), "{size}, {how:?}");
            }
            let after = file.metadata().expect("there");
            assert_eq!((after.len(), after.blocks()), (size, before), "{how:?}");
        }
        file.write_all_at(&[7; 4096], size).expect("there is room for what is written");
    }
    assert!(!server.log().contains("the disk is full"), "{}", server.log());
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

#[test]
fn reserved_space_can_be_written_on_a_full_disk() {
    need!(loop_devices(Kind::Ext4));
    let mut server = Options::default().image(Kind::Ext4, DISK_BYTES).start();
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::new(&server, BUCKET, "m");
    let reserved = files(mount.path());
    for ((file, _), how) in reserved.iter().zip([FallocateFlags::empty(), FallocateFlags::KEEP_SIZE].iter().cycle()) {
        fallocate(file, *how, 0, 4 * MIB).expect("there is so much");
        fsync(file).expect("synced");
    }
    let filler = open(&mount.path().join("filler"));
    // The kernel may split a write if a page of its buffer is not in memory: even its smallest part must not fit.
    let mut at = 0;
    for step in [64 << 10, 4 << 10, 512] {
        let block = vec![1; step];
        let full = loop {
            match filler.write_all_at(&block, at) {
                Ok(()) => at += step as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
    let past_the_end = vec![9; 64 << 10];
    for (file, size) in &reserved {
        for at in (0..4 * MIB).step_by(256 << 10) {
            file.write_all_at(&[9; 256 << 10], at).unwrap_or_else(|error| panic!("{size} at {at}: {error}"));
        }
        fsync(file).expect("synced");
        let past = file.write_all_at(&past_the_end, 8 * MIB);
        assert_eq!(past.expect_err("nothing was reserved there").kind(), ErrorKind::StorageFull);
        assert_eq!(file.metadata().expect("there").len(), 4 * MIB);
    }
    drop((reserved, filler));
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}
