//! An open session of a mount on another machine, and its calls.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use node_session::slot::{Outcome, Outcomes};
use node_session::{Boot, CallId, Incarnation, SessionId};
use objstore_files::{About, Answer, Changes, Class, ContentOp, Context, FileService, Op, Reply, RequestId, Traits};
use parking_lot::Mutex;

use super::super::replay::{Call, InSlot, SlotCall, find_request, last_of_slot};
use super::super::session::Volume;
use super::super::types::ROOT_INO;
use super::exclusive::Queue;
use super::{bounds, inside};
use crate::error::{Error, Posix, Result};
use crate::feed::Behind;
use crate::meta::Read;
use crate::name::BucketName;
use crate::record::key::{self, tag};
use crate::scan::all;
use crate::state::Calls;
use crate::store::{ServedSession, Store};

/// A session of a mount on another machine. Cheap to clone; all methods may block unless they are async. Dropping it
/// ends nothing: [`Store::end_remote`] and [`Store::unpublish`] do.
#[derive(Clone)]
pub struct RemoteSession(pub(super) Arc<Remote>);

/// The state of a session, which the store keeps while the session is recorded.
pub(super) struct Remote {
    pub id: SessionId,
    pub node: String,
    /// The epoch of the publication by which it was opened; zero for an access key.
    pub epoch: u64,
    /// The account whose key opened it, if one did.
    pub account: Option<String>,
    pub incarnation: Mutex<Incarnation>,
    pub volume: Volume,
    pub calls: Calls,
    /// The names of the last appends, by slot.
    pub appends: Mutex<HashMap<u32, u64>>,
    /// Its exclusive lease of the volume.
    pub queue: Mutex<Queue>,
}

/// A session, as operators are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAbout {
    /// The id that the node chose.
    pub id: SessionId,
    /// The name of the node.
    pub node: String,
    /// The process of the node that uses it.
    pub incarnation: Incarnation,
    /// The account whose key opened it, if one did.
    pub account: Option<String>,
    /// Whether it was opened by the ticket of a publication.
    pub by_ticket: bool,
    /// The epoch of that publication; zero without a ticket.
    pub epoch: u64,
    /// What calls need to know.
    pub about: About,
    /// The bucket or snapshot that it shows.
    pub bucket: BucketName,
    /// How many handles its programs have open for writing.
    pub open_for_writing: u64,
    /// How many files and directories its kernel knows.
    pub inodes: u64,
}

/// What has to be acknowledged by others before a change is answered.
#[must_use = "a change that is answered before its barrier is passed may be missing from another machine's cache"]
pub struct Barrier(Behind);

impl Barrier {
    /// Waits until all other mounts have applied every change before the barrier, or have ended.
    pub async fn passed(self) {
        self.0.acknowledged().await;
    }

    /// As [`Barrier::passed`], on a thread that may wait.
    pub fn wait(self) {
        self.0.wait();
    }
}

impl RemoteSession {
    /// What operators are shown of the session.
    pub fn shown(&self) -> RemoteAbout {
        let Remote { id, node, epoch, account, incarnation, volume, .. } = &*self.0;
        let incarnation = *incarnation.lock();
        let (node, account) = (node.clone(), account.clone());
        RemoteAbout {
            id: *id,
            node,
            incarnation,
            account,
            by_ticket: *epoch != 0,
            epoch: *epoch,
            about: volume.about(),
            bucket: volume.0.name.clone(),
            open_for_writing: volume.0.writers.lock().values().sum(),
            inodes: volume.0.inode_refs.lock().len() as u64,
        }
    }

