//! The changes that wait to be handed in, and the requests whose answers the kernel lacks.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use node_codec::decode_call;
use node_codec::session::{Queued, read};
use objstore_files::{Attr, OpenOp};

use super::journal::Left;
use super::*;

/// The most changes that wait.
const CHANGES_MAX: usize = 2048;
/// The most bytes that they write.
const BYTES_MAX: usize = 8 << 20;
/// How many errors are kept for files whose programs do not ask.
const FAILED_MAX: usize = 1024;
/// How long a next process keeps the answers of the one before: the kernel repeats its requests when it starts.
const REPEATED_SECONDS: u64 = 60;

/// A change that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) number: u64,
    /// When it was answered.
    pub(super) since: Moment,
    /// The time that was answered, in nanoseconds since 1970.
    pub(crate) at: i64,
    pub(crate) context: Context,
    pub(crate) op: Op<'static>,
    pub(crate) data: Bytes,
    /// The inode that it makes.
    pub(crate) made: Option<Attr>,
}

impl Change {
    /// The file that it changes, or the directory that gets a name, and the inode that it makes.
    pub(super) fn inos(&self) -> impl Iterator<Item = u64> {
        let changed = match self.op {
            Op::Content(ContentOp::Write { ino, .. })
            | Op::Attributes(AttributeOp::SetAttr { ino, .. })
            | Op::Opens(OpenOp::CloseWriter { ino, .. })
            | Op::Names(NameOp::Create { parent: ino, .. } | NameOp::Make { parent: ino, .. }) => Some(ino),
            _ => None,
        };
        changed.into_iter().chain(self.made.map(|made| made.ino))
    }
}

/// The answer to a request of an earlier process.
pub(super) struct Replied {
    operation: &'static str,
    reply: Bytes,
}

#[derive(Default)]
pub(super) struct State {
    pub stage: Stage,
    pub journal: Option<Journal>,
    /// Changes that are not known to be made, in their order.
    pub waiting: VecDeque<Change>,
    pub bytes: usize,
    /// Up to which number calls wait for changes.
    pub needed: u64,
    /// The number of the last change.
    last: u64,
    /// The number of the last change that failed.
    pub passed: u64,
    /// The last change of each file that waits.
    pub inos: HashMap<u64, u64>,
    /// Requests whose answers are on their way to the kernel.
    pub unanswered: HashSet<u64>,
    /// Answers of an earlier process.
    pub replies: HashMap<u64, Replied>,
    /// When this process took the answers of an earlier one.
    since: Option<Moment>,
    /// Files of which a change failed.
    pub failed: HashMap<u64, Error>,
}

impl State {
    /// What an earlier process left.
    pub(super) fn found(&mut self, left: Left) {
        self.last = left.made;
        for entry in left.entries {
            let Ok(queued) = read::<Queued>(entry.head) else { continue };
            let Ok((context, op)) = decode_call(&queued.call) else { continue };
            if let Some(request) = context.request {
                let replied = Replied { operation: op.name(), reply: entry.reply.clone() };
                self.replies.insert(request.unique, replied);
            }
            self.last = self.last.max(queued.number);
            if queued.number > left.made {
                let (number, at, since) = (queued.number, queued.at, Moment::default());
                let made = made(queued.ino, &entry.reply);
                self.push(Change { number, since, at, context, op, data: entry.data, made });
            }
        }
    }

    /// The number of the last change that was answered.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number up to which all are made, or have failed.
    pub(super) fn made(&self) -> u64 {
        self.waiting.front().map_or(self.last, |change| change.number - 1)
    }

    /// The store has made changes up to this number before.
    pub(super) fn count_on_behind(&mut self, made: u64) {
        if self.waiting.is_empty() {
            self.last = self.last.max(made);
        }
    }

    /// What an earlier process answered to a request that the kernel repeats.
    pub(super) fn answered_before(&self, request: RequestId, op: &Op<'_>) -> Option<Answer> {
        let replied = self.replies.get(&request.unique).filter(|replied| replied.operation == op.name())?;
        decode_reply(&replied.reply, Bytes::new()).ok()?.ok()
    }

    /// Whether one more change may be answered, which writes so many bytes.
    pub(super) fn has_room(&mut self, bytes: u64) -> bool {
        let has_room = self.waiting.len() < CHANGES_MAX && self.bytes < BYTES_MAX;
        has_room && self.unanswered.len() < CHANGES_MAX && self.stage.take(bytes)
    }

    /// Puts a change into the journal; whether it is there.
    pub(super) fn record(&mut self, entry: &Entry) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        match journal.add(entry) {
            Ok(has_room) => has_room,
            Err(error) => {
                tracing::warn!(%error, "the journal cannot be written: each change of a file is a trip to the store");
                // What is in it stays for the next process.
                self.stage.forbid();
                false
            }
        }
    }

    /// A change was answered.
    pub(super) fn push(&mut self, change: Change) {
        self.last = change.number;
        self.bytes += change.data.len();
        self.inos.extend(change.inos().map(|ino| (ino, change.number)));
        self.waiting.push_back(change);
    }

    /// The first change is made, or has failed.
    pub(super) fn pop(&mut self) -> Option<Change> {
        let change = self.waiting.pop_front()?;
        self.bytes -= change.data.len();
        for ino in change.inos() {
            if self.inos.get(&ino) == Some(&change.number) {
                self.inos.remove(&ino);
            }
        }
        Some(change)
    }

    /// A change of a file failed.
    pub(super) fn fail(&mut self, ino: u64, error: Error) {
        if self.failed.len() < FAILED_MAX || self.failed.contains_key(&ino) {
            self.failed.entry(ino).or_insert(error);
        }
    }

    /// Marks what is made in the journal, and begins it again if nothing in it is needed.
    pub(super) fn mark_made(&mut self, now: Moment) {
        let made = self.made();
        if let Some(journal) = &self.journal
            && let Err(error) = journal.made(made)
        {
            tracing::error!(%error, "the journal cannot be written: a next process hands changes in again");
            self.stage.forbid();
        }
        self.begin_journal(now);
    }

    /// Begins a long journal again, if everything in it is made and answered.
    pub(super) fn begin_journal(&mut self, now: Moment) {
        if !self.journal.as_ref().is_some_and(Journal::is_long) {
            return;
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since).as_secs() >= REPEATED_SECONDS {
            self.replies.clear();
        }
        if !self.waiting.is_empty() || !self.unanswered.is_empty() || !self.replies.is_empty() {
            return;
        }
        let made = self.last;
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.begin(made)
        {
            tracing::error!(%error, "the journal cannot be begun again: each change of a file is a trip to the store");
            self.stage.forbid();
        }
    }
}

/// The inode that a change makes, from what its program was answered.
fn made(ino: u64, reply: &Bytes) -> Option<Attr> {
    let answer = decode_reply(reply, Bytes::new()).ok()?.ok()?;
    Attr::try_from(answer.reply).ok().filter(|made| ino != 0 && made.ino == ino)
}
