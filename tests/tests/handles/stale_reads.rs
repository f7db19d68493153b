//! Ten thousand reads through one handle, each right after a change through the other: none sees the old state.
//!
//! - Before each change the kernel caches the old state: attributes, pages, mapped pages, names, absent names.
//! - A file opened before a change by S3 keeps its content, mapped or not.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{fdatasync, fsync, rename};

use super::both::Both;
use crate::support::load::Content;
use crate::support::mapping::Mapping;
use crate::support::*;

const READS: usize = 10_000;
const KEYS: usize = 6;
const FOLDER: &str = "folder";

/// Both interfaces, and the content of each key.
struct Watch {
    both: Both,
    known: [Option<Vec<u8>>; KEYS],
    tags: [String; KEYS],
    rng: Rng,
    reads: usize,
}

here_and_elsewhere! {
    fn ten_thousand_reads_see_nothing_stale() {
        need!(root_and_fuse());
        let rng = Rng::new("handles::stale_reads");
        let both = Both::new(None);
        std::fs::create_dir(both.path(FOLDER)).expect("a folder that S3 does not prune");
        let mut watch = Watch { both, known: Default::default(), tags: Default::default(), rng, reads: 0 };
        let mut round = 0;
        while watch.reads < READS {
            let at = watch.rng.below(KEYS);
            watch.change_and_read(at, round);
            round += 1;
        }
    }
}

fn key(at: usize) -> String {
    format!("{FOLDER}/key-{at}")
}

impl Watch {
    fn change_and_read(&mut self, at: usize, round: usize) {
        let what = format!("round {round}, key {at}");
        let open = self.cache_before(at);
        let old = self.known[at].clone();
        if self.rng.chance(60) {
            self.change_by_s3(at);
            self.read_by_mount(at, &what);
        } else {
            self.change_by_mount(at);
        }
        self.read_by_s3(at, &what);
        if let (Some((file, mapping)), Some(old)) = (open, old) {
            self.reads += 1;
            // A mount changes the file itself; an S3 PUT replaces it by another file.
            let mut seen = vec![0; old.len()];
            let count = file.read_at(&mut seen, 0).expect("an open file is read");
            if count == old.len() && seen == old {
                assert!(mapping.read(0, old.len()) == old, "{what}: the mapping of the open file");
            } else {
                assert!(
                    Some(&seen[..count]) == self.known[at].as_deref().map(|new| &new[..count]),
                    "{what}: open file"
                );
            }
        }
    }

    /// Makes the kernel cache the state in some of the possible ways; sometimes keeps the file open and mapped.
    fn cache_before(&mut self, at: usize) -> Option<(File, Mapping)> {
        let path = self.both.path(&key(at));
        if self.rng.chance(30) {
            drop(std::fs::read_dir(self.both.path(FOLDER)).map(Iterator::count));
        }
        match self.rng.below(4) {
            0 => drop(path.symlink_metadata()),
            1 => drop(std::fs::read(&path)),
            2 => drop(path.exists()),
            _ => {
                let len = self.known[at].as_ref().map_or(0, Vec::len);
                let file = OpenOptions::new().read(true).write(true).open(&path).ok().filter(|_| len > 0)?;
                let mapping = Mapping::new(&file, 0, len).expect("mapped");
                mapping.read(0, len);
                return Some((file, mapping));
            }
        }
        None
    }

    fn change_by_s3(&mut self, at: usize) {
        let (name, other) = (key(at), self.rng.below(KEYS));
        let content = self.content(at);
        match self.rng.below(8) {
            0 | 1 if self.known[at].is_some() => {
                self.both.delete(&name).expect("deleted");
                self.known[at] = None;
            }
            2 if other != at && self.known[other].is_some() => {
                self.both.copy(&key(other), &name).expect("copied");
                self.known[at] = self.known[other].clone();
            }
            3 => {
                self.both.upload(&name, content.clone()).expect("uploaded");
                self.known[at] = Some(content);
            }
            _ => {
                self.both.put(&name, content.clone(), None).expect("put");
                self.known[at] = Some(content);
            }
        }
    }

    /// New content, often of the same length, so that only the content differs.
    fn content(&mut self, at: usize) -> Vec<u8> {
        let same = self.known[at].as_ref().map(Vec::len).filter(|_| self.rng.chance(50));
        let longest = if self.rng.chance(5) { 300_000 } else { 10_000 };
        let len = same.unwrap_or_else(|| if self.rng.chance(5) { 0 } else { self.rng.below(longest) });
        Content { len, seed: self.rng.roll() }.bytes()
    }

