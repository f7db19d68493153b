//! What the files of the bucket have to hold.

use std::collections::{BTreeMap, BTreeSet};

use objstore_files::{AttributeOp, ContentOp, NameOp, Op as FileOp, Reply};

use crate::error::{Error, Posix, Result};
use crate::tests::random::Choices;
use crate::tests::test_store::by_root;
use crate::volume::{ROOT_INO, SetAttr, Volume};

/// The names in use.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Offsets of writes: within a small file, and within one that has a file of its own in the store.
const OFFSETS: [u64; 4] = [0, 64, 8192, 20_000];

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct File {
    pub(super) ino: u64,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

/// All files, by name.
pub(super) type Files = BTreeMap<String, File>;

/// What a node asks for; files are named by their inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Create { name: &'static str },
    Unlink { name: &'static str },
    Append { ino: u64, token: u64 },
    Write { ino: u64, offset: u64, token: u64 },
    Truncate { ino: u64, size: u64 },
    SetMode { ino: u64, mode: u32 },
    Punch { ino: u64 },
    Sync { ino: u64 },
}

impl Op {
    pub(super) fn any(choices: &mut Choices, model: &Model, token: u64) -> Self {
        let name = NAMES[choices.below(NAMES.len())];
        let Some(File { ino, .. }) = model.files.get(name).cloned() else { return Self::Create { name } };
        match choices.below(16) {
            0 => Self::Create { name },
            1 => Self::Unlink { name },
            2..5 => Self::Append { ino, token },
            5..10 => Self::Write { ino, offset: *choices.of(&OFFSETS), token },
            10 => Self::Truncate { ino, size: *choices.of(&[0, 4, 100, 9000]) },
            11 | 12 => Self::SetMode { ino, mode: *choices.of(&[0o600, 0o640, 0o644]) },
            13 => Self::Punch { ino },
            _ => Self::Sync { ino },
        }
    }

    /// The file that it changes, if it exists before.
    fn ino(&self) -> Option<u64> {
        match self {
            Self::Create { .. } | Self::Unlink { .. } => None,
            Self::Append { ino, .. }
            | Self::Write { ino, .. }
            | Self::Truncate { ino, .. }
            | Self::SetMode { ino, .. }
            | Self::Punch { ino }
            | Self::Sync { ino } => Some(*ino),
        }
    }

    /// Whether a process that dies leaves all of it or nothing, and its record with it. An append leaves no record in its
    /// slot: it is found in the file.
    fn is_atomic(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Unlink { .. } | Self::Write { .. } | Self::SetMode { .. } => true,
            Self::Append { .. } | Self::Truncate { .. } | Self::Punch { .. } | Self::Sync { .. } => false,
        }
    }

    fn is_of(&self, name: &str, files: &Files) -> bool {
        match self {
            Self::Create { name: own } | Self::Unlink { name: own } => *own == name,
            other => files.get(name).is_some_and(|file| other.ino() == Some(file.ino)),
        }
    }

    /// The operation and the bytes with it.
    pub(super) fn sent(&self) -> (FileOp<'static>, Vec<u8>) {
        let bytes = |token: u64| token.to_be_bytes().to_vec();
        match *self {
            Self::Create { name } => {
                (NameOp::Create { parent: ROOT_INO, name: name.into(), owner: by_root(0o644) }.into(), vec![])
            }
            Self::Unlink { name } => (NameOp::Unlink { parent: ROOT_INO, name: name.into() }.into(), vec![]),
            Self::Append { ino, token } => (ContentOp::Append { ino }.into(), bytes(token)),
            Self::Write { ino, offset, token } => {
                (ContentOp::Write { ino, offset, kill_privileges: false }.into(), bytes(token))
            }
            Self::Truncate { ino, size } => {
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                (AttributeOp::SetAttr { ino, set }.into(), vec![])
            }
            Self::SetMode { ino, mode } => {
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                (AttributeOp::SetAttr { ino, set }.into(), vec![])
            }
            Self::Punch { ino } => {
                let how = objstore_files::Allocate::PunchHole;
                (ContentOp::Allocate { ino, how, offset: 0, len: 64 }.into(), vec![])
            }
            Self::Sync { ino } => (ContentOp::Sync { ino, data_only: false }.into(), vec![]),
        }
    }
}