    /// Executes an operation. A call of class [`Class::Once`] or [`Class::Set`] is named by a slot: its outcome is recorded
    /// with the change, and then [`Answer::recorded`] is set. Ask [`Outcomes`] first: a call that was recorded is refused here. The
    /// answer may be sent after [`RemoteSession::barrier`] is passed.
    ///
    /// # Errors
    /// Those of the operation. ESTALE once the session ended. [`Error::TooMany`] beyond the bounds of a session.
    pub fn execute(&self, context: &Context, slot: Option<SlotCall>, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        let Remote { volume, calls, .. } = &*self.0;
        let _under_way = calls.begin().ok_or(Posix::Stale)?;
        let session = &*volume.0;
        if session.core.feeds.is_lost(session.mount) {
            return Err(Posix::Stale.into());
        }
        volume.check_session(context)?;
        bounds::check(session, &op)?;
        inside::check(volume, &op)?;
        let op = inside::searched(volume, op);
        if bounds::is_void(session, &op) {
            return Ok(Answer { reply: Reply::Done(()), recorded: false });
        }
        match slot {
            None if op.class() == Class::Once => {
                Err(Error::invalid("call", op.name(), "a call that must be done once is named by a slot"))
            }
            Some(slot) if matches!(op.class(), Class::Once | Class::Set) => {
                slot.check()?;
                let named = InSlot { slot, request: context.request, operation: op.name(), given: None };
                if let Some(reply) = self.done_before(named, &op, data)? {
                    volume.record_outcome(named, &reply)?;
                    return Ok(Answer { reply, recorded: true });
                }
                self.0.follow_append(named, &op);
                let (writes, has_parts) = (is_write(&op), has_parts(&op));
                let call = Call::in_slot(named, writes);
                let reply = volume.for_call(&call).execute(op, data)?;
                if has_parts {
                    volume.record_outcome(named, &reply)?;
                }
                Ok(Answer { reply, recorded: has_parts || call.is_recorded() })
            }
            _ => Ok(Answer { reply: volume.execute(op, data)?, recorded: false }),
        }
    }

    /// Whether the session has ended, or lost changes that its node had to be told: no call is executed any more.
    pub fn is_over(&self) -> bool {
        let session = &*self.0.volume.0;
        self.0.calls.is_closed() || session.core.feeds.is_lost(session.mount)
    }

    /// The reply to a request that an earlier process of the node sent from another slot, if it was executed: the kernel
    /// sends it again to the next process.
    fn done_before(&self, call: InSlot, op: &Op<'_>, data: &[u8]) -> Result<Option<Reply>> {
        let session = &*self.0.volume.0;
        let Some(own) = session.id.filter(|_| call.request.is_some_and(|request| request.resent)) else {
            return Ok(None);
        };
        let found = match session.find_write(call, op, data) {
            Some(written) => Some(written),
            None => find_request(&*session.core.meta.snapshot(), own, call)?,
        };
        let Some(outcome) = found else { return Ok(None) };
        let reply = (call.slot.decode)(&outcome.reply);
        reply.map(Some).ok_or_else(|| Error::corrupt("the outcome of a slot", "a reply", "other bytes"))
    }

    /// What other mounts have yet to apply of everything that was changed so far.
    pub fn barrier(&self) -> Barrier {
        let session = &*self.0.volume.0;
        Barrier(session.core.feeds.behind_of(session.bucket, session.mount))
    }

    /// The last recorded call of each slot: what a node asks that resumes the session.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn recorded(&self) -> Result<Vec<(CallId, Outcome)>> {
        let session = &*self.0.volume.0;
        let Some(own) = session.id else { return Ok(Vec::new()) };
        let snapshot = session.core.meta.snapshot();
        let mut recorded = Vec::new();
        for pair in all(&*snapshot, &key::by_id(tag::REPLAY, own.get()))? {
            let slot = key::u64_at(&pair.key, key::INODE_AT).and_then(|slot| u32::try_from(slot).ok());
            let Some(slot) = slot else { continue };
            if let Some(outcome) = last_of_slot(&*snapshot, own, slot)? {
                recorded.push((slot, outcome));
            }
        }
        let mut last = BTreeMap::new();
        for (slot, outcome) in recorded.into_iter().chain(session.last_writes()) {
            let known: &mut Option<Outcome> = last.entry(slot).or_default();
            *known = later(known.take(), Some(outcome));
        }
        let named = |(slot, outcome): (u32, Option<Outcome>)| {
            outcome.map(|outcome| (CallId { slot, sequence: outcome.sequence }, outcome))
        };
        Ok(last.into_iter().filter_map(named).collect())
    }
}

