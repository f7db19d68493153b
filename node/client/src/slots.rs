//! The slots of the session: each call that changes or counts something holds one until its answer is known.
//!
//! The answer to a change may wait for another mount, which may wait for a lookup of this one. So changes never hold all
//! slots.

use std::sync::OnceLock;

use node_session::slot::{Effect, Slots as Table};
use node_session::{Boot, CallId};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The slots, once the session is open.
#[derive(Default)]
pub(crate) struct Slots(OnceLock<Held>);

struct Held {
    free: Semaphore,
    /// The slots that changes may hold.
    changing: Semaphore,
    table: Mutex<Table<()>>,
}

/// A slot that a call holds; free again when it is dropped.
pub(crate) struct Slot<'a> {
    held: &'a Held,
    call: CallId,
    _places: (SemaphorePermit<'a>, Option<SemaphorePermit<'a>>),
}

impl Slots {
    /// The session is open, with so many slots.
    pub(crate) fn opened(&self, count: u32, boot: Boot) {
        let places = usize::try_from(count).unwrap_or(1).max(1);
        let (free, changing) = (Semaphore::new(places), Semaphore::new((places - places / 4).max(1)));
        // Set once: the number of slots stays the same while the session lives.
        let _ = self.0.set(Held { free, changing, table: Mutex::new(Table::new(count.max(1), boot)) });
    }

    /// Waits for a free slot, for a call that may wait for other mounts or not; `None` before the session is open.
    pub(crate) async fn take(&self, waits: bool) -> Option<Slot<'_>> {
        let held = self.0.get()?;
        let changing = if waits { Some(held.changing.acquire().await.ok()?) } else { None };
        let place = held.free.acquire().await.ok()?;
        let call = held.table.lock().begin(())?;
        Some(Slot { held, call, _places: (place, changing) })
    }
}

impl Slot<'_> {
    pub(crate) fn call(&self) -> CallId {
        self.call
    }
}

impl Drop for Slot<'_> {
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
        slots.opened(8, Boot(1));
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
