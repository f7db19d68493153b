//! The FUSE protocol: requests of every kind and in large numbers, and what the kernel caches.

use std::os::unix::fs::{DirEntryExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use crate::test_store::{pattern, run};

#[test]
fn the_time_of_birth_is_told() {
    run(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        std::fs::write(&path, "new").unwrap();
        let born = std::fs::metadata(&path).unwrap().created().unwrap();
        assert!(born.elapsed().unwrap() < Duration::from_secs(60));
        let long_ago = SystemTime::UNIX_EPOCH - Duration::new(1_000_000, 1);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.modified().unwrap(), found.created().unwrap()), (long_ago, born));
    });
}

#[test]
fn the_umask_of_the_maker_counts() {
    run(|test| {
        let mount = test.mount("m");
        let script = "umask 027; : > file; mkdir dir; mkfifo pipe; ln -s to link";
        let made = Command::new("sh").args(["-c", script]).current_dir(mount.path()).status().unwrap();
        assert!(made.success());
        let mode = |name: &str| mount.path().join(name).symlink_metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("file"), mode("dir"), mode("pipe"), mode("link")), (0o640, 0o750, 0o640, 0o777));
    });
}

#[test]
fn requests_of_any_size_come_through() {
    run(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        for len in [1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, 3 << 20] {
            let content = pattern(len, 7);
            std::fs::write(&path, &content).unwrap();
            assert!(std::fs::read(&path).unwrap() == content, "{len} bytes");
            assert_eq!(test.get("f").unwrap().len(), len);
        }
        let value = pattern(60_000, 9);
        rustix::fs::setxattr(&path, "user.large", &value, rustix::fs::XattrFlags::empty()).unwrap();
        let mut room = vec![0; 65_536];
        let len = rustix::fs::getxattr(&path, "user.large", &mut room[..]).unwrap();
        assert!(room[..len] == value);
        let name = "n".repeat(255);
        rustix::fs::rename(&path, mount.path().join(&name)).unwrap();
        assert!(test.get(&name).is_some());
    });
}

#[test]
fn many_nodes_are_forgotten() {
    run(|test| {
        let mount = test.mount("m");
        let path = |at: u32| mount.path().join(format!("f{at}"));
        for round in 0..3 {
            (0..500).for_each(|at| std::fs::write(path(at), [round]).unwrap());
            (0..500).for_each(|at| assert_eq!(std::fs::read(path(at)).unwrap(), [round]));
            (0..500).for_each(|at| std::fs::remove_file(path(at)).unwrap());
            assert_eq!(std::fs::read_dir(mount.path()).unwrap().count(), 0);
        }
        // They arrive in the background, one by one or many at a time.
        let until = Instant::now() + Duration::from_secs(10);
        while count(&mount, &["forget"]) == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(count(&mount, &["forget"]) > 0);
    });
}

fn listed(path: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    let mut listed: Vec<_> = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.ino())).collect();
    listed.sort();
    listed
}

#[test]
fn a_listing_that_the_kernel_keeps_is_never_older_than_a_change() {
    run(|test| {
        let mount = test.mount("m");
        let path = mount.path();
        let names = || listed(path).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        for round in 0..20 {
            test.put("a", format!("by s3 {round}").as_bytes());
            test.put("b", b"by s3");
            assert_eq!(names(), ["a", "b"]);
            std::fs::write(path.join("c"), "by the mount").unwrap();
            assert_eq!(names(), ["a", "b", "c"]);
            test.delete("b");
            assert_eq!(names(), ["a", "c"]);
            rustix::fs::rename(path.join("c"), path.join("d")).unwrap();
            assert_eq!(names(), ["a", "d"]);
            test.delete("d");
            for (name, ino) in listed(path) {
                assert_eq!(path.join(&name).metadata().unwrap().ino(), ino, "{name} in round {round}");
            }
            assert_eq!(names(), ["a"]);
        }
        let listings = || count(&mount, &["readdir", "readdirplus"]);
        let before = listings();
        (0..10).for_each(|_| assert_eq!(names(), ["a"]));
        assert!(listings() <= before + 2, "a cached listing is not requested again");
    });
}

/// How often the kernel sent operations with these names.
fn count(mount: &fuse::Mount, names: &[&str]) -> u64 {
    let operations = mount.stats().operations;
    operations.iter().filter(|operation| names.contains(&operation.name)).map(|operation| operation.count).sum()
}
