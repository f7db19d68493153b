//! The exclusive lease of a volume by a session of another machine, and the changes that its node has answered before the
//! store makes them (decision 0132).
//!
//! - The lease is granted to the only session of a whole bucket without versioning, and is on disk before it is answered.
//! - Such changes are numbered and made in their order, one after the other. They change nothing that another client has seen
//!   meanwhile. So those whose answer was lost are made again, all of them in order, with the same result: what is recorded in
//!   the transaction of the change is skipped, and the others only set what they set before.
//! - The node has chosen the number of a new inode, from those set aside for it, and the time of each change.
//! - Without the lease nothing is made: after its end, what a node had answered and not handed in is lost.
//!
//! A crash leaves the lease with the session's record, and of the changes those that were made.

use std::ops::Range;

use node_session::{CallId, Digest};
use objstore_files::{
    Answer, AttributeOp, ContentOp, Context, Make, NameOp, Op, OpenOp, QUEUED_BYTES_MAX, Reply, SetAttr,
};

use super::super::replay::{Call, InSlot, QUEUE_SLOT, SlotCall, last_of_slot};
use super::super::session::{Session, Volume};
use super::super::types::ROOT_INO;
use super::bounds;
use super::session::{Remote, RemoteSession};
use crate::clock::Timestamp;
use crate::error::{Error, Posix, Result};
use crate::meta::Durability;
use crate::state::{Leaseholder, Recalled};
use crate::store::{SessionLease, lease_returned, put_lease};
use crate::tree::{Given, Tx};

/// How many inode numbers are set aside with a lease.
const INOS: u64 = 1 << 16;

/// A lease that a session was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLease {
    /// The number of the grant.
    pub grant: u64,
    /// Inode numbers for what the node makes. Another grant to the same session replaces them: ask for it when nothing is
    /// left to be made.
    pub inos: Range<u64>,
    /// The time at the store.
    pub now: Timestamp,
    /// How many more bytes of content fit, by the quota and on the disk.
    pub free_bytes: u64,
    /// The number of the last change that was made: the node counts on behind it.
    pub made: u64,
}

/// What names a change that the node has answered.
#[derive(Clone, Copy, Debug)]
pub struct QueuedCall {
    /// Its number: higher than that of the change before it.
    pub number: u64,
    /// The number of the inode that it makes; zero if it makes none.
    pub ino: u64,
    /// The time that the node has answered.
    pub at: Timestamp,
    /// The bytes of a reply, as they are recorded.
    pub encode: fn(&Reply) -> Vec<u8>,
    /// The reply that these bytes are.
    pub decode: fn(&[u8]) -> Option<Reply>,
}

/// The lease of a session in memory, and how far its changes are made.
#[derive(Default)]
pub(super) struct Queue {
    inos: Range<u64>,
    /// The number of the last change that was made; `None` before the record was read.
    made: Option<u64>,
}

impl Queue {
    /// That of a session whose record is read.
    pub fn recorded(inos: Range<u64>) -> Self {
        Self { inos, made: None }
    }
}

impl RemoteSession {
    /// Leases the volume to this session exclusively, if it is the only user; again if it has the lease.
    ///
    /// # Errors
    /// ESTALE once the session ended; others if the lease cannot be recorded.
    pub fn lease_volume(&self) -> Result<Option<VolumeLease>> {
        let Remote { volume, calls, id, queue, .. } = &*self.0;
        let _under_way = calls.begin().ok_or(Posix::Stale)?;
        let session = &*volume.0;
        if session.read_only || session.root != ROOT_INO || session.check(true).is_err() || volume.keeps_versions()? {
            return Ok(None);
        }
        let Session { core, bucket, mount, name, .. } = session;
        let is_alone = || core.mounted.count(*bucket) == 1 && core.feeds.count(*bucket) == 1;
        let now = core.clock.now();
        let Some(own) = session.id else { return Ok(None) };
        // Held while the numbers are replaced, so that no change is made with others.
        let mut queue = queue.lock();
        let is_new = !core.leases.is_held_by(*bucket, *id);
        let Some(grant) =
            core.leases.grant((*bucket, name), Leaseholder { session: *id, own, mount: *mount }, now, is_alone)
        else {
            return Ok(None);
        };
        let made = queue.made.map_or_else(|| self.last_recorded(), Ok);
        let recorded = made.and_then(|made| {
            let first = self.record_lease(grant)?;
            Ok(VolumeLease { grant, inos: first..first + INOS, now, free_bytes: volume.space()?.free_bytes, made })
        });
        match recorded {
            Ok(lease) => {
                queue.inos = lease.inos.clone();
                queue.made = Some(lease.made);
                Ok(Some(lease))
            }
            Err(error) => {
                // A lease from before stays: its node may have answered changes.
                if is_new {
                    core.leases.returned(*bucket, *id, grant);
                }
                Err(error)
            }
        }
    }

