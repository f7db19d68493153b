//! A program that creates, links, renames, exchanges and deletes names in its own folder, and knows the result of each
//! call: a call that is executed twice, or not at all, is noticed.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, XattrFlags, getxattr, linkat, openat, renameat_with, setxattr,
};
use rustix::io::Errno;

use crate::support::*;

/// Few names, so that operations often use the same one.
const NAMES: usize = 24;
/// Files without a name that are kept open.
const OPEN_FILES_MAX: usize = 12;

/// What a name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    Link(String),
    /// The number of a file.
    File(u64),
}

struct Folder<'a> {
    dir: &'a Path,
    names: BTreeMap<String, Node>,
    files: BTreeMap<u64, Vec<u8>>,
    /// Open files, some of which have no name.
    held: VecDeque<(File, u64)>,
    last: u64,
}

/// Changes names until `going` is false, then compares everything.
pub fn change(dir: &Path, rng: &mut Rng, going: &AtomicBool) {
    let mut folder = Folder { dir, names: BTreeMap::new(), files: BTreeMap::new(), held: VecDeque::new(), last: 0 };
    let mut calls = 0_u64;
    while going.load(Ordering::Relaxed) {
        folder.step(rng);
        calls += 1;
        if rng.chance(1) {
            folder.compare();
        }
    }
    folder.compare();
    assert!(calls > 100, "only {calls} calls: too little load");
}

