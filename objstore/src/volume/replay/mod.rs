//! Replay protection: requests that an earlier server may have executed are not executed twice.
//!
//! - A request that a server had read when it died is sent again by the kernel, marked as resent
//!   (`FUSE_UNIQUE_RESEND`). Only the store can tell whether it was executed. An idempotent call needs no care. The
//!   others run as [`Volume::once`], and leave a record of their effect in the transaction that made it ([`records`]);
//!   an append records its offset ([`appends`]).
//! - The request is passed in a thread-local: [`serve`] sets it, and [`Volume::once`] reads it. Outside of `serve`, and
//!   for sessions that end with the process, nothing is recorded or looked up.
//! - A failed request left no record, since it changed nothing: sent again, it is executed again.
//!
//! A crash before the commit leaves nothing, and the request is executed as new. After it, the record answers. Once
//! answered, the kernel does not send it again: the record is removed later, and is harmless until then.

mod appends;
mod records;

use std::cell::RefCell;
use std::sync::Arc;

pub(crate) use appends::{Appends, sweep};
pub(super) use records::{Answered, Outcome};

use super::session::{Session, Volume};
use crate::error::Result;
use crate::meta::Durability;
use crate::tree::Tx;

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The request's number, unique in the session.
    pub unique: u64,
    /// Whether the kernel sends it again.
    pub resent: bool,
}

/// A replay record was written for a request: to be handed back once the request is answered. If it is dropped before,
/// the record stays until the session ends.
#[must_use = "the record is kept until the request is known to be answered"]
pub struct Recorded {
    session: Arc<Session>,
    unique: u64,
}

impl Recorded {
    /// The kernel has the reply, or no longer wants it.
    pub fn answered(self) {
        self.session.answered.add(self.unique);
        if let Some(appends) = &self.session.appends {
            appends.answered(self.unique);
        }
    }
}

struct UnderWay {
    request: RequestId,
    recorded: Option<Recorded>,
}

thread_local! {
    static UNDER_WAY: RefCell<Option<UnderWay>> = const { RefCell::new(None) };
}

/// Restores the request that this thread served before.
struct Scope(Option<UnderWay>);

impl Drop for Scope {
    fn drop(&mut self) {
        UNDER_WAY.set(self.0.take());
    }
}

/// Runs `call` on this thread for a request. Also returns a handle if something was recorded for it.
pub fn serve<T>(request: RequestId, call: impl FnOnce() -> T) -> (T, Option<Recorded>) {
    let _scope = Scope(UNDER_WAY.replace(Some(UnderWay { request, recorded: None })));
    let value = call();
    (value, UNDER_WAY.take().and_then(|under_way| under_way.recorded))
}

/// The request that this thread serves.
fn request() -> Option<RequestId> {
    UNDER_WAY.with_borrow(|under_way| under_way.as_ref().map(|under_way| under_way.request))
}

/// Records that a replay record exists for the request that this thread serves.
fn recorded(session: &Arc<Session>) {
    UNDER_WAY.with_borrow_mut(|under_way| {
        if let Some(UnderWay { request, recorded }) = under_way {
            let unique = request.unique;
            recorded.get_or_insert_with(|| Recorded { session: session.clone(), unique });
        }
    });
}

impl Volume {
    /// Changes the tree in one transaction that is executed once, however often its request is sent.
    pub(super) fn once<T: Outcome>(&self, change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        self.once_and(change, |_, _| {})
    }

    /// Changes the tree once, and runs `and` for effects in memory: inside the transaction, also if the change was made
    /// before.
    pub(super) fn once_and<T: Outcome>(
        &self,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
        and: impl FnOnce(&mut Tx<'_>, &T) + Send + 'static,
    ) -> Result<T> {
        let Some((request, id)) = request().zip(self.0.id) else {
            return self.change(move |tx| {
                let value = change(tx)?;
                and(tx, &value);
                Ok(value)
            });
        };
        self.refuse_write()?;
        let session = self.0.clone();
        let done = self.0.core.meta.transact(Durability::Buffered, move |txn| {
            let Session { core, name, bucket, mount, answered, .. } = &*session;
            let mut tx = Tx::begin_mounted(txn, core, name, *bucket, *mount)?;
            let before = if request.resent { records::find(&tx, id, request.unique)? } else { None };
            let value = before.map_or_else(|| change(&mut tx), Ok)?;
            and(&mut tx, &value);
            tx.finish()?;
            // After everything that can fail: entries taken from the queue here are removed with this commit.
            records::put(txn, id, request.unique, &value, answered);
            Ok(value)
        });
        let value = done?;
        recorded(&self.0);
        Ok(value)
    }

    /// Appends `len` bytes to a file of `size` bytes once, however often the request is sent: `write` receives the
    /// offset. Returns the end of the appended bytes. The caller holds the inode's lock exclusively.
    pub(super) fn append_once(
        &self,
        ino: u64,
        size: u64,
        len: u64,
        write: impl FnOnce(u64) -> Result<()>,
    ) -> Result<u64> {
        let Some((request, appends)) = request().zip(self.0.appends.as_ref()) else {
            return write(size).map(|()| size + len);
        };
        let offset = match appends.before(request, ino, size) {
            appends::Before::Whole { end } => {
                recorded(&self.0);
                return Ok(end);
            }
            appends::Before::Partly { offset } => offset,
            appends::Before::Nothing => {
                appends.note(request.unique, ino, size, len)?;
                size
            }
        };
        match write(offset) {
            Ok(()) => {
                appends.written(request.unique);
                recorded(&self.0);
                Ok(offset + len)
            }
            // Nothing was appended, so the place is free for others.
            Err(error) => appends.forget(request.unique).and(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_to_its_thread_while_it_is_served() {
        let outer = RequestId { unique: 2, resent: false };
        let inner = RequestId { unique: 4, resent: true };
        assert_eq!(request(), None);
        let (seen, recorded) = serve(outer, || {
            let (seen, _) = serve(inner, request);
            (seen, request())
        });
        assert_eq!((seen, recorded.is_none()), ((Some(inner), Some(outer)), true));
        let panicked = std::panic::catch_unwind(|| drop(serve(outer, || panic!("a call that fails"))));
        assert_eq!((panicked.is_err(), request()), (true, None));
    }
}
