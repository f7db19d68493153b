//! The slots of the session: each call that changes or counts something holds one until its answer is known.

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
    table: Mutex<Table<()>>,
}

/// A slot that a call holds; free again when it is dropped.
pub(crate) struct Slot<'a> {
    held: &'a Held,
    call: CallId,
    _place: SemaphorePermit<'a>,
}

impl Slots {
    /// The session is open, with so many slots.
    pub(crate) fn opened(&self, count: u32, boot: Boot) {
        let free = Semaphore::new(usize::try_from(count).unwrap_or(1).max(1));
        // Set once: the number of slots stays the same while the session lives.
        let _ = self.0.set(Held { free, table: Mutex::new(Table::new(count.max(1), boot)) });
    }

    /// Waits for a free slot; `None` before the session is open.
    pub(crate) async fn take(&self) -> Option<Slot<'_>> {
        let held = self.0.get()?;
        let place = held.free.acquire().await.ok()?;
        let call = held.table.lock().begin(())?;
        Some(Slot { held, call, _place: place })
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
