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
use crate::record::key;
use crate::record::session::Replay;
use crate::session_id::SessionId;

/// The most slots of a session: one needs a record of some 200 bytes.
const SLOTS_MAX: u32 = 1024;
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

    /// Whether an append was one of an earlier call of the slot, which is answered.
    pub(in crate::volume) fn follows(&self, append: u64) -> bool {
        let own = self.append().unique;
        append >> SEQUENCE_BITS == own >> SEQUENCE_BITS && append < own
    }
}

/// The last recorded outcome of a slot.
pub(in crate::volume) fn last(read: &dyn Read, session: SessionId, slot: u32) -> Result<Option<Outcome>> {
    let Some(value) = read.get(&key::replay(session.get(), u64::from(slot)))? else { return Ok(None) };
    let Replay { sequence, digest, reply, .. } = decode("the outcome of a slot", &value)?;
    let digest = <[u8; 16]>::try_from(&digest[..]);
    let digest = digest.map_err(|_| Error::corrupt("the outcome of a slot", "a digest of 16 bytes", "another"))?;
    Ok(Some(Outcome { sequence, digest: Digest(digest), reply }))
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
pub(super) fn put(txn: &mut dyn Txn, session: SessionId, slot: SlotCall, reply: &Reply) {
    let CallId { slot: number, sequence } = slot.call;
    let record = Replay { ino: 0, sequence, digest: slot.digest.0.to_vec(), reply: (slot.encode)(reply) };
    txn.put(key::replay(session.get(), u64::from(number)), record.encode_to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(slot: u32, sequence: u64) -> SlotCall {
        SlotCall { call: CallId { slot, sequence }, digest: Digest([0; 16]), encode: |_| Vec::new() }
    }

    #[test]
    fn calls_are_named_within_bounds_and_by_one_number() {
        assert!(call(0, 1).check().is_ok() && call(SLOTS_MAX - 1, (1 << SEQUENCE_BITS) - 1).check().is_ok());
        assert!(call(0, 0).check().is_err() && call(SLOTS_MAX, 1).check().is_err());
        assert!(call(0, 1 << SEQUENCE_BITS).check().is_err());
        assert!(call(3, 7).follows(call(3, 6).append().unique));
        for other in [call(3, 7), call(3, 8), call(2, 6), call(4, 6)] {
            assert!(!call(3, 7).follows(other.append().unique), "{:?}", other.call);
        }
    }
}
