//! Both handles at once in a bucket with versioning: no noncurrent version ever changes.

use std::collections::BTreeMap;

use super::mounted_versions::{content, history, kept, resize};
use super::random::Choices;
use super::test_store::{TestStore, find, make_file, name};
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Rename, RenameMode, Volume};

/// A random walk of S3 and mount operations over a few keys.
struct Walk<'a> {
    test: &'a TestStore,
    bucket: BucketName,
    volume: Volume,
    open: Vec<u64>,
    random: Choices,
    /// The content of each version when it was first seen to be noncurrent.
    seen: BTreeMap<(String, String), Vec<u8>>,
}

const KEYS: [&str; 4] = ["a", "b", "d/a", "d/b"];

impl Walk<'_> {
    fn data(&mut self) -> Vec<u8> {
        let size = *self.random.of(&[0, 3, 5_000, 200_000]);
        self.random.bytes(size)
    }

    fn step(&mut self) {
        let at = *self.random.of(&KEYS);
        let other = *self.random.of(&KEYS);
        let found = find(&self.volume, at);
        match (self.random.below(12), found) {
            (0, _) => {
                let data = self.data();
                self.test.put(&self.bucket, at, &data).unwrap();
            }
            (1, _) => drop(self.test.delete(&self.bucket, at).unwrap()),
            (2, Ok(_)) => self.volume.unlink(self.parent(at), last(at)).unwrap(),
            (3, Ok(_)) if find(&self.volume, "d").is_ok() || !other.contains('/') => self.rename(at, other),
            (4, Err(_)) if find(&self.volume, "d").is_ok() || !at.contains('/') => {
                make_file(&self.volume, self.parent(at), last(at)).unwrap();
            }
            (5, Ok(ino)) => {
                self.volume.pin(ino).unwrap();
                self.volume.open_writer(ino).unwrap();
                self.open.push(ino);
            }
            (6, _) if !self.open.is_empty() => {
                let ino = self.open.swap_remove(self.random.below(self.open.len()));
                self.volume.close_writer(ino).unwrap();
                self.volume.forget(ino, 1);
            }
            (7, _) if !self.open.is_empty() => {
                let ino = *self.random.of(&self.open);
                resize(&self.volume, ino, self.random.below_u64(300_000)).unwrap();
            }
            (8, Ok(_)) => drop(self.test.copy((&self.bucket, at), (&self.bucket, other)).unwrap()),
            _ if !self.open.is_empty() => {
                let (ino, offset, data) = (*self.random.of(&self.open), self.random.below_u64(4_000), self.data());
                self.volume.write(ino, offset, &data, false).unwrap();
            }
            _ => {}
        }
    }

    fn parent(&self, at: &str) -> u64 {
        if at.contains('/') { find(&self.volume, "d").unwrap() } else { self.volume.root() }
    }

    fn rename(&self, from: &str, to: &str) {
        let rename = Rename {
            from_parent: self.parent(from),
            from_name: last(from).into(),
            to_parent: self.parent(to),
            to_name: last(to).into(),
            mode: RenameMode::Replace,
        };
        self.volume.rename(rename).unwrap();
    }

    /// Asserts that noncurrent versions neither change nor disappear.
    fn check(&mut self) {
        let request = ListVersions { list: List { limit: usize::MAX, ..List::default() }, after_version: None };
        let mut found = BTreeMap::new();
        for version in self.test.store.list_versions(&self.bucket, &request).unwrap().versions {
            if !version.marker && !version.latest {
                let id = version.object.version.clone().unwrap();
                found.insert((version.object.key.clone(), id), content(self.test, &self.bucket, &version.object));
            }
        }
        for (version, before) in &self.seen {
            assert!(found.get(version) == Some(before), "{version:?} changed or went");
        }
        self.seen = found;
    }
}

fn last(at: &str) -> &str {
    at.rsplit('/').next().unwrap()
}

#[test]
fn no_version_changes_whatever_both_handles_do() {
    let mut random = Choices::new();
    for _ in 0..4 {
        let test = TestStore::in_memory();
        let (bucket, volume) = kept(&test, "walk");
        let mut walk = Walk {
            test: &test,
            bucket: name(bucket.as_str()),
            volume,
            open: Vec::new(),
            random: Choices::with(random.below_u64(u64::MAX)),
            seen: BTreeMap::new(),
        };
        for _ in 0..120 {
            walk.step();
            walk.check();
        }
        for ino in std::mem::take(&mut walk.open) {
            walk.volume.close_writer(ino).unwrap();
            walk.volume.forget(ino, 1);
        }
        test.audit_collected();
    }
}

#[test]
fn a_version_is_still_once_the_put_that_made_it_is_answered() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "racing");
    test.put(&bucket, "k", &[b'0'; 40_000]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let ino = volume.lookup(volume.root(), "k").unwrap().ino;
                    volume.open_writer(ino).unwrap();
                    for byte in b'a'..=b'z' {
                        volume.write(ino, u64::from(byte) * 100, &[byte; 3_000], false).unwrap();
                    }
                    volume.close_writer(ino).unwrap();
                    volume.forget(ino, 1);
                }
            });
        }
        for _ in 0..150 {
            test.put(&bucket, "k", &[b'0'; 40_000]).unwrap();
            let once = history(&test, &bucket, "k");
            std::thread::sleep(std::time::Duration::from_millis(1));
            let again = history(&test, &bucket, "k");
            assert!(again.ends_with(&once[1..]), "a version that is not current changed");
            let request = ListVersions { list: List { limit: usize::MAX, ..List::default() }, after_version: None };
            for version in
                test.store.list_versions(&bucket, &request).unwrap().versions.iter().filter(|one| !one.latest)
            {
                test.delete_version(&bucket, "k", version.object.version.as_deref().unwrap(), false).unwrap();
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    test.audit_collected();
}
