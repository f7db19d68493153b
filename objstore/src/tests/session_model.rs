//! Random schedules of two mounts and S3, with servers that die before, during and after requests, compared with a
//! model in which nothing dies.

use std::collections::{BTreeMap, BTreeSet};

use super::kernel::{Kernel, restart};
use super::random::Choices;
use super::test_store::{TestStore, by_root, read_file};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::record::key::tag;
use crate::volume::replay::{RequestId, serve};
use crate::volume::{Make, Rename, RenameMode, Volume};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const STEPS: usize = 250;

/// A request of a mount.
#[derive(Clone, Debug)]
enum Call {
    Make(&'static str),
    Link(u64, &'static str),
    Unlink(&'static str),
    Rename(&'static str, &'static str, RenameMode),
    /// So many bytes of one kind.
    Append(u64, u8, usize),
    Write(u64, usize, u8, usize),
}

/// What an answer says: an inode, if it is about one.
type Answer = std::result::Result<u64, Posix>;

impl Call {
    fn run(&self, volume: &Volume) -> Answer {
        let done = match self.clone() {
            Self::Make(name) => volume.make(1, name, Make::File, by_root(0o644)).map(|made| made.ino),
            Self::Link(ino, name) => volume.link(ino, 1, name).map(|linked| linked.ino),
            Self::Unlink(name) => nothing(volume.unlink(1, name)),
            Self::Rename(from, to, mode) => nothing(volume.rename(Rename {
                from_parent: 1,
                from_name: from.into(),
                to_parent: 1,
                to_name: to.into(),
                mode,
            })),
            Self::Append(ino, byte, len) => nothing(volume.append(ino, &vec![byte; len])),
            Self::Write(ino, at, byte, len) => nothing(volume.write(ino, at as u64, &vec![byte; len], false)),
        };
        done.map_err(|error| match error {
            Error::Posix(posix) => posix,
            other => panic!("{self:?}: {other}"),
        })
    }

    /// The inode it keeps from being let go.
    fn uses(&self) -> Option<u64> {
        match self {
            Self::Link(ino, _) | Self::Append(ino, ..) | Self::Write(ino, ..) => Some(*ino),
            Self::Make(_) | Self::Unlink(_) | Self::Rename(..) => None,
        }
    }

    /// Whether the answer gives the kernel an inode to hold.
    fn gives(&self) -> bool {
        matches!(self, Self::Make(_) | Self::Link(..))
    }
}

fn nothing<T>(done: Result<T>) -> Result<u64> {
    done.map(|_| 0)
}

/// The bucket as it should be.
#[derive(Default)]
struct Model {
    names: BTreeMap<&'static str, u64>,
    content: BTreeMap<u64, Vec<u8>>,
}

impl Model {
    fn names_of(&self, ino: u64) -> usize {
        self.names.values().filter(|named| **named == ino).count()
    }

    /// Applies a call that was answered so.
    fn apply(&mut self, call: &Call, answer: Answer) {
        let expected = self.expect(call, answer);
        assert_eq!(answer, expected, "{call:?}");
    }

    fn expect(&mut self, call: &Call, answer: Answer) -> Answer {
        match call.clone() {
            Call::Make(name) => {
                if self.names.contains_key(name) {
                    return Err(Posix::Exists);
                }
                let ino = answer?;
                assert!(self.content.insert(ino, Vec::new()).is_none(), "{ino} was used before");
                self.names.insert(name, ino);
                Ok(ino)
            }
            Call::Link(ino, _) if self.names_of(ino) == 0 => Err(Posix::NotFound),
            Call::Link(_, name) if self.names.contains_key(name) => Err(Posix::Exists),
            Call::Link(ino, name) => {
                self.names.insert(name, ino);
                Ok(ino)
            }
            Call::Unlink(name) => self.names.remove(name).map(|_| 0).ok_or(Posix::NotFound),
            Call::Rename(from, to, mode) => self.rename(from, to, mode),
            Call::Append(ino, byte, len) => {
                self.content.get_mut(&ino).unwrap().extend(vec![byte; len]);
                Ok(0)
            }
            Call::Write(ino, at, byte, len) => {
                let held = self.content.get_mut(&ino).unwrap();
                held.resize(held.len().max(at + len), 0);
                held[at..at + len].fill(byte);
                Ok(0)
            }
        }
    }

    fn rename(&mut self, from: &'static str, to: &'static str, mode: RenameMode) -> Answer {
        let moved = *self.names.get(from).ok_or(Posix::NotFound)?;
        let replaced = self.names.get(to).copied();
        match (mode, replaced) {
            (RenameMode::NoReplace, Some(_)) => return Err(Posix::Exists),
            (RenameMode::Exchange, None) => return Err(Posix::NotFound),
            (RenameMode::Exchange, Some(other)) => {
                self.names.insert(from, other);
                self.names.insert(to, moved);
            }
            // Two names of one file: rename(2) does nothing.
            (_, Some(same)) if same == moved => {}
            _ => {
                self.names.remove(from);
                self.names.insert(to, moved);
            }
        }
        Ok(0)
    }
}

/// A run.
struct Run {
    test: Option<TestStore>,
    bucket: BucketName,
    kernels: [Kernel; 2],
    model: Model,
    choices: Choices,
}

impl Run {
    fn test(&self) -> &TestStore {
        self.test.as_ref().unwrap()
    }

    fn call(&mut self, at: usize) -> Call {
        let held: Vec<u64> =
            self.kernels[at].nodes.lock().keys().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let (name, other) = (*self.choices.of(&NAMES), *self.choices.of(&NAMES));
        let (byte, len) = (self.choices.bytes(1)[0], self.choices.below(3000) + 1);
        let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
        match self.choices.below(8) {
            0 | 1 => Call::Make(name),
            2 => Call::Unlink(name),
            3 => Call::Rename(name, other, *self.choices.of(&modes)),
            _ if held.is_empty() => Call::Make(name),
            4 => Call::Link(*self.choices.of(&held), name),
            5 => Call::Write(*self.choices.of(&held), self.choices.below(6000), byte, len),
            _ => Call::Append(*self.choices.of(&held), byte, len),
        }
    }

    /// A call that may have to be sent again and again.
    fn ask(&mut self) {
        let at = self.choices.below(2);
        let call = self.call(at);
        let mut request = self.kernels[at].request();
        // What a server did that died before it answered.
        let mut done: Option<u64> = None;
        while self.choices.once_in(4) {
            if self.choices.once_in(2) {
                self.serve_in_vain(at, request, &call, &mut done);
            }
            self.kill(call.uses());
            request.resent = true;
            if self.choices.once_in(3) {
                self.s3();
            }
        }
        let answer = self.kernels[at].ask_as(request, |volume| call.run(volume));
        self.told(&call, answer, &mut done);
        if let Ok(ino) = answer
            && call.gives()
        {
            self.kernels[at].got(ino);
        }
    }

    fn serve_in_vain(&mut self, at: usize, request: RequestId, call: &Call, done: &mut Option<u64>) {
        let (answer, _unanswered) = serve(self.kernels[at].volume(), request, |volume| call.run(volume));
        self.told(call, answer, done);
    }

    /// Compares an answer with the model; what was done by a server before is not done again, unless nothing is left.
    fn told(&mut self, call: &Call, answer: Answer, done: &mut Option<u64>) {
        match done.filter(|ino| *ino == 0 || self.exists(*ino)) {
            Some(before) => assert_eq!(answer, Ok(before), "{call:?} sent again"),
            None => self.model.apply(call, answer),
        }
        *done = answer.ok();
    }

    fn holds(&self, ino: u64) -> bool {
        self.kernels.iter().any(|kernel| kernel.nodes.lock().contains_key(&ino))
    }

    fn exists(&self, ino: u64) -> bool {
        self.model.names_of(ino) > 0 || self.holds(ino)
    }

    fn look_up(&mut self) {
        let name = *self.choices.of(&NAMES);
        let kernel = self.choices.of(&self.kernels);
        let found = kernel.volume().lookup(1, name).ok().map(|found| found.ino);
        assert_eq!(found, self.model.names.get(name).copied());
        found.map(|ino| kernel.got(ino));
    }

    fn s3(&mut self) {
        let name = *self.choices.of(&NAMES);
        if self.choices.once_in(2) {
            self.test().delete(&self.bucket, name).unwrap();
            self.model.names.remove(name);
        } else {
            let data = self.choices.bytes(5000);
            self.test().put(&self.bucket, name, &data).unwrap();
            let ino = super::test_store::find(self.kernels[0].volume(), name).unwrap();
            self.model.names.insert(name, ino);
            self.model.content.insert(ino, data);
        }
        self.settle();
    }

    /// A kernel lets an inode go.
    fn evict(&mut self) {
        let kernel = self.choices.of(&self.kernels);
        let held = kernel.nodes.lock().keys().copied().min();
        held.into_iter().for_each(|ino| kernel.evict(ino));
    }

    /// Kills the server. A forget under way is lost with it, or read by the next one.
    fn kill(&mut self, used: Option<u64>) {
        let mut late = Vec::new();
        for (at, kernel) in self.kernels.iter().enumerate() {
            let held = kernel.nodes.lock().keys().copied().max();
            if let Some(ino) = held.filter(|ino| Some(*ino) != used && self.choices.once_in(3)) {
                let lookups = kernel.nodes.lock().remove(&ino).unwrap();
                late.extend(self.choices.once_in(2).then_some((at, ino, lookups)));
            }
        }
        let [first, second] = &mut self.kernels;
        self.test = Some(restart(self.test.take().unwrap(), &mut [first, second]));
        for (at, ino, lookups) in late {
            self.kernels[at].volume().forget(ino, lookups);
        }
        self.settle();
    }

    fn settle(&self) {
        // A question may follow from an answer.
        for kernel in self.kernels.iter().chain(&self.kernels) {
            kernel.settle(self.test());
        }
    }

    /// Names, content and space are those of the model.
    fn compare(&mut self) {
        self.settle();
        let gone: Vec<u64> = self.model.content.keys().copied().filter(|ino| !self.exists(*ino)).collect();
        let volume = self.kernels[self.choices.below(2)].volume();
        for ino in gone {
            assert!(matches!(volume.attr(ino), Err(Error::Posix(Posix::Stale))), "{ino} is not collected");
            self.model.content.remove(&ino);
        }
        let names = volume.read_dir(1).unwrap().into_iter().map(|entry| (entry.name, entry.ino));
        assert!(names.eq(self.model.names.iter().map(|(name, ino)| ((*name).to_owned(), *ino))));
        for (ino, content) in &self.model.content {
            assert!(read_file(volume, *ino) == *content, "the content of {ino}");
        }
        let used = self.test().store.usage(&self.bucket).unwrap();
        let expected: usize = self.model.content.values().map(Vec::len).sum();
        assert_eq!((used.bytes, used.inodes), (expected as u64, self.model.content.len() as u64));
    }
}

#[test]
fn programs_do_not_notice_that_servers_die() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let kernels = [Kernel::mount(&test, &bucket), Kernel::mount(&test, &bucket)];
    let (model, choices) = (Model::default(), Choices::new());
    let mut run = Run { test: Some(test), bucket, kernels, model, choices };
    for step in 0..STEPS {
        match run.choices.below(10) {
            0..=5 => run.ask(),
            6 | 7 => run.look_up(),
            8 => run.evict(),
            _ => run.s3(),
        }
        run.compare();
        if step % 50 == 0 {
            run.test().audit();
        }
    }
    let Run { test, kernels, .. } = run;
    let test = test.unwrap();
    for kernel in kernels {
        kernel.unmount();
    }
    test.store.core.meta.sync().wait().unwrap();
    let left = [tag::SESSION, tag::REPLAY, tag::OWED, tag::ORPHAN].map(|kind| super::sessions::records(&test, kind));
    assert_eq!(left, [0; 4]);
    test.audit_collected();
}
