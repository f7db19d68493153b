//! Slots of another machine's session: the last outcome of each, recorded by the transaction that made the change
//! (decision 0090).
//!
//! - A slot has one record, which the outcome of its next call replaces. A call that changed nothing leaves the record
//!   of an earlier one.
//! - The record has the bytes of the reply, so a call that is sent again gets the same answer, also if others have
//!   changed the file since.
//!
//! A crash before the commit leaves the outcome of the slot's last call: the call is done when it is sent again. After
//! it, the record answers.

use node_session::slot::Outcome;
use node_session::{CallId, Digest};
use objstore_files::{Reply, RequestId};
use prost::Message;

use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::Replay;
use crate::scan::all;
use crate::session_id::SessionId;
use crate::tree::Given;

/// The most slots of a session: one needs a record of some 200 bytes.
const SLOTS_MAX: u32 = 1024;
/// The slot of changes that the node has answered before the store makes them (`remote/exclusive.rs`): no call names it.
pub(in crate::volume) const QUEUE_SLOT: u32 = SLOTS_MAX;
/// What a record is called in errors.
const OUTCOME: &str = "the outcome of a slot";
/// The bits of a call's number that name its append.
const SEQUENCE_BITS: u32 = 48;

/// The name of a call in a slot, and how its reply is written.
#[derive(Clone, Copy, Debug)]
pub struct SlotCall {
    /// The slot, and the number of the call in it.
    pub call: CallId,
    /// The digest of its content.
    pub digest: Digest,
    /// The bytes of a reply, as they are sent and recorded.
    pub encode: fn(&Reply) -> Vec<u8>,
    /// The reply that these bytes are.
    pub decode: fn(&[u8]) -> Option<Reply>,
}

/// A call in a slot with what names it besides: the kernel's request, which the node's next process sends again from
/// another slot.
#[derive(Clone, Copy, Debug)]
pub(in crate::volume) struct InSlot {
    pub slot: SlotCall,
    pub request: Option<RequestId>,
    /// The name of the operation.
    pub operation: &'static str,
    /// What the node has answered already.
    pub given: Option<Given>,
}

impl InSlot {
    /// The number of the kernel's request; zero for none.
    pub(super) fn unique(&self) -> u64 {
        self.request.map_or(0, |request| request.unique)
    }

    /// Whether a process before may have begun it: it is sent again, or nothing says that it is not.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.request.is_none_or(|request| request.resent)
    }

    /// The name of its append in the records of appends: the request's, or that of the call, which may have been sent
    /// before.
    pub(in crate::volume) fn append(&self) -> RequestId {
        self.request.unwrap_or_else(|| self.slot.append())
    }

    fn is_of(&self, record: &Replay) -> bool {
        let CallId { sequence, .. } = self.slot.call;
        match self.unique() {
            0 => record.sequence == sequence && record.digest == self.slot.digest.0,
            unique => record.unique == unique && record.operation == self.operation,
        }
    }
}

impl SlotCall {
    /// Refuses a name that no node chooses.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(in crate::volume) fn check(&self) -> Result<()> {
        let CallId { slot, sequence } = self.call;
        if slot < SLOTS_MAX && (1..1 << SEQUENCE_BITS).contains(&sequence) {
            return Ok(());
        }
        let why = format!("slots are below {SLOTS_MAX}, and numbers of calls between 1 and 2^{SEQUENCE_BITS}");
        Err(Error::invalid("call", format!("{sequence} in slot {slot}"), why))
    }

    /// The name of its append in the records of appends. Each call may have been sent before.
    pub(super) fn append(&self) -> RequestId {
        RequestId { unique: u64::from(self.call.slot) << SEQUENCE_BITS | self.call.sequence, resent: true }
    }
}

/// The last recorded outcome of a slot.
pub(in crate::volume) fn last(read: &dyn Read, session: SessionId, slot: u32) -> Result<Option<Outcome>> {
    let Some(value) = read.get(&key::replay(session.get(), u64::from(slot)))? else { return Ok(None) };
    outcome(decode(OUTCOME, &value)?)
}