impl Remote {
    /// A slot goes on: the kernel has the answer to the append that was called from it before.
    fn follow_append(&self, call: InSlot, op: &Op<'_>) {
        let Some(appends) = &self.volume.0.appends else { return };
        let mut last = self.appends.lock();
        if let Some(before) = last.remove(&call.slot.call.slot).filter(|before| *before != call.append().unique) {
            appends.answered(before);
        }
        if matches!(op, Op::Content(ContentOp::Append { .. })) {
            last.insert(call.slot.call.slot, call.append().unique);
        }
    }
}

/// The outcome of the later of two calls of a slot.
fn later(one: Option<Outcome>, other: Option<Outcome>) -> Option<Outcome> {
    one.into_iter().chain(other).max_by_key(|outcome| outcome.sequence)
}

/// Whether an operation is one write of the call's bytes.
fn is_write(op: &Op<'_>) -> bool {
    matches!(op, Op::Content(ContentOp::Write { .. } | ContentOp::WriteBack { .. }))
}

/// Whether an operation of class `Set` changes the store in several steps, of which none is the whole.
fn has_parts(op: &Op<'_>) -> bool {
    matches!(op, Op::Content(ContentOp::Allocate { .. } | ContentOp::CopyRange { .. }))
}

/// What a server gives to calls that need no slot. Changes are kept by the server until the node has applied them; after
/// a restart of the store the node drops every cache first, since what it missed is not recorded.
impl FileService for RemoteSession {
    fn about(&self) -> About {
        self.0.volume.about()
    }

    fn call(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        self.execute(context, None, op, data)
    }

    /// An outcome stays until the slot's next one, an append only until now.
    fn answered(&self, request: RequestId) {
        if let Some(appends) = &self.0.volume.0.appends {
            appends.answered(request.unique);
        }
    }

    fn changes(&self) -> Box<dyn Changes> {
        let changes = self.0.volume.changes();
        match self.0.volume.root() {
            ROOT_INO => changes,
            _ => Box::new(inside::Inside::new(&self.0.volume, changes)),
        }
    }

    fn keeps_locks(&self) -> bool {
        true
    }

    fn traits(&self, inos: &[u64]) -> Vec<Traits> {
        self.0.volume.traits_of(inos)
    }

    /// Answers no longer wait for the node: its lease is over.
    fn close_changes(&self) {
        self.0.volume.close_feed();
    }

    /// Nothing: [`Store::end_remote`] ends the session, in a transaction.
    fn end(&self) {}
}

impl Outcomes for RemoteSession {
    fn last(&self, session: SessionId, slot: u32) -> Option<Outcome> {
        let own = self.0.volume.0.id.filter(|_| session == self.0.id)?;
        let found = last_of_slot(&*self.0.volume.0.core.meta.snapshot(), own, slot);
        // The transaction of the call reads the record again, and refuses the call then.
        let recorded = found.unwrap_or_else(|error| {
            tracing::error!(%error, slot, "the outcome of a call cannot be read");
            None
        });
        later(recorded, self.0.volume.0.last_write(slot))
    }
}

impl ServedSession for Remote {
    fn bucket(&self) -> u64 {
        self.volume.0.bucket
    }

    fn is_recorded(&self, read: &dyn Read) -> Result<bool> {
        let Some(own) = self.volume.0.id else { return Ok(false) };
        Ok(read.get(&key::by_id(tag::SESSION, own.get()))?.is_some())
    }

    fn fence(&self) {
        self.calls.close();
        self.volume.0.core.leases.ended(self.volume.0.bucket, self.id);
        self.volume.end();
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Store {
    /// The number of this opening of the store; it rises with each.
    pub fn boot(&self) -> Boot {
        Boot(u64::from(self.core.life))
    }

    /// The sessions of other machines, with those whose node did not come back yet.
    pub fn remote_sessions(&self) -> Vec<RemoteAbout> {
        self.remote.all().into_iter().filter_map(found).map(|session| session.shown()).collect()
    }

    /// The open session with this id, for a connection that its node was admitted to.
    pub fn remote_session(&self, id: SessionId) -> Option<RemoteSession> {
        self.remote.find(id).and_then(found)
    }
}

fn found(session: Arc<dyn ServedSession>) -> Option<RemoteSession> {
    session.into_any().downcast().ok().map(RemoteSession)
}

impl fmt::Debug for RemoteSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSession").field("id", &self.0.id).field("node", &self.0.node).finish_non_exhaustive()
    }
}