    fn read_by_mount(&mut self, at: usize, what: &str) {
        let path = self.both.path(&key(at));
        let names = |watch: &Self| {
            let entries = std::fs::read_dir(watch.both.path(FOLDER)).expect("the folder is there");
            let mut names: Vec<_> =
                entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
            names.sort();
            names
        };
        let expected: Vec<_> = (0..KEYS).filter(|at| self.known[*at].is_some()).map(|at| format!("key-{at}")).collect();
        // In another order each time, since a look makes the kernel cache the state.
        let first = self.rng.below(3);
        for look in (first..first + 3).map(|look| look % 3) {
            self.reads += 1;
            match (look, &self.known[at]) {
                (0, _) => assert_eq!(names(self), expected, "{what}: names"),
                (1, Some(known)) => {
                    assert_eq!(path.metadata().expect(what).len(), known.len() as u64, "{what}: size");
                }
                (1, None) => {
                    let kind = path.symlink_metadata().expect_err(what).kind();
                    assert_eq!(kind, ErrorKind::NotFound, "{what}: stat");
                }
                (_, Some(known)) => {
                    let file = File::open(&path).expect(what);
                    let mut seen = vec![0; known.len() + 1];
                    let count = file.read_at(&mut seen, 0).expect(what);
                    assert!(seen[..count] == known[..], "{what}: content");
                    drop(file);
                    if known.is_empty() {
                        continue; // mmap(2) refuses a length of 0
                    }
                    let file = OpenOptions::new().read(true).write(true).open(&path).expect(what);
                    let mapping = Mapping::new(&file, 0, known.len()).expect("mapped");
                    assert!(mapping.read(0, known.len()) == *known, "{what}: mapped content");
                    self.reads += 1;
                }
                (_, None) => {
                    assert_eq!(File::open(&path).expect_err(what).kind(), ErrorKind::NotFound, "{what}: open");
                }
            }
        }
    }

    /// Changes the file by the mount. If the file stays open, it is read through S3 before it is closed.
    fn change_by_mount(&mut self, at: usize) {
        let path = self.both.path(&key(at));
        let content = self.content(at);
        match (self.rng.below(6), self.known[at].clone()) {
            (0, Some(_)) => {
                std::fs::remove_file(&path).expect("unlinked");
                self.known[at] = None;
            }
            (1, Some(known)) => {
                // Changed in place, and visible through S3 after fsync(2) while the file is still open.
                let file = OpenOptions::new().write(true).open(&path).expect("opened");
                let part = &content[..content.len().min(known.len())];
                file.write_all_at(part, 0).expect("written");
                if self.rng.chance(50) { fsync(&file) } else { fdatasync(&file) }.expect("synced");
                self.known[at] = Some([part, &known[part.len()..]].concat());
                self.read_by_s3(at, "open after fsync");
            }
            (2, Some(known)) if !known.is_empty() => {
                let file = OpenOptions::new().read(true).write(true).open(&path).expect("opened");
                let mut mapping = Mapping::new(&file, 0, known.len()).expect("mapped");
                let part = &content[..content.len().min(known.len())];
                mapping.write(0, part);
                mapping.sync().expect("synced");
                self.known[at] = Some([part, &known[part.len()..]].concat());
                self.read_by_s3(at, "mapped after msync");
            }
            (3, Some(known)) => {
                let len = self.rng.below(known.len() * 2 + 1);
                OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(len as u64)).expect("cut");
                let mut known = known;
                known.resize(len, 0);
                self.known[at] = Some(known);
            }
            (4, _) => {
                std::fs::write(self.both.path("new"), &content).expect("written");
                rename(self.both.path("new"), &path).expect("renamed over");
                self.known[at] = Some(content);
            }
            _ => {
                let mut file = File::create(&path).expect("a file");
                // In pieces: the size grows as an editor or a compiler lets it grow.
                content.chunks(7_000).for_each(|piece| file.write_all(piece).expect("written"));
                self.known[at] = Some(content);
            }
        }
    }

    fn read_by_s3(&mut self, at: usize, what: &str) {
        let name = key(at);
        let head = self.both.head(&name);
        self.reads += 3;
        let listed = self.both.list(&name, None, "", 2);
        let Some(known) = &self.known[at] else {
            assert!(head.is_none() && self.both.get(&name).is_err(), "{what}: S3 still has it");
            assert!(listed.contents().is_empty(), "{what}: S3 still lists it");
            return;
        };
        let head = head.unwrap_or_else(|| panic!("{what}: S3 does not have it"));
        let (seen, tag) = self.both.get(&name).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        assert_eq!(head.content_length(), i64::try_from(known.len()).ok(), "{what}: HEAD's size");
        assert!(seen == *known, "{what}: GET's content");
        let object = listed.contents().first().unwrap_or_else(|| panic!("{what}: S3 does not list it"));
        assert_eq!((object.size(), object.e_tag()), (head.content_length(), tag.as_deref()), "{what}: listed");
        assert_eq!(head.e_tag(), tag.as_deref(), "{what}: entity tags");
        self.tags[at] = tag.expect("an entity tag");
    }
}