/// The files as they have to be.
#[derive(Default)]
pub(super) struct Model {
    files: Files,
    /// Names that hold what was synced, and were not touched since.
    synced: BTreeSet<String>,
    /// Calls without an answer when the store died.
    unanswered: Vec<Op>,
    /// Those of them whose effect was found afterwards.
    executed: Vec<Op>,
    /// Those of them without any effect.
    missing: Vec<Op>,
    /// Tokens of appends that were sent again after a power cut: their offsets are noted in a file that is not synced.
    doubled: BTreeSet<u64>,
    is_killed: bool,
}

/// What an operation leads to.
pub(super) struct Expected {
    files: Files,
    op: Op,
    fails: bool,
}

impl Model {
    /// The files after an operation; the inode of a file that it makes is learned from the answer.
    pub(super) fn after(&self, op: &Op) -> Expected {
        let mut files = self.files.clone();
        let mut fails = false;
        match op {
            Op::Create { name } if files.contains_key(*name) => fails = true,
            Op::Create { name } => drop(files.insert((*name).to_owned(), File { mode: 0o644, ..File::default() })),
            Op::Unlink { name } => fails = files.remove(*name).is_none(),
            // If it was unlinked meanwhile, nobody sees what becomes of it.
            other => {
                let file = files.values_mut().find(|file| Some(file.ino) == other.ino());
                file.into_iter().for_each(|file| change(file, other));
            }
        }
        Expected { files, op: op.clone(), fails }
    }

    /// An operation was answered.
    pub(super) fn answered(&mut self, expected: Expected, answer: &Result<Reply>) {
        let Expected { mut files, op, fails } = expected;
        let of_nobody = op.ino().is_some_and(|ino| !self.files.values().any(|file| file.ino == ino));
        match (answer, &op) {
            (Ok(Reply::Attr(attr)), Op::Create { name }) if !fails => {
                files.get_mut(*name).expect("it was made").ino = attr.ino;
            }
            (Err(Error::Posix(Posix::Exists)), Op::Create { .. }) if fails => {}
            (Err(Error::Posix(Posix::NotFound)), Op::Unlink { .. }) if fails => {}
            (Err(Error::Posix(Posix::Stale | Posix::NotFound)), _) if of_nobody => {}
            (Ok(_), _) if !fails => {}
            (answer, op) => panic!("{op:?} is answered by {answer:?}"),
        }
        match &op {
            Op::Sync { ino } => {
                self.synced.extend(files.iter().filter(|(_, file)| file.ino == *ino).map(|(name, _)| name.clone()));
            }
            op => self.synced.retain(|name| !op.is_of(name, &files) && !op.is_of(name, &self.files)),
        }
        self.files = files;
    }

    pub(super) fn check(&self, found: &Files, when: &str) {
        assert_eq!(describe(found), describe(&self.files), "{when}");
    }

    /// The store died, without an answer to these.
    pub(super) fn crashed(&mut self, is_killed: bool, unanswered: impl Iterator<Item = Op>) {
        self.is_killed = is_killed;
        self.unanswered = unanswered.collect();
        (self.executed, self.missing) = (Vec::new(), Vec::new());
    }

    /// What the next process finds: what was answered, and of what was not, all or nothing.
    pub(super) fn reopened(&mut self, found: &Files) {
        for (name, file) in found {
            let twice: Vec<u64> = tokens_twice(file).filter(|token| !self.doubled.contains(token)).collect();
            assert!(twice.is_empty() || !self.is_killed, "tokens {twice:?} were appended to {name} twice");
        }
        for name in NAMES {
            let touched: Vec<_> =
                self.unanswered.iter().filter(|op| op.is_of(name, &self.files) || op.is_of(name, found)).collect();
            let (is, was) = (found.get(name), self.files.get(name));
            if touched.is_empty() && (self.is_killed || self.synced.contains(name)) {
                assert_eq!(is.map(of), was.map(of), "{name} is not what was answered");
            }
            if let ([op], true) = (&touched[..], self.is_killed) {
                let after = self.after(op);
                let (after, op) = (after.files.get(name).cloned(), (*op).clone());
                let same = |one: Option<&File>, other: Option<&File>| one.map(content) == other.map(content);
                if same(after.as_ref(), was) {
                    // Nothing would show whether it was executed.
                } else if same(is, after.as_ref()) {
                    self.executed.push(op);
                } else if same(is, was) {
                    self.missing.push(op);
                }
            }
        }
        self.synced.retain(|name| found.get(name).map(of) == self.files.get(name).map(of));
        self.files = found.clone();
    }

