//! Changes by S3 and other mounts are visible at once, regardless of what the kernel had cached.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::test_store::{pattern, run_all};

#[test]
fn a_put_is_seen_at_once() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("dir/key");
        for round in 0..1_000_usize {
            let old = File::open(&path).ok();
            let content = pattern(1 + round * 37 % 9_000, round as u8);
            test.put("dir/key", &content);
            assert_eq!(path.metadata().unwrap().len(), content.len() as u64, "round {round}");
            assert!(std::fs::read(&path).unwrap() == content, "round {round}");
            if let Some(old) = old {
                assert_eq!(old.metadata().unwrap().nlink(), 0, "an open file keeps its inode, round {round}");
            }
            if round % 3 == 0 {
                test.delete("dir/key");
                assert!(!path.exists(), "round {round}");
                assert!(!path.exists(), "the absence is cached, round {round}");
            }
        }
    });
}

#[test]
fn new_names_are_seen_though_their_absence_was_cached() {
    run_all(|test| {
        let mount = test.mount("m");
        for round in 0..200 {
            let key = format!("d{}/sub{}/f{round}", round % 7, round % 13);
            let path = mount.path().join(&key);
            assert!(!path.exists());
            let parent_before = mount.path().metadata().unwrap().mtime_nsec();
            test.put(&key, b"here");
            assert_eq!(std::fs::read(&path).unwrap(), b"here");
            if round < 7 {
                assert_ne!(mount.path().metadata().unwrap().mtime_nsec(), parent_before, "round {round}");
            }
            assert!(std::fs::read_dir(path.parent().unwrap()).unwrap().any(|entry| entry.unwrap().path() == path));
        }
    });
}

#[test]
fn a_write_is_an_object_at_once() {
    run_all(|test| {
        let mount = test.mount("m");
        for round in 0..300 {
            let content = pattern(1 + round * 53 % 12_000, round as u8);
            std::fs::write(mount.path().join("f"), &content).unwrap();
            assert!(test.get("f") == Some(content), "round {round}");
        }
    });
}

#[test]
fn two_mounts_see_each_other() {
    run_all(|test| {
        let (one, two) = (test.mount("one"), test.mount("two"));
        let read = |path: &Path| std::fs::read(path).unwrap_or_default();
        for round in 0..100_usize {
            let (from, to) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
            let name = format!("f{}", round % 5);
            let content = pattern(100 + round * 91, round as u8);
            std::fs::write(from.path().join(&name), &content).unwrap();
            assert!(read(&to.path().join(&name)) == content, "round {round}");
            if round % 10 == 9 {
                std::fs::remove_file(to.path().join(&name)).unwrap();
                assert!(!from.path().join(&name).exists(), "round {round}");
            }
        }
    });
}

#[test]
fn busy_mounts_and_puts_do_not_wait_for_each_other() {
    run_all(|test| {
        let (one, two) = (test.mount("one"), test.mount("two"));
        std::thread::scope(|scope| {
            for (who, mount) in [&one, &two].into_iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..300 {
                        let path = mount.path().join(format!("w{who}-{}", round % 20));
                        std::fs::write(&path, pattern(5_000, round as u8)).unwrap();
                        let _ = std::fs::read_dir(mount.path()).unwrap().count();
                        if round % 4 == 0 {
                            std::fs::remove_file(&path).unwrap();
                        }
                    }
                });
            }
            for round in 0..300 {
                let start = Instant::now();
                test.put(&format!("s{}", round % 20), b"put");
                // The writer waits for the disk as well, but invalidations do not.
                let held_up = slow_notices(&one) + slow_notices(&two);
                let took = start.elapsed();
                assert!(took < Duration::from_secs(2) || held_up == 0, "a put waited for a mount, round {round}");
            }
        });
    });
}

/// The number of invalidations that took more than half a second, because another thread held a lock that they need.
fn slow_notices(mount: &fuse::Mount) -> u64 {
    let operations = mount.stats().operations;
    let notices = operations.iter().find(|operation| operation.name == "invalidate").unwrap();
    notices.buckets.iter().rev().take(2).sum()
}

#[test]
fn creating_what_another_mount_just_made_opens_it() {
    run_all(|test| {
        let (one, two) = (test.mount("one"), test.mount("two"));
        for round in 0..300 {
            let name = format!("f{round}");
            assert!(!one.path().join(&name).exists(), "its absence is cached");
            std::fs::write(two.path().join(&name), "two").unwrap();
            let mut file = OpenOptions::new().append(true).create(true).open(one.path().join(&name)).unwrap();
            file.write_all(b" and one").unwrap();
            assert_eq!(test.get(&name).as_deref(), Some(b"two and one".as_slice()), "round {round}");
        }
    });
}
