//! Files being created: written with direct I/O, and readable as they are written.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::ReadWriteFlags;

use crate::passthrough::Mapping;
use crate::test_store::run;

fn made(path: &Path) -> File {
    OpenOptions::new().write(true).create_new(true).open(path).unwrap()
}

/// The first bytes of a file, as a mapping shows them.
fn mapped(file: &File, len: usize) -> Vec<u8> {
    Mapping::shared(file, len).get(0, len)
}

#[test]
fn a_file_is_read_as_it_is_being_made() {
    run(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("log");
        let mut writer = made(&path);
        let mut reader = File::open(&path).unwrap();
        let mut model = Vec::new();
        for (number, len) in [1usize, 700, 3395, 1, 5000, 70_000, 10].into_iter().enumerate() {
            let part = vec![b'a' + number as u8; len];
            writer.write_all(&part).unwrap();
            model.extend_from_slice(&part);
            writer.write_at(b"start", 0).unwrap();
            model.resize(model.len().max(5), 0);
            model[..5].copy_from_slice(b"start");
            writer.seek(SeekFrom::End(0)).unwrap();
            let mut seen = Vec::new();
            reader.seek(SeekFrom::Start(0)).unwrap();
            reader.read_to_end(&mut seen).unwrap();
            assert!(seen == model, "by a descriptor from before, after {number}");
            assert!(std::fs::read(&path).unwrap() == model, "by one of its own, after {number}");
            assert!(mapped(&reader, model.len()) == model, "through a mapping, after {number}");
            assert!(test.get("log").as_deref() == Some(&model[..]), "through S3, after {number}");
        }
        drop(writer);
        assert!(std::fs::read(&path).unwrap() == model);
        // The descriptor that is still open reads without the page cache, and so do new ones until it is closed.
        std::fs::write(&path, b"another").unwrap();
        assert_eq!((mapped(&reader, 7), std::fs::read(&path).unwrap()), (b"another".to_vec(), b"another".to_vec()));
        drop(reader);
        assert_eq!(std::fs::read(&path).unwrap(), b"another");
    });
}

#[test]
fn what_a_write_is_to_sync_is_synced() {
    run(|test| {
        let mount = test.mount("m");
        let file = made(&mount.path().join("f"));
        let write = |at: u64, flags| rustix::io::pwritev2(&file, &[IoSlice::new(b"kept")], at, flags).unwrap();
        let syncs = |flags| {
            let before = test.syncs();
            (0..20).for_each(|number| assert_eq!(write(4 * number, flags), 4));
            test.syncs() - before
        };
        assert!(syncs(ReadWriteFlags::empty()) < 20);
        assert!(syncs(ReadWriteFlags::DSYNC) >= 20);
        assert!(syncs(ReadWriteFlags::SYNC) >= 20);
    });
}

#[test]
fn making_a_file_takes_no_more_calls_than_it_has_to() {
    run(|test| {
        let mount = test.mount("m");
        let count = |name| mount.stats().operations.iter().find(|operation| operation.name == name).unwrap().count;
        let names = ["lookup", "create", "write", "getxattr"];
        let before = names.map(count);
        let mut file = made(&mount.path().join("f"));
        file.write_all(&[1; 5000]).unwrap();
        file.write_all(&[2; 5000]).unwrap();
        drop(file);
        let after = names.map(count);
        let made: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(made, [1, 1, 2, 0], "of {names:?}");
    });
}
