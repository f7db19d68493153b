//! The slots of the session: each call that changes or counts something holds one until its answer is known.
//!
//! A call whose outcome the store has recorded holds its slot until the kernel has the answer: if this process dies before
//! that, the kernel asks the next one again, which finds the outcome in the slot.
//!
//! The answer to a change may wait for another mount, which may wait for a lookup of this one. So changes never hold all
//! slots.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use node_session::slot::{Effect, Slots as Table};
use node_session::{Boot, CallId};
use objstore_files::RequestId;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots, once the session is open.
#[derive(Default)]
pub(crate) struct Slots {
    held: OnceLock<Arc<Held>>,
    /// The slots of requests whose answer is on its way to the kernel.
    unanswered: Mutex<HashMap<u64, Vec<Slot>>>,
}

struct Held {
    free: Arc<Semaphore>,
    /// The slots that changes may hold.
    changing: Arc<Semaphore>,
    /// The number of this process's first slot at the store.
    first: u32,
    table: Mutex<Table<()>>,
}

/// A slot that a call holds; free again when it is dropped.
pub(crate) struct Slot {
    held: Arc<Held>,
    call: CallId,
    _places: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl Slots {
    /// The session is open, with so many slots from `first` on. Processes before this one have used numbers up to `last`.
    pub(crate) fn opened(&self, (first, count): (u32, u32), boot: Boot, last: u64) {
        let places = usize::try_from(count).unwrap_or(1).max(1);
        let (free, changing) =
            (Arc::new(Semaphore::new(places)), Arc::new(Semaphore::new((places - places / 4).max(1))));
        let used: Vec<_> = (0..count.max(1)).map(|slot| CallId { slot, sequence: last }).collect();
        let table = Mutex::new(Table::inherited(count.max(1), boot, &used));
        // Set once: the slots stay the same while the session lives.
        let _ = self.held.set(Arc::new(Held { free, changing, first, table }));
    }

    /// Waits for a free slot, for a call that may wait for other mounts or not; `None` before the session is open.
    pub(crate) async fn take(&self, waits: bool) -> Option<Slot> {
        let held = self.held.get()?;
        let changing = if waits { Some(Arc::clone(&held.changing).acquire_owned().await.ok()?) } else { None };
        let place = Arc::clone(&held.free).acquire_owned().await.ok()?;
        let call = held.table.lock().begin(())?;
        Some(Slot { held: Arc::clone(held), call, _places: (place, changing) })
    }

    /// Holds the slot of a request until the kernel has the answer.
    pub(crate) fn hold(&self, request: RequestId, slot: Slot) {
        // A request of the kernel may take several calls.
        self.unanswered.lock().entry(request.unique).or_default().push(slot);
    }

    /// The kernel has the answer to a request.
    pub(crate) fn answered(&self, request: RequestId) {
        let slots = self.unanswered.lock().remove(&request.unique);
        // Outside of the lock: it frees the slots.
        drop(slots);
    }
}

impl Slot {
    /// The number of the call, as the store knows its slot.
    pub(crate) fn call(&self) -> CallId {
        let CallId { slot, sequence } = self.call;
        CallId { slot: self.held.first + slot, sequence }
    }
}

impl Drop for Slot {
    /// The answer is known, or the session is lost: the caller drops it at no other time.
    fn drop(&mut self) {
        self.held.table.lock().answered(self.call, Effect::Unchanged);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn changes_that_wait_for_others_leave_slots_to_lookups() {
        let slots = Slots::default();
        slots.opened((0, 8), Boot(1), 0);
        let mut changes = Vec::new();
        while let Ok(slot) = timeout(Duration::from_millis(20), slots.take(true)).await {
            changes.push(slot.unwrap());
        }
        assert_eq!(changes.len(), 6);
        assert!(timeout(Duration::from_secs(10), slots.take(false)).await.unwrap().is_some());
        changes.pop();
        assert!(timeout(Duration::from_secs(10), slots.take(true)).await.unwrap().is_some());
    }
}
