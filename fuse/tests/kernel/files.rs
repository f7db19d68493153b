//! Content of files.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use rustix::fs::{FallocateFlags, SeekFrom as Sought, fallocate};

use crate::folder_pair::{FolderPair, ROOT};
use crate::test_store::{Rng, errno, pattern, run_all};

#[test]
fn what_is_written_is_read_by_both_handles() {
    run_all(|test| {
        let mount = test.mount("m");
        for (seed, len) in [0, 1, 4095, 4096, 4097, 131_072, 1_048_577, 3_500_000].into_iter().enumerate() {
            let content = pattern(len, seed as u8);
            let path = mount.path().join(format!("f{len}"));
            std::fs::write(&path, &content).unwrap();
            assert!(std::fs::read(&path).unwrap() == content, "through the mount, {len} bytes");
            assert!(test.get(&format!("f{len}")) == Some(content), "through S3, {len} bytes");
        }
        let stats = mount.stats();
        assert!(stats.written_bytes > 4_000_000);
        assert!(stats.operations.iter().any(|operation| operation.name == "create" && operation.count == 8));
    });
}

#[test]
fn writes_in_place_and_truncation_read_back() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let mut model = pattern(300_000, 1);
        std::fs::write(&path, &model).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        for (at, len, seed) in [(0, 10, 2), (4_090, 20, 3), (299_990, 10, 4), (100_000, 70_000, 5)] {
            let piece = pattern(len, seed);
            file.write_all_at(&piece, at as u64).unwrap();
            model[at..at + len].copy_from_slice(&piece);
        }
        for len in [250_000, 400_000, 3, 4_096, 0, 10_000] {
            file.set_len(len).unwrap();
            model.resize(len as usize, 0);
            assert_eq!(file.metadata().unwrap().len(), len);
            assert!(std::fs::read(&path).unwrap() == model, "after truncating to {len}");
        }
        file.write_all_at(b"far", 1_000_000).unwrap();
        model.resize(1_000_000, 0);
        model.extend_from_slice(b"far");
        assert!(std::fs::read(&path).unwrap() == model, "past a hole");
        assert!(test.get("f") == Some(model));
    });
}

#[test]
fn opening_with_truncate_empties_the_file() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, pattern(10_000, 1)).unwrap();
        let file = File::create(&path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert_eq!(test.get("f"), Some(Vec::new()));
        let again = OpenOptions::new().write(true).create_new(true).open(&path);
        assert_eq!(errno(again), libc::EEXIST);
    });
}

#[test]
fn a_running_program_cannot_be_cut_short() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("sleep");
        // In another process: a child that another test starts inherits this process's open files, also those open for
        // writing, until it executes its program.
        let copied = std::process::Command::new("cp").arg("/usr/bin/sleep").arg(&path).status().unwrap();
        assert!(copied.success());
        let size = std::fs::metadata(&path).unwrap().len();
        let mut program = std::process::Command::new(&path).arg("60").spawn().unwrap();
        let opened: Vec<_> = [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC]
            .into_iter()
            .map(|flags| rustix::fs::open(&path, rustix::fs::OFlags::from_bits_retain(flags as u32), 0.into()).err())
            .collect();
        assert_eq!(opened, [Some(rustix::io::Errno::TXTBSY); 3]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
        program.kill().unwrap();
        program.wait().unwrap();
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "syncs files of the mount, as programs do")]
fn appends_of_two_mounts_lose_nothing() {
    run_all(|test| {
        let mounts = [test.mount("a"), test.mount("b")];
        std::fs::write(mounts[0].path().join("log"), b"").unwrap();
        std::thread::scope(|scope| {
            for (who, mount) in mounts.iter().enumerate() {
                scope.spawn(move || {
                    let mut log = OpenOptions::new().append(true).open(mount.path().join("log")).unwrap();
                    for line in 0..300 {
                        log.write_all(format!("{who} {line:05}\n").as_bytes()).unwrap();
                    }
                    log.sync_all().unwrap();
                });
            }
        });
        let log = String::from_utf8(test.get("log").unwrap()).unwrap();
        for who in 0..2 {
            let mine: Vec<_> = log.lines().filter(|line| line.starts_with(&format!("{who} "))).collect();
            let all: Vec<_> = (0..300).map(|line| format!("{who} {line:05}")).collect();
            assert_eq!(mine, all);
        }
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "syncs files of the mount, as programs do")]
fn an_unlinked_file_lives_until_it_is_closed() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, b"before").unwrap();
        let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(test.get("f"), None);
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b" and after").unwrap();
        file.sync_all().unwrap();
        file.rewind().unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "before and after");
    });
}