impl Folder<'_> {
    fn step(&mut self, rng: &mut Rng) {
        let (one, two) = (name(rng), name(rng));
        match (self.names.get(&one).cloned(), rng.below(12)) {
            (None, 0..5) => self.create(&one, rng),
            (None, 5) => self.add(&one, Node::Directory, |path| std::fs::create_dir(path)),
            (None, 6) => {
                self.add(&one, Node::Link(two.clone()), |path| std::os::unix::fs::symlink(&two, path));
            }
            (None, 7) => self.create_nameless(&one, rng),
            (None, _) => self.expect(&one, "stat", Errno::NOENT, |path| path.symlink_metadata().map(drop)),
            (Some(_), 0) => self.expect(&one, "mkdir", Errno::EXIST, |path| std::fs::create_dir(path)),
            (Some(_), 1..3) => self.remove(&one),
            (Some(_), 3..6) => self.rename(&one, &two),
            (Some(_), 6) => self.exchange(&one, &two),
            (Some(Node::File(number)), 7) => self.link(&one, &two, number),
            (Some(Node::File(number)), 8) => self.append(&one, number, rng),
            (Some(Node::File(number)), 9) => self.keep_open(&one, number),
            (Some(Node::File(_)), 10) => self.mark(&one),
            (Some(Node::File(number)), _) => {
                let seen = must("read", &one, std::fs::read(self.dir.join(&one)));
                assert!(seen == self.files[&number], "the content of {one}");
            }
            (Some(_), _) => self.check_open_files(),
        }
    }

    /// open(2) with O_EXCL: the name does not exist, so the call must not fail with EEXIST.
    fn create(&mut self, name: &str, rng: &mut Rng) {
        let content = content(rng);
        let made = OpenOptions::new().write(true).create_new(true).open(self.dir.join(name));
        must("write", name, must("create", name, made).write_all(&content));
        self.put(name, content);
    }

    /// O_TMPFILE, and a name once it is written.
    fn create_nameless(&mut self, name: &str, rng: &mut Rng) {
        let content = content(rng);
        let made = openat(CWD, self.dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
        let mut file = File::from(must("O_TMPFILE", name, made.map_err(Into::into)));
        must("write", name, file.write_all(&content));
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let linked = linkat(CWD, path, CWD, self.dir.join(name), AtFlags::SYMLINK_FOLLOW);
        must("linkat", name, linked.map_err(Into::into));
        self.put(name, content);
    }

    fn put(&mut self, name: &str, content: Vec<u8>) {
        self.last += 1;
        self.files.insert(self.last, content);
        self.names.insert(name.to_owned(), Node::File(self.last));
    }

    fn add(&mut self, name: &str, node: Node, call: impl FnOnce(&Path) -> Result<()>) {
        must("make", name, call(&self.dir.join(name)));
        self.names.insert(name.to_owned(), node);
    }

    fn remove(&mut self, name: &str) {
        let path = self.dir.join(name);
        match self.names.remove(name).expect("known") {
            Node::Directory => must("rmdir", name, std::fs::remove_dir(&path)),
            _ => must("unlink", name, std::fs::remove_file(&path)),
        }
        self.expect(name, "stat after unlink", Errno::NOENT, |path| path.symlink_metadata().map(drop));
    }

    fn rename(&mut self, from: &str, to: &str) {
        let (source, target) = (self.names[from].clone(), self.names.get(to).cloned());
        let renamed = self.call_rename(from, to, RenameFlags::NOREPLACE);
        match target {
            None => {
                must("rename", from, renamed);
                self.names.remove(from);
                self.names.insert(to.to_owned(), source);
            }
            Some(target) => {
                assert_eq!(number(&renamed), Some(Errno::EXIST), "rename without replacing, {from} to {to}");
                let fits = (source == Node::Directory) == (target == Node::Directory);
                let renamed = self.call_rename(from, to, RenameFlags::empty());
                if fits {
                    must("rename over", from, renamed);
                    // Renaming between two hard links of one file does nothing (rename(2)).
                    if from != to && !(matches!(source, Node::File(_)) && source == target) {
                        self.names.remove(from);
                        self.names.insert(to.to_owned(), source);
                    }
                } else {
                    assert!(renamed.is_err(), "{from} over {to} is of another kind");
                }
            }
        }
    }

    fn exchange(&mut self, from: &str, to: &str) {
        let done = self.call_rename(from, to, RenameFlags::EXCHANGE);
        match self.names.get(to).cloned() {
            None => assert_eq!(number(&done), Some(Errno::NOENT), "exchange of {from} and {to}"),
            Some(target) => {
                must("exchange", from, done);
                let source = self.names.insert(from.to_owned(), target).expect("known");
                self.names.insert(to.to_owned(), source);
            }
        }
    }

    fn call_rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<()> {
        Ok(renameat_with(CWD, self.dir.join(from), CWD, self.dir.join(to), flags)?)
    }

    fn link(&mut self, from: &str, to: &str, number: u64) {
        let linked = std::fs::hard_link(self.dir.join(from), self.dir.join(to));
        if self.names.contains_key(to) {
            assert_eq!(self::number(&linked), Some(Errno::EXIST), "link {from} to {to}");
        } else {
            must("link", from, linked);
            self.names.insert(to.to_owned(), Node::File(number));
        }
    }

    fn append(&mut self, name: &str, number: u64, rng: &mut Rng) {
        let more = content(rng);
        let file = OpenOptions::new().append(true).open(self.dir.join(name));
        must("append", name, must("open", name, file).write_all(&more));
        self.files.get_mut(&number).expect("named").extend(more);
    }

    /// Keeps a file open while its names change.
    fn keep_open(&mut self, name: &str, number: u64) {
        let file = OpenOptions::new().read(true).write(true).open(self.dir.join(name));
        self.held.push_back((must("open", name, file), number));
        if self.held.len() > OPEN_FILES_MAX {
            self.held.pop_front();
        }
    }

    /// Sets an attribute that may be set once only.
    fn mark(&self, name: &str) {
        let path = self.dir.join(name);
        let mut value = [0; 8];
        let known = getxattr(&path, "user.mark", &mut value).is_ok();
        let set = setxattr(&path, "user.mark", b"once", XattrFlags::CREATE);
        assert_eq!(set.err(), known.then_some(Errno::EXIST), "the mark of {name}");
    }

    fn check_open_files(&self) {
        for (file, number) in &self.held {
            let expected = &self.files[number];
            let stat = must("fstat", "an open file", file.metadata());
            let names = self.names.values().filter(|node| **node == Node::File(*number)).count();
            assert_eq!((stat.len(), stat.nlink()), (expected.len() as u64, names as u64), "open file {number}");
            let mut seen = vec![0; expected.len()];
            must("read", "an open file", file.read_exact_at(&mut seen, 0));
            assert!(seen == *expected, "the content of open file {number}, which has {names} names");
        }
    }

    fn compare(&mut self) {
        self.check_open_files();
        let (names, held) = (&self.names, &self.held);
        self.files.retain(|number, _| {
            names.values().any(|node| *node == Node::File(*number)) || held.iter().any(|(_, held)| held == number)
        });
        let entries = must("readdir", ".", std::fs::read_dir(self.dir));
        let seen = entries.map(|entry| must("readdir", ".", entry).file_name().into_string().expect("text"));
        let mut seen: Vec<_> = seen.collect();
        seen.sort();
        assert!(seen.iter().eq(self.names.keys()), "the names are {seen:?}, not {:?}", self.names.keys());
        for (name, node) in &self.names {
            let path = self.dir.join(name);
            let seen = match node {
                Node::Directory => must("stat", name, path.symlink_metadata()).is_dir(),
                Node::Link(target) => must("readlink", name, std::fs::read_link(&path)).as_os_str() == target.as_str(),
                Node::File(number) => must("read", name, std::fs::read(&path)) == self.files[number],
            };
            assert!(seen, "{name} is not {node:?}");
        }
    }

    fn expect(&self, name: &str, what: &str, errno: Errno, call: impl FnOnce(&Path) -> Result<()>) {
        let done = call(&self.dir.join(name));
        assert_eq!(number(&done), Some(errno), "{what} {name}");
    }
}

fn name(rng: &mut Rng) -> String {
    format!("n{}", rng.below(NAMES))
}

fn content(rng: &mut Rng) -> Vec<u8> {
    // Lengths below and above the limit of inline content.
    let longest = if rng.chance(10) { 150_000 } else { 6_000 };
    let len = rng.below(longest);
    rng.bytes(len)
}

fn number(done: &Result<()>) -> Option<Errno> {
    done.as_ref().err().and_then(std::io::Error::raw_os_error).map(Errno::from_raw_os_error)
}

#[track_caller]
fn must<T>(what: &str, name: &str, done: Result<T>) -> T {
    done.unwrap_or_else(|error| panic!("{what} {name}: {error}"))
}