    /// The node gives the lease with this number back: it has answered nothing that is left to be made.
    pub fn give_lease_back(&self, grant: u64) {
        let Remote { volume, id, queue, .. } = &*self.0;
        // No change is being made.
        let _queue = queue.lock();
        let Session { core, bucket, mount, id: own, .. } = &*volume.0;
        if let Some(own) = *own {
            lease_returned(core, *bucket, Recalled { holder: Leaseholder { session: *id, own, mount: *mount }, grant });
        }
    }

    /// A change with this number failed, and its node goes on behind it: it is not made any more.
    ///
    /// # Errors
    /// If the number of the last change cannot be read.
    pub fn pass_queued(&self, number: u64) -> Result<()> {
        let mut queue = self.0.queue.lock();
        let made = queue.made.map_or_else(|| self.last_recorded(), Ok)?;
        queue.made = Some(made.max(number));
        Ok(())
    }

    fn record_lease(&self, grant: u64) -> Result<u64> {
        let session = self.0.volume.0.clone();
        let own = session.id.ok_or(Posix::Stale)?;
        let written = session.core.clone().meta.write(Durability::Synced, move |txn| {
            session.check_open(&*txn)?;
            let Session { core, name, bucket, mount, .. } = &*session;
            let mut tx = Tx::begin_mounted(txn, core, name, *bucket, *mount)?;
            let first = tx.set_inos_aside(INOS)?;
            tx.finish()?;
            put_lease(txn, own, |lease| *lease = SessionLease { grant, inos: first..first + INOS })?;
            Ok(first)
        });
        written.wait()
    }

    /// Makes a change that the node has answered; `None` if it was made before. Changes are made one at a time. One that
    /// fails is not made, and the one behind it may be: the node sends no other before it has seen the error.
    ///
    /// # Errors
    /// Those of the operation. ESTALE without the lease. [`Error::Invalid`] for an operation that no node answers, or for an
    /// inode number that was not set aside.
    pub fn make_queued(
        &self,
        context: &Context,
        queued: QueuedCall,
        op: Op<'_>,
        data: &[u8],
    ) -> Result<Option<Answer>> {
        let Remote { volume, calls, id, queue, .. } = &*self.0;
        let _under_way = calls.begin().ok_or(Posix::Stale)?;
        volume.check_session(context)?;
        bounds::check(&volume.0, &op)?;
        let mut queue = queue.lock();
        if self.is_over() || !volume.0.core.leases.is_held_by(volume.0.bucket, *id) {
            return Err(Posix::Stale.into());
        }
        let made = match queue.made {
            Some(made) => made,
            None => *queue.made.insert(self.last_recorded()?),
        };
        if queued.number <= made {
            return Ok(None);
        }
        check(&op, data, queued.ino, &queue.inos)?;
        let reply = match bounds::is_void(&volume.0, &op) {
            true => Reply::Done(()),
            false => execute(volume, context, queued, op, data)?,
        };
        queue.made = Some(queued.number);
        Ok(Some(Answer { reply, recorded: false }))
    }

    /// The number of the last such change that is recorded.
    fn last_recorded(&self) -> Result<u64> {
        let session = &*self.0.volume.0;
        let own = session.id.ok_or(Posix::Stale)?;
        let last = last_of_slot(&*session.core.meta.snapshot(), own, QUEUE_SLOT)?;
        Ok(last.map_or(0, |outcome| outcome.sequence))
    }
}

fn execute(volume: &Volume, context: &Context, queued: QueuedCall, op: Op<'_>, data: &[u8]) -> Result<Reply> {
    let QueuedCall { number, ino, at, encode, decode } = queued;
    let call = CallId { slot: QUEUE_SLOT, sequence: number };
    let slot = SlotCall { call, digest: Digest([0; 16]), encode, decode };
    let given = Given { ino: Some(ino).filter(|ino| *ino != 0), at };
    let named = InSlot { slot, request: context.request, operation: op.name(), given: Some(given) };
    // Written bytes are not noted: all that follows them is made again, too.
    volume.for_call(&Call::in_slot(named, false)).execute(op, data)
}

/// Refuses what no node answers by itself.
fn check(op: &Op<'_>, data: &[u8], ino: u64, inos: &Range<u64>) -> Result<()> {
    let (is_queued, makes) = match op {
        Op::Names(NameOp::Create { .. }) => (true, true),
        Op::Names(NameOp::Make { what, .. }) => (!matches!(what, Make::Special(..)), true),
        Op::Names(NameOp::Unlink { .. }) => (true, false),
        Op::Attributes(AttributeOp::SetAttr { set: SetAttr { size: None, kill_privileges: false, .. }, .. }) => {
            (true, false)
        }
        Op::Content(ContentOp::Write { .. }) => (data.len() <= QUEUED_BYTES_MAX, false),
        Op::Opens(OpenOp::OpenWriter { .. } | OpenOp::CloseWriter { .. }) => (true, false),
        _ => (false, false),
    };
    if !is_queued {
        return Err(Error::invalid("call", op.name(), "the store has to make this change before it is answered"));
    }
    if makes != inos.contains(&ino) || (!makes && ino != 0) {
        let why = format!("the numbers {} to {} are set aside for what this session makes", inos.start, inos.end);
        return Err(Error::invalid("inode", ino.to_string(), why));
    }
    Ok(())
}
