//! Writes of calls in slots: noted beside the bytes, because most of them are no transaction (`state/writes.rs`).

use node_session::slot::Outcome;
use node_session::{CallId, Digest};
use objstore_files::{ContentOp, DATA_BYTES_MAX, Op, Reply};

use super::super::session::{Session, Volume};
use super::slots::{self, InSlot};
use super::{Call, Named};
use crate::error::Result;
use crate::meta::Durability;
use crate::state::{WriteNote, Writes};

/// A checksum of written bytes.
fn sum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

impl Call {
    /// The slot whose call as a whole is one write.
    fn writing(&self) -> Option<InSlot> {
        match self.0.name {
            Named::Slot(call) if self.0.writes => Some(call),
            Named::Slot(_) | Named::Request(_) => None,
        }
    }
}

impl Volume {
    fn writes(&self) -> Option<&Writes> {
        self.0.appends.as_deref().map(|appends| &appends.writes)
    }

    /// Whether the call that this handle acts for is a write that is noted.
    pub(in crate::volume) fn notes_writes(&self) -> bool {
        self.1.as_ref().is_some_and(|call| call.writing().is_some()) && self.writes().is_some()
    }

    /// Writes once: `write` puts these bytes there. The caller holds the inode's lock exclusively.
    pub(in crate::volume) fn write_noted(
        &self,
        (ino, offset): (u64, u64),
        data: &[u8],
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let noted = self.1.as_ref().and_then(|call| Some((call, call.writing()?))).zip(self.writes());
        let Some(((call, named), writes)) = noted else { return write() };
        let CallId { slot: number, sequence } = named.slot.call;
        let (len, sum, digest, unique) = (data.len() as u64, sum(data), named.slot.digest.0, named.unique());
        let reply = (named.slot.encode)(&Reply::Done(()));
        writes.begin(number, WriteNote { sequence, digest, unique, ino, offset, len, sum, reply, is_done: false })?;
        write()?;
        writes.done(number)?;
        call.record(&self.0);
        Ok(())
    }

    /// Decides about writes that the process before this one began and did not note as done: the bytes are in the file or
    /// they are not. Called before anything changes the files.
    pub(in crate::volume) fn settle_writes(&self) -> Result<()> {
        let Some(writes) = self.writes() else { return Ok(()) };
        for (slot, note) in writes.all() {
            let len = usize::try_from(note.len).ok().filter(|len| !note.is_done && *len <= DATA_BYTES_MAX);
            let is_there = |len| {
                // A file that is gone has no such bytes.
                self.read(note.ino, note.offset, len).is_ok_and(|held| held.len() == len && sum(&held) == note.sum)
            };
            if len.is_some_and(is_there) {
                writes.done(slot)?;
            }
        }
        Ok(())
    }

    /// Records the outcome of a call that made several transactions, in one behind them; or of one that was executed in
    /// another slot.
    pub(in crate::volume) fn record_outcome(&self, call: InSlot, reply: &Reply) -> Result<()> {
        let Some(own) = self.0.id else { return Ok(()) };
        let (session, reply) = (self.0.clone(), reply.clone());
        self.0.core.meta.transact(Durability::Buffered, move |txn| {
            session.check_open(&*txn)?;
            slots::check_next(&*txn, own, call.slot)?;
            slots::put(txn, own, call, &reply);
            Ok(())
        })
    }
}

impl Session {
    /// The last write of a slot that is noted as done.
    pub(in crate::volume) fn last_write(&self, slot: u32) -> Option<Outcome> {
        self.appends.as_deref()?.writes.last(slot).map(outcome)
    }

    /// The write of these bytes for this request that is noted as done, in any slot.
    pub(in crate::volume) fn find_write(&self, call: InSlot, op: &Op<'_>, data: &[u8]) -> Option<Outcome> {
        let Op::Content(ContentOp::Write { ino, offset, .. } | ContentOp::WriteBack { ino, offset, .. }) = op else {
            return None;
        };
        let wanted = (call.unique(), *ino, *offset, data.len() as u64, sum(data));
        let is_it =
            |note: &WriteNote| (note.unique, note.ino, note.offset, note.len, note.sum) == wanted && note.is_done;
        let all = self.appends.as_deref().filter(|_| call.unique() != 0)?.writes.all();
        all.into_iter().map(|(_, note)| note).find(is_it).map(outcome)
    }

    /// The last writes of all slots that are noted as done.
    pub(in crate::volume) fn last_writes(&self) -> Vec<(u32, Outcome)> {
        let all = self.appends.as_deref().map(|appends| appends.writes.all()).unwrap_or_default();
        all.into_iter().filter(|(_, note)| note.is_done).map(|(slot, note)| (slot, outcome(note))).collect()
    }
}

fn outcome(note: WriteNote) -> Outcome {
    Outcome { sequence: note.sequence, digest: Digest(note.digest), reply: note.reply }
}