#[test]
fn ranges_are_reserved_punched_and_sought() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let mut model = pattern(500_000, 1);
        std::fs::write(&path, &model).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, 100_000, 200_000).unwrap();
        model[100_000..300_000].fill(0);
        assert!(std::fs::read(&path).unwrap() == model);
        fallocate(&file, FallocateFlags::empty(), 400_000, 200_000).unwrap();
        model.resize(600_000, 0);
        assert_eq!(file.metadata().unwrap().len(), 600_000);
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 700_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 600_000);
        assert!(std::fs::read(&path).unwrap() == model);
        assert_eq!(rustix::fs::seek(&file, Sought::Data(10)).unwrap(), 10);
        assert!(rustix::fs::seek(&file, Sought::Hole(10)).unwrap() <= 600_000);
        assert_eq!(rustix::fs::seek(&file, Sought::Data(600_000)), Err(rustix::io::Errno::NXIO));
        let copied = std::fs::copy(&path, mount.path().join("g")).unwrap();
        assert_eq!(copied, 600_000);
        assert!(std::fs::read(mount.path().join("g")).unwrap() == model);
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "syncs files of the mount, as programs do")]
fn synchronous_writes_are_synced() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let open = |flags| {
            OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(&path).unwrap()
        };
        let syncs = || mount.stats().operations.iter().find(|operation| operation.name == "fsync").unwrap().count;
        for (count, flags) in [libc::O_SYNC, libc::O_DSYNC, libc::O_DSYNC | libc::O_APPEND].into_iter().enumerate() {
            assert_eq!(syncs(), count as u64);
            open(flags).write_all(b"kept").unwrap();
        }
        let file = open(0);
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        File::open(mount.path()).unwrap().sync_all().unwrap();
        assert_eq!(syncs(), 6);
        assert_eq!(test.get("f").as_deref(), Some(b"keptkept".as_slice()));
    });
}

#[test]
fn a_write_by_another_user_takes_setuid_away() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        for change in ["echo x >> f", "echo x > f", "truncate -s 9 f", "fallocate -l 50000 f"] {
            std::fs::write(&path, b"content").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o6777)).unwrap();
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o6777);
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", change]).current_dir(mount.path()).uid(65_534).gid(65_534);
            assert!(shell.status().unwrap().success(), "{change}");
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o777, "{change}");
        }
    });
}

/// The expected content of a file.
struct Model(Vec<u8>);

impl Model {
    fn write(&mut self, at: usize, data: &[u8]) {
        self.0.resize(self.0.len().max(at + data.len()), 0);
        self.0[at..at + data.len()].copy_from_slice(data);
    }

    fn zero(&mut self, at: usize, len: usize) {
        let end = (at + len).min(self.0.len());
        self.0[at.min(end)..end].fill(0);
    }
}

#[test]
fn random_operations_match_a_model() {
    const SIZE: usize = 400_000;
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        for seed in 1..=4 {
            let mut rng = Rng(seed);
            let mut model = Model(Vec::new());
            let mut file = open();
            file.set_len(0).unwrap();
            for step in 0..400_u32 {
                let (at, len) = (rng.below(SIZE), 1 + rng.below(50_000));
                match rng.below(8) {
                    0..=2 => {
                        let data = pattern(len, step as u8);
                        file.write_all_at(&data, at as u64).unwrap();
                        model.write(at, &data);
                    }
                    3 => {
                        let data = pattern(len, step as u8);
                        OpenOptions::new().append(true).open(&path).unwrap().write_all(&data).unwrap();
                        let end = model.0.len();
                        model.write(end, &data);
                    }
                    4 => {
                        file.set_len(at as u64).unwrap();
                        model.0.resize(at, 0);
                    }
                    5 => {
                        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                        fallocate(&file, punch, at as u64, len as u64).unwrap();
                        model.zero(at, len);
                    }
                    6 => {
                        fallocate(&file, FallocateFlags::ZERO_RANGE, at as u64, len as u64).unwrap();
                        model.write(at, &vec![0; len]);
                    }
                    _ => file = open(),
                }
                let mut read = vec![0; len];
                let got = file.read_at(&mut read, at as u64).unwrap();
                let expected = model.0.get(at..).unwrap_or(&[]);
                assert!(read[..got] == expected[..len.min(expected.len())], "seed {seed}, step {step}");
                assert_eq!(file.metadata().unwrap().len(), model.0.len() as u64, "seed {seed}, step {step}");
            }
            assert!(test.get("f").unwrap() == model.0, "through S3, seed {seed}");
        }
    });
}

/// Where data and holes begin in a file, and how much space it takes.
fn layout(path: &std::path::Path) -> (Vec<u64>, u64) {
    let file = File::open(path).unwrap();
    let (mut edges, mut at) = (Vec::new(), 0);
    while let Ok(data) = rustix::fs::seek(&file, Sought::Data(at)) {
        at = rustix::fs::seek(&file, Sought::Hole(data)).unwrap();
        edges.extend([data, at]);
    }
    (edges, std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()))
}

#[test]
fn small_files_have_the_holes_that_they_have_on_ext4() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        for held in [0u64, 4_096, 8_192] {
            for size in [64u64 << 10, 900 << 10, 5 << 20] {
                pair.agree((held, size), ROOT, |dir| {
                    let path = dir.join(format!("{held}-{size}"));
                    std::fs::write(&path, pattern(held as usize, 1)).unwrap();
                    let file = OpenOptions::new().write(true).open(&path).unwrap();
                    file.set_len(size).unwrap();
                    let extended = layout(&path);
                    file.write_all_at(&[7; 4_096], size - 4_096).unwrap();
                    rustix::fs::fsync(&file).unwrap();
                    let written = layout(&path);
                    (extended, written)
                });
                let path = pair.mounted().join(format!("{held}-{size}"));
                std::fs::copy(&path, path.with_extension("copy")).unwrap();
                assert_eq!(layout(&path.with_extension("copy")), layout(&path), "{held}, {size}");
            }
        }
    });
}
