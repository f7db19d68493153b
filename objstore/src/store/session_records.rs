//! The end of a session as records: what one transaction removes, and what it keeps.
//!
//! - The transaction that removes the record of a session is its end: every change of another machine's session reads
//!   that record. A crash before leaves the session, a crash after leaves nothing of it but its ended id.
//! - The id of an ended session is kept for [`ENDED_KEPT`], so that no opening that arrives late revives it.

use prost::Message;

use super::all;
use crate::clock::Timestamp;
use crate::error::{Posix, Result};
use crate::meta::{Read, Txn};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::{Ended, Session};
use crate::session_id::SessionId;

/// How long the id of an ended session is kept, in nanoseconds: a day.
pub(crate) const ENDED_KEPT: i64 = 24 * 60 * 60 * 1_000_000_000;

/// A recorded session of another machine: the id that its node chose, the store's own, and the record.
pub(crate) struct Recorded {
    pub id: node_session::SessionId,
    pub own: SessionId,
    pub record: Session,
}

/// Removes the records of a session.
pub(crate) fn forget_session(txn: &mut dyn Txn, id: SessionId) -> Result<()> {
    for pair in all(&*txn, &key::by_id(tag::REPLAY, id.get()))? {
        txn.delete(pair.key.to_vec());
    }
    txn.delete(key::by_id(tag::SESSION, id.get()));
    Ok(())
}

/// Ends a session of another machine.
pub(crate) fn end_remote(
    txn: &mut dyn Txn,
    (id, own): (node_session::SessionId, SessionId),
    now: Timestamp,
) -> Result<()> {
    forget_session(txn, own)?;
    txn.put(key::ended(id.0), Ended { at: now.0 }.encode_to_vec());
    Ok(())
}

/// Refuses the id of a session that ended.
///
/// # Errors
/// ESTALE.
pub(crate) fn refuse_ended(read: &dyn Read, id: node_session::SessionId) -> Result<()> {
    match read.get(&key::ended(id.0))? {
        Some(_) => Err(Posix::Stale.into()),
        None => Ok(()),
    }
}

/// The recorded sessions of other machines. Damaged records are left out: no node can resume them.
///
/// # Errors
/// If the records cannot be read.
pub(crate) fn remote_sessions(read: &dyn Read) -> Result<Vec<Recorded>> {
    let mut found = Vec::new();
    for pair in all(read, &[tag::SESSION])? {
        let Some(own) = key::u64_at(&pair.key, 1).and_then(SessionId::new) else { continue };
        let Ok(record) = decode::<Session>("a session", &pair.value) else { continue };
        let Some(remote) = &record.remote else { continue };
        let Ok(id) = <[u8; 16]>::try_from(&remote.id[..]) else {
            tracing::error!(
                node = remote.node,
                "the record of a mount on another machine is damaged; it is not served"
            );
            continue;
        };
        found.push(Recorded { id: node_session::SessionId(u128::from_be_bytes(id)), own, record });
    }
    Ok(found)
}

/// Ends the sessions that a node, or any, opened by its publication of a bucket.
pub(super) fn end_published(txn: &mut dyn Txn, bucket: u64, node: Option<&str>, now: Timestamp) -> Result<()> {
    let mut ended = remote_sessions(&*txn)?;
    ended.retain(|session| {
        let remote = session.record.remote.as_ref().filter(|remote| remote.epoch != 0);
        session.record.bucket == bucket && remote.is_some_and(|remote| node.is_none_or(|node| remote.node == node))
    });
    ended.into_iter().try_for_each(|session| end_remote(txn, (session.id, session.own), now))
}
