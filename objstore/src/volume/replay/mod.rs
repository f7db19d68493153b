//! Replay protection: requests that an earlier server may have executed are not executed twice.
//!
//! - A request that a server had read when it died is sent again by the kernel, marked as resent
//!   (`FUSE_UNIQUE_RESEND`). Only the store can tell whether it was executed. An idempotent call needs no care. The
//!   others run as [`Volume::once`], and leave a record of their effect in the transaction that made it ([`records`]);
//!   an append records its offset (`state/appends.rs`).
//! - The request is part of the handle: the seam to a mount (`service`) makes one that acts for it ([`Volume::for_call`]), and
//!   [`Volume::once`] reads it there. Through other handles, and for sessions that end with the process, nothing is recorded or looked up.
//! - A failed request left no record, since it changed nothing: sent again, it is executed again.
//!
//! - A call of another machine's session names a slot in place of a request ([`SlotCall`]): its outcome replaces that of
//!   the slot's last call, with the bytes of the reply. Calls of class `Set` are recorded for slots too: other machines may
//!   have changed the file before the call is sent again.
//!
//! A crash before the commit leaves nothing, and the request is executed as new. After it, the record answers. Once
//! answered, the kernel does not send it again: the record is removed later, and is harmless until then.

mod records;
mod slots;
mod writes;

use std::sync::{Arc, OnceLock};

pub(super) use records::{Answered, Outcome};
pub use slots::SlotCall;
pub(super) use slots::{InSlot, QUEUE_SLOT, find as find_request, last as last_of_slot};

use super::session::{Session, Volume};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::meta::Durability;
use crate::session_id::SessionId;
use crate::state::Before;
use crate::tree::{Given, Tx};
pub use objstore_files::RequestId;

/// A replay record was written for a request: to be handed back once the request is answered. If it is dropped before,
/// the record stays until the session ends.
#[must_use = "the record is kept until the request is known to be answered"]
pub struct Recorded {
    session: Arc<Session>,
    unique: u64,
}

impl Recorded {
    /// What was recorded for a request of a session.
    pub(super) fn of(volume: &Volume, request: RequestId) -> Self {
        Self { session: volume.0.clone(), unique: request.unique }
    }

    /// The kernel has the reply, or no longer wants it.
    pub fn answered(self) {
        self.session.answered.add(self.unique);
        if let Some(appends) = &self.session.appends {
            appends.answered(self.unique);
        }
    }
}

/// The context of a request that is being served, which [`Volume::for_call`] passes down with the handle.
#[derive(Clone)]
pub struct Call(Arc<UnderWay>);

/// What names a call that is executed once.
#[derive(Clone, Copy)]
enum Named {
    /// The kernel's request, on this machine.
    Request(RequestId),
    /// A slot of another machine's session.
    Slot(InSlot),
}

impl Named {
    /// What the node has answered already.
    fn given(self) -> Option<Given> {
        match self {
            Self::Request(_) => None,
            Self::Slot(call) => call.given,
        }
    }

    /// The number by which an append is recorded, and whether it may have been sent before.
    fn append(self) -> RequestId {
        match self {
            Self::Request(request) => request,
            Self::Slot(call) => call.append(),
        }
    }
}

struct UnderWay {
    name: Named,
    /// Whether the call as a whole is one write of given bytes.
    writes: bool,
    /// Set once something is recorded for the request.
    recorded: OnceLock<Arc<Session>>,
}

impl Call {
    /// Begins to serve a request.
    pub fn new(request: RequestId) -> Self {
        Self(Arc::new(UnderWay { name: Named::Request(request), writes: false, recorded: OnceLock::new() }))
    }

    /// Begins to serve a call of another machine's session; `writes` if the call as a whole is one write of given bytes.
    pub(super) fn in_slot(call: InSlot, writes: bool) -> Self {
        Self(Arc::new(UnderWay { name: Named::Slot(call), writes, recorded: OnceLock::new() }))
    }

    /// What the node has answered for the call before.
    pub(super) fn given(&self) -> Option<Given> {
        self.0.name.given()
    }

    /// Whether an outcome was recorded for the call.
    pub(super) fn is_recorded(&self) -> bool {
        self.0.recorded.get().is_some()
    }

    /// What was recorded for the request, after it was served.
    pub fn recorded(&self) -> Option<Recorded> {
        let session = self.0.recorded.get()?.clone();
        Some(Recorded { session, unique: self.0.name.append().unique })
    }

    /// Something is recorded for the request.
    fn record(&self, session: &Arc<Session>) {
        self.0.recorded.get_or_init(|| session.clone());
    }
}

/// Serves a request, as the seam to a mount does: runs `call` with a handle of `volume` that acts for the request. Also returns a handle if something
/// was recorded for it.
#[cfg(test)]
pub fn serve<T>(volume: &Volume, request: RequestId, call: impl FnOnce(&Volume) -> T) -> (T, Option<Recorded>) {
    let context = Call::new(request);
    let value = call(&volume.for_call(&context));
    (value, context.recorded())
}