fn outcome(record: Replay) -> Result<Option<Outcome>> {
    let Replay { sequence, digest, reply, is_part, .. } = record;
    let digest = <[u8; 16]>::try_from(&digest[..]);
    let digest = digest.map_err(|_| Error::corrupt(OUTCOME, "a digest of 16 bytes", "another"))?;
    Ok(Some(Outcome { sequence, digest: Digest(digest), reply }).filter(|_| !is_part))
}

/// All records of slots of a session.
fn records(read: &dyn Read, session: SessionId) -> Result<Vec<Replay>> {
    let pairs = all(read, &key::by_id(tag::REPLAY, session.get()))?;
    pairs.iter().map(|pair| decode(OUTCOME, &pair.value)).collect()
}

/// The outcome of a request that the kernel sends again to the node's next process, whichever slot it was called in.
pub(in crate::volume) fn find(read: &dyn Read, session: SessionId, call: InSlot) -> Result<Option<Outcome>> {
    if call.unique() == 0 {
        return Ok(None);
    }
    let found = records(read, session)?.into_iter().find(|record| !record.is_part && call.is_of(record));
    found.map_or(Ok(None), outcome)
}

/// The inode of a call's first part, if that was done before.
pub(super) fn find_part(read: &dyn Read, session: SessionId, call: InSlot) -> Result<Option<u64>> {
    let records = match call.unique() {
        // Only its own slot can have it.
        0 => {
            let own = read.get(&key::replay(session.get(), u64::from(call.slot.call.slot)))?;
            own.map(|value| decode(OUTCOME, &value)).transpose()?.into_iter().collect()
        }
        _ => records(read, session)?,
    };
    Ok(records.into_iter().find(|record: &Replay| record.is_part && call.is_of(record)).map(|record| record.ino))
}

/// Refuses a call whose slot has recorded it, or a later one: who asked [`last`] before does not send it.
///
/// # Errors
/// [`Error::Invalid`].
pub(super) fn check_next(read: &dyn Read, session: SessionId, slot: SlotCall) -> Result<()> {
    let CallId { slot, sequence } = slot.call;
    match last(read, session, slot)? {
        Some(last) if last.sequence >= sequence => {
            let why = format!("the slot has recorded call {}", last.sequence);
            Err(Error::invalid("call", format!("{sequence} in slot {slot}"), why))
        }
        _ => Ok(()),
    }
}

/// Records the outcome of a call in place of the slot's last one.
pub(super) fn put(txn: &mut dyn Txn, session: SessionId, call: InSlot, reply: &Reply) {
    put_record(txn, session, call, Replay { reply: (call.slot.encode)(reply), ..Replay::default() });
}

/// Records that the first part of a call is done, which concerned this inode, in place of the slot's last outcome.
pub(super) fn put_part(txn: &mut dyn Txn, session: SessionId, call: InSlot, ino: u64) {
    put_record(txn, session, call, Replay { ino, is_part: true, ..Replay::default() });
}

fn put_record(txn: &mut dyn Txn, session: SessionId, call: InSlot, record: Replay) {
    let CallId { slot, sequence } = call.slot.call;
    let (digest, unique, operation) = (call.slot.digest.0.to_vec(), call.unique(), call.operation.to_owned());
    let record = Replay { sequence, digest, unique, operation, ..record };
    txn.put(key::replay(session.get(), u64::from(slot)), record.encode_to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(slot: u32, sequence: u64) -> SlotCall {
        let call = CallId { slot, sequence };
        SlotCall { call, digest: Digest([0; 16]), encode: |_| Vec::new(), decode: |_| None }
    }

    #[test]
    fn calls_are_named_within_bounds() {
        assert!(call(0, 1).check().is_ok() && call(SLOTS_MAX - 1, (1 << SEQUENCE_BITS) - 1).check().is_ok());
        assert!(call(0, 0).check().is_err() && call(SLOTS_MAX, 1).check().is_err());
        assert!(call(0, 1 << SEQUENCE_BITS).check().is_err());
        assert_ne!(call(3, 7).append().unique, call(2, 7).append().unique);
    }
}
