//! Replay records: written with a change, looked up when its request is resent, removed later.
//!
//! - Answered requests wait in a queue; each transaction that adds a record removes those of up to [`REMOVED_MAX`] of
//!   them. So there are at most as many records as requests in progress, and as many again that were answered since:
//!   hundreds. A long queue gets shorter with each change after it, and the rest is removed with the session.

use objstore_files::Reply;
use parking_lot::Mutex;
use prost::Message;

use super::super::session::attr;
use crate::error::Result;
use crate::meta::Txn;
use crate::record::decode;
use crate::record::inode::Inode;
use crate::record::key;
use crate::record::session::Replay;
use crate::session_id::SessionId;
use crate::tree::Tx;

/// The most records removed by a change that adds one.
const REMOVED_MAX: usize = 64;

/// The most answered requests that wait. A mount adds one for each change that was recorded, and each such change removes
/// more, so a mount stays far below; the bound is for a peer that names requests which were never recorded.
const WAITING_MAX: usize = 1 << 16;

/// Answered requests whose records may be removed.
#[derive(Default)]
pub(in crate::volume) struct Answered(Mutex<Vec<u64>>);

impl Answered {
    /// Adds a request. Beyond [`WAITING_MAX`] it is left out: its record stays until the session ends.
    pub fn add(&self, unique: u64) {
        let mut queue = self.0.lock();
        if queue.len() < WAITING_MAX {
            queue.push(unique);
        }
    }

    fn take(&self) -> Vec<u64> {
        let mut queue = self.0.lock();
        let rest = queue.len().saturating_sub(REMOVED_MAX);
        queue.split_off(rest)
    }
}

/// The result of a change that is executed once, which a repeated request gets again.
pub(in crate::volume) trait Outcome: Sized + Send + 'static {
    /// The inode to record; zero for none.
    fn ino(&self) -> u64;

    /// The reply that is recorded for a slot; `None` if the change is only a part of its call, which is then repeated as
    /// a whole.
    fn reply(&self) -> Option<Reply>;

    /// The current form of the result; `None` if others have undone it since: the change is then made as if it came
    /// after that.
    fn again(tx: &Tx<'_>, ino: u64) -> Result<Option<Self>>;
}

impl Outcome for () {
    fn ino(&self) -> u64 {
        0
    }

    fn reply(&self) -> Option<Reply> {
        Some(Reply::Done(()))
    }

    fn again(_: &Tx<'_>, _: u64) -> Result<Option<Self>> {
        Ok(Some(()))
    }
}

/// An inode that was created or got a name.
impl Outcome for (u64, Inode) {
    fn ino(&self) -> u64 {
        self.0
    }

    fn reply(&self) -> Option<Reply> {
        Some(attr(self.0, &self.1).into())
    }

    fn again(tx: &Tx<'_>, ino: u64) -> Result<Option<Self>> {
        Ok(tx.tree().inode(ino)?.map(|(_, inode)| (ino, inode)))
    }
}

/// The recorded result of a request, if there is one.
pub(super) fn find<T: Outcome>(tx: &Tx<'_>, session: SessionId, unique: u64) -> Result<Option<T>> {
    match tx.txn.get(&key::replay(session.get(), unique))? {
        Some(value) => T::again(tx, decode::<Replay>("a request", &value)?.ino),
        None => Ok(None),
    }
}

/// Records the result of a request, and removes records of answered requests.
pub(super) fn put<T: Outcome>(txn: &mut dyn Txn, session: SessionId, unique: u64, outcome: &T, answered: &Answered) {
    for unique in answered.take() {
        txn.delete(key::replay(session.get(), unique));
    }
    txn.put(key::replay(session.get(), unique), Replay { ino: outcome.ino(), ..Replay::default() }.encode_to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_gets_shorter_with_each_change() {
        let queue = Answered::default();
        (0..100).for_each(|unique| queue.add(unique));
        assert_eq!((queue.take().len(), queue.take().len(), queue.take().len()), (64, 36, 0));
    }

    #[test]
    fn requests_that_were_never_recorded_fill_no_memory() {
        let queue = Answered::default();
        (0..2 * WAITING_MAX as u64).for_each(|unique| queue.add(unique));
        assert_eq!(queue.0.lock().len(), WAITING_MAX);
    }
}
