//! Changes that this node answers by itself, under an exclusive lease of the volume, and hands in to the store behind.
//!
//! - The lease is asked for when a program changes files one after the other, and given back after a rest. The store takes it
//!   back before any other client looks at the volume; until the recall is acknowledged, everything answered is handed in. So
//!   no other client can tell that an answer came from here.
//! - New files, directories and symbolic links in directories that are known, writes of up to 128 KiB to plain files, their
//!   attributes without the size, and closes of writers are answered here. The numbers of new inodes were set aside with the lease.
//!   Everything else goes to the store as ever; a call that may meet a change which the store lacks waits for it first
//!   ([`Queue::needed`]). fsync(2) and syncfs(2) wait for all.
//! - A change is answered when it is in the journal (`journal`): the death of this process loses none.
//! - Changes are handed in one call after the other, in their order (`handing`, and the task `crate::hand_in`). One that fails there is an error of the next
//!   fsync(2) or close(2) of its file, and the kernel drops what it has cached of the file.
//! - Bounds: changes, their bytes, the length of the journal, and the space that the store had free at the grant. Beyond them
//!   calls go to the store.
//!
//! A crash leaves the journal: the next process hands in what is not marked as made before it serves anything, and answers
//! requests that the kernel repeats from it.

mod concerns;
mod handing;
mod journal;
mod leased;
mod state;

use std::cell::Cell;
use std::path::Path;

use bytes::Bytes;
use node_codec::session::{Queued, write};
use node_codec::{decode_reply, encode_call, encode_reply};
use node_session::Moment;
use objstore_base::error::{Error, Result};
use objstore_files::{
    Answer, AttributeOp, ContentOp, Context, Make, NameOp, Op, OpenOp, QUEUED_BYTES_MAX, Reply, RequestId, SetAttr,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::cache::Cache;
use concerns::{Concerns, concerns};
pub(crate) use handing::{Next, Outcome};
use journal::{Entry, Journal};
use leased::Stage;
pub(crate) use state::Change;
use state::State;

/// The queue of a session.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Up to which number changes are made, or have failed.
    made: watch::Sender<u64>,
    /// Something waits, or the lease is wanted.
    added: Notify,
}

impl Default for Queue {
    fn default() -> Self {
        Self { state: Mutex::default(), made: watch::Sender::new(0), added: Notify::new() }
    }
}

impl Queue {
    /// Opens the journal, without which nothing is answered here. What an earlier process left waits to be handed in.
    pub(crate) fn open(&self, path: &Path) {
        let opened = Journal::open(path);
        match opened {
            Ok((journal, left)) => {
                let state = &mut *self.state.lock();
                state.found(left);
                self.made.send_replace(state.made());
                state.journal = Some(journal);
                self.added.notify_one();
            }
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "there is no journal: each change of a file is a trip to the store");
            }
        }
    }

    /// The store leases volumes, or it does not.
    pub(crate) fn allow(&self, leases: bool) {
        let state = &mut *self.state.lock();
        let has_journal = state.journal.is_some();
        state.stage.allow(leases && has_journal);
    }

    /// Answers a change here, if that is possible now. `now` is `None` while the session's lease is not fresh.
    pub(crate) fn answer(
        &self,
        (cache, now): (&Cache, Option<Moment>),
        context: &Context,
        op: &Op<'_>,
        data: &[u8],
    ) -> Option<Answer> {
        let request = context.request?;
        let op = queueable(op, data)?;
        let state = &mut *self.state.lock();
        if request.resent {
            return state.answered_before(request, &op);
        }
        let now = now?;
        if !state.stage.is_held() {
            if state.stage.wanted(now) {
                self.added.notify_one();
            }
            return None;
        }
        let answer = keep(state, cache, (context, request, now), &op, data)?;
        self.added.notify_one();
        Some(answer)
    }

    /// Up to which number changes have to be made before this call is sent; zero for none.
    pub(crate) fn needed(&self, op: &Op<'_>) -> u64 {
        let state = self.state.lock();
        match concerns(op) {
            Concerns::Nothing => 0,
            Concerns::Inodes(inos) => inos.iter().filter_map(|ino| state.inos.get(ino)).copied().max().unwrap_or(0),
            Concerns::All => state.last(),
        }
    }

    /// Completes when changes up to this number are made, or have failed.
    pub(crate) async fn made(&self, number: u64) {
        if self.is_made(number) {
            return;
        }
        {
            let state = &mut *self.state.lock();
            state.needed = state.needed.max(number);
        }
        self.added.notify_one();
        // The sender lives as long as this.
        let _ = self.made.subscribe().wait_for(|made| *made >= number).await;
    }

    /// Whether changes up to this number are made.
    pub(crate) fn is_made(&self, number: u64) -> bool {
        *self.made.borrow() >= number
    }

    /// The number of the last change that was answered here.
    pub(crate) fn last(&self) -> u64 {
        self.state.lock().last()
    }

    /// The store takes back the lease with this number, or an earlier one: nothing is answered here from now on. What was
    /// answered has to be made before that is acknowledged.
    pub(crate) fn recall(&self, grant: u64) {
        self.state.lock().stage.recall(grant);
    }

    /// A call that the store makes itself writes about so many bytes: they are not free any more.
    pub(crate) fn spent(&self, op: &Op<'_>, data: &[u8]) {
        let bytes = match op {
            Op::Content(ContentOp::Allocate { len, .. } | ContentOp::CopyRange { len, .. }) => *len,
            Op::Attributes(AttributeOp::SetAttr { set: SetAttr { size: Some(size), .. }, .. }) => *size,
            _ => data.len() as u64,
        };
        if bytes > 0 {
            self.state.lock().stage.spent(bytes);
        }
    }

    /// The changes of others are not followed any more, or the session is lost: nothing is answered here from now on. What was
    /// is handed in.
    pub(crate) fn close(&self) {
        self.state.lock().stage.forbid();
    }

    /// The kernel has the answer to a request; whether it was answered here.
    pub(crate) fn answered(&self, request: RequestId, now: Moment) -> bool {
        let state = &mut *self.state.lock();
        let is_known = state.unanswered.remove(&request.unique) | state.replies.remove(&request.unique).is_some();
        if is_known {
            state.begin_journal(now);
        }
        is_known
    }

    /// The error of a change of a file that was answered here, once.
    pub(crate) fn failure(&self, ino: u64) -> Result<()> {
        self.state.lock().failed.remove(&ino).map_or(Ok(()), Err)
    }

    /// Whether a change failed, of any file whose programs do not know it yet.
    pub(crate) fn any_failure(&self) -> Result<()> {
        self.state.lock().failed.values().next().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The session has ended, and the journal with it.
    pub(crate) fn end(&self) {
        let state = &mut *self.state.lock();
        state.stage.forbid();
        if let Some(journal) = state.journal.take() {
            journal.remove();
        }
    }
}