    /// An operation that the store before did not answer is answered now: from the record, or it was executed now. These
    /// are the files then.
    pub(super) fn answered_again(&mut self, op: &Op, was_recorded: bool, answer: &Result<Reply>, found: &Files) {
        let (executed, missing) = (self.executed.contains(op), self.missing.contains(op));
        if was_recorded {
            assert!(!missing, "{op:?} is answered as executed, and has had no effect");
            return self.check(found, "after an answer from the record");
        }
        assert!(!executed || !op.is_atomic(), "{op:?} had been executed, and is executed again");
        if executed && matches!(op, Op::Append { .. }) {
            return self.check(found, "after an append that is found in the file");
        }
        if missing {
            self.answered(self.after(op), answer);
            return self.check(found, "after a call that was lost");
        }
        // A part of it may have been there.
        let others = |files: &Files| -> Files {
            let rest = files.iter().filter(|(name, _)| !op.is_of(name, found) && !op.is_of(name, &self.files));
            rest.map(|(name, file)| (name.clone(), file.clone())).collect()
        };
        assert_eq!(describe(&others(found)), describe(&others(&self.files)), "after {op:?} of a process before");
        self.synced.retain(|name| found.get(name) == self.files.get(name));
        if !self.is_killed {
            self.doubled.extend(found.values().flat_map(tokens_twice));
        }
        self.files = found.clone();
    }
}

fn change(file: &mut File, op: &Op) {
    let put = |bytes: &mut Vec<u8>, at: usize, new: &[u8]| {
        bytes.resize(bytes.len().max(at + new.len()), 0);
        bytes[at..at + new.len()].copy_from_slice(new);
    };
    match *op {
        Op::Append { token, .. } => file.bytes.extend(token.to_be_bytes()),
        Op::Write { offset, token, .. } => put(&mut file.bytes, offset as usize, &token.to_be_bytes()),
        Op::Truncate { size, .. } => file.bytes.resize(size as usize, 0),
        Op::SetMode { mode, .. } => file.mode = mode,
        Op::Punch { .. } => {
            let end = file.bytes.len().min(64);
            file.bytes[..end].fill(0);
        }
        Op::Create { .. } | Op::Unlink { .. } | Op::Sync { .. } => {}
    }
}

fn of(file: &File) -> (u64, u32, &[u8]) {
    (file.ino, file.mode, &file.bytes)
}

/// What an operation decides: the inode of a new file is the store's choice.
fn content(file: &File) -> (u32, &[u8]) {
    (file.mode, &file.bytes)
}

/// Files in a form that can be read in a report.
fn describe(files: &Files) -> Vec<String> {
    let words = |file: &File| {
        let words = file.bytes.chunks(8).enumerate().filter(|(_, word)| word.iter().any(|byte| *byte != 0));
        words
            .map(|(at, word)| format!("{at}:{}", hex_simd::encode_to_string(word, hex_simd::AsciiCase::Lower)))
            .collect()
    };
    let shown = |(name, file): (&String, &File)| {
        let words: Vec<String> = words(file);
        format!("{name} {} {:o} {} bytes: {}", file.ino, file.mode, file.bytes.len(), words.join(" "))
    };
    files.iter().map(shown).collect()
}

/// Tokens that a file has at two places, each at a multiple of its own length.
fn tokens_twice(file: &File) -> impl Iterator<Item = u64> {
    let mut seen = BTreeSet::new();
    let words = file.bytes.chunks_exact(8).filter_map(|word| word.first_chunk().map(|word| u64::from_be_bytes(*word)));
    let twice: Vec<u64> = words.filter(|word| *word != 0 && *word < 1 << 32 && !seen.insert(*word)).collect();
    twice.into_iter()
}

/// The files that a mount finds.
pub(super) fn read(volume: &Volume) -> Files {
    let entries = volume.read_dir(volume.root()).unwrap();
    let file = |ino: u64| {
        let attr = volume.attr(ino).unwrap();
        let bytes = volume.read(ino, 0, attr.size as usize).unwrap().to_vec();
        File { ino, mode: attr.mode & 0o7777, bytes }
    };
    entries.into_iter().map(|entry| (entry.name, file(entry.ino))).collect()
}