impl Volume {
    /// A handle that acts for a request: a change through it is executed once, however often the kernel sends the request.
    /// Other handles act for none.
    pub fn for_call(&self, call: &Call) -> Self {
        Self(self.0.clone(), Some(call.clone()))
    }

    /// The time of a change: now, or what its node has answered before, which is never later.
    pub(super) fn time_of_call(&self) -> Timestamp {
        let now = self.0.core.clock.now();
        self.1.as_ref().and_then(Call::given).map_or(now, |given| now.min(given.at))
    }

    /// Changes the tree in one transaction that is executed once, however often its request is sent.
    pub(super) fn once<T: Outcome>(&self, change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        self.once_and(change, |_, _| {})
    }

    /// Changes the tree in the last transaction of a call of class `Set`: for a slot its outcome is recorded, so that a
    /// repetition does not undo what others did since. A mount of this machine repeats the call.
    pub(super) fn change_last<T: Outcome>(
        &self,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &self.1 {
            Some(call) if matches!(call.0.name, Named::Slot(_)) => {
                self.0.core.feeds.make_room(self.0.bucket, self.0.mount);
                self.once(change)
            }
            _ => self.change(change),
        }
    }

    /// Changes the tree once, and runs `and` for effects in memory: inside the transaction, also if the change was made
    /// before.
    pub(super) fn once_and<T: Outcome>(
        &self,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
        and: impl FnOnce(&mut Tx<'_>, &T) + Send + 'static,
    ) -> Result<T> {
        let Some((call, id)) = self.1.as_ref().zip(self.0.id) else {
            return self.change(move |tx| {
                let value = change(tx)?;
                and(tx, &value);
                Ok(value)
            });
        };
        self.refuse_write()?;
        let (session, call_name) = (self.0.clone(), call.0.name);
        let done = self.0.core.meta.transact(Durability::Buffered, move |txn| {
            session.check_open(&*txn)?;
            let Session { core, name, bucket, mount, answered, .. } = &*session;
            let mut tx = Tx::begin_mounted(txn, core, name, *bucket, *mount)?;
            call_name.given().into_iter().for_each(|given| tx.give(given));
            let before = match call_name {
                Named::Request(request) if request.resent => records::find(&tx, id, request.unique)?,
                Named::Request(_) => None,
                Named::Slot(call) => {
                    slots::check_next(&*tx.txn, id, call.slot)?;
                    if call.may_be_repeated() { again_after_part(&tx, id, call)? } else { None }
                }
            };
            let value = before.map_or_else(|| change(&mut tx), Ok)?;
            and(&mut tx, &value);
            tx.finish()?;
            // After everything that can fail: entries taken from the queue here are removed with this commit.
            let recorded = match (call_name, value.reply()) {
                (Named::Request(request), _) => {
                    records::put(txn, id, request.unique, &value, answered);
                    true
                }
                (Named::Slot(call), Some(reply)) => {
                    slots::put(txn, id, call, &reply);
                    true
                }
                (Named::Slot(call), None) => {
                    slots::put_part(txn, id, call, value.ino());
                    false
                }
            };
            Ok((value, recorded))
        });
        let (value, recorded) = done?;
        if recorded {
            call.record(&self.0);
        }
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
        let Some((call, appends)) = self.1.as_ref().zip(self.0.appends.as_ref()) else {
            return write(size).map(|()| size + len);
        };
        let request = call.0.name.append();
        let offset = match appends.before(request, ino, size) {
            Before::Whole { end } => {
                call.record(&self.0);
                return Ok(end);
            }
            Before::Partly { offset } => offset,
            Before::Nothing => {
                appends.note(request.unique, ino, size, len)?;
                size
            }
        };
        match write(offset) {
            Ok(()) => {
                appends.written(request.unique);
                call.record(&self.0);
                Ok(offset + len)
            }
            // Nothing was appended, so the place is free for others.
            Err(error) => appends.forget(request.unique).and(Err(error)),
        }
    }
}

/// The first part of a call in its current form, if the store before this process did it.
fn again_after_part<T: Outcome>(tx: &Tx<'_>, id: SessionId, call: InSlot) -> Result<Option<T>> {
    match slots::find_part(&*tx.txn, id, call)? {
        Some(ino) => T::again(tx, ino),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::test_store::TestStore;

    fn request(volume: &Volume) -> Option<RequestId> {
        volume.1.as_ref().map(|call| call.0.name.append())
    }

    #[test]
    fn a_request_is_known_to_its_handle_while_it_is_served() {
        let test = TestStore::in_memory();
        let volume = &test.mount(&test.bucket("bucket"));
        let outer = RequestId { unique: 2, resent: false };
        let inner = RequestId { unique: 4, resent: true };
        assert_eq!(request(volume), None);
        let (seen, recorded) = serve(volume, outer, |served| {
            let (seen, _) = serve(served, inner, request);
            (seen, request(served))
        });
        assert_eq!((seen, recorded.is_none()), ((Some(inner), Some(outer)), true));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(serve(volume, outer, |_| panic!("a call that fails")));
        }));
        assert_eq!((panicked.is_err(), request(volume)), (true, None));
    }
}