/// The change as it is kept, if it is one of those that may be answered here.
fn queueable(op: &Op<'_>, data: &[u8]) -> Option<Op<'static>> {
    Some(match op {
        Op::Content(write @ ContentOp::Write { .. }) if data.len() <= QUEUED_BYTES_MAX => Op::Content(*write),
        // A plain file has nothing that this clears.
        Op::Attributes(AttributeOp::SetAttr { ino, set }) => {
            let set = SetAttr { kill_privileges: false, outsider: false, ..*set };
            AttributeOp::SetAttr { ino: *ino, set }.into()
        }
        Op::Opens(OpenOp::CloseWriter { ino, inherited: false }) => {
            OpenOp::CloseWriter { ino: *ino, inherited: false }.into()
        }
        Op::Names(NameOp::Create { parent, name, owner }) => {
            NameOp::Create { parent: *parent, name: name.clone().into_owned().into(), owner: *owner }.into()
        }
        Op::Names(NameOp::Make { parent, name, what, owner }) if !matches!(what, Make::Special(..)) => {
            let name = name.clone().into_owned().into();
            NameOp::Make { parent: *parent, name, what: what.clone(), owner: *owner }.into()
        }
        _ => return None,
    })
}

/// Keeps a change in the journal, and what it leaves in the cache.
fn keep(
    state: &mut State,
    cache: &Cache,
    (context, request, now): (&Context, RequestId, Moment),
    op: &Op<'static>,
    data: &[u8],
) -> Option<Answer> {
    let (writes, makes) = (matches!(op, Op::Content(_)), matches!(op, Op::Names(_)));
    if !state.has_room(if writes { data.len() as u64 } else { 0 }) {
        return None;
    }
    let ino = if makes { state.stage.next_ino()? } else { 0 };
    let number = state.last() + 1;
    let data = Bytes::copy_from_slice(data);
    let estimate = state.stage.time(now)?;
    let time = Cell::new(estimate);
    let at = |last| {
        time.set(estimate.max(last));
        time.get()
    };
    let mut add = |reply: &Reply| {
        let call = encode_call(context, op).into();
        let queued = Queued { number, ino, at: time.get().0, len: u32::try_from(data.len()).unwrap_or(u32::MAX), call };
        let reply = encode_reply(&Ok(Answer { reply: reply.clone(), recorded: true })).0.into();
        state.record(&Entry { head: write(&queued), reply, data: data.clone() })
    };
    let reply = match op {
        Op::Opens(_) => add(&Reply::Done(())).then_some(Reply::Done(()))?,
        Op::Names(_) => Reply::Attr(cache.make(op, ino, at, |made| add(&Reply::Attr(*made)))?),
        _ if writes => cache.defer(op, data.len(), at, |_| add(&Reply::Done(()))).map(|_| Reply::Done(()))?,
        _ => Reply::Attr(cache.defer(op, 0, at, |after| add(&Reply::Attr(*after)))?),
    };
    if makes {
        state.stage.took_ino();
    }
    let made = if let (true, Reply::Attr(made)) = (makes, &reply) { Some(*made) } else { None };
    state.push(Change { number, since: now, at: time.get().0, context: *context, op: op.clone(), data, made });
    state.unanswered.insert(request.unique);
    Some(Answer { reply, recorded: true })
}
