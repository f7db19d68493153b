//! References that the kernel returns, on their way to the store.
//!
//! The kernel does not wait for the answer to FORGET, and sends thousands when memory is short. So they are sent behind, some
//! at a time. The store adds and subtracts: their order among other calls does not matter.
//!
//! If this process dies, those that wait are not returned: the store keeps what they name until the session ends, as it
//! does for a FORGET that the process had read and not sent.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The most that wait; beyond, a FORGET is sent by the thread that serves it.
const WAITING_MAX: usize = 1 << 16;

/// The references that wait, by inode.
#[derive(Default)]
pub(crate) struct Forgets {
    waiting: Mutex<VecDeque<(u64, u64)>>,
    added: Notify,
}

impl Forgets {
    /// Returns references behind; whether there was room.
    pub(crate) fn add(&self, ino: u64, count: u64) -> bool {
        let mut waiting = self.waiting.lock();
        let has_room = waiting.len() < WAITING_MAX;
        if has_room {
            waiting.push_back((ino, count));
            self.added.notify_one();
        }
        has_room
    }

    /// Returns references behind that the node owned. Beyond twice the bound they end with the session, which is possible only
    /// while the store answers no FORGET.
    pub(crate) fn add_owned(&self, ino: u64, count: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < 2 * WAITING_MAX {
            waiting.push_back((ino, count));
            self.added.notify_one();
        }
    }

    /// The next ones that wait.
    pub(crate) fn take(&self) -> Option<(u64, u64)> {
        self.waiting.lock().pop_front()
    }

    /// Completes when some were added since this was called last.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_goes_in_order() {
        let forgets = Forgets::default();
        assert!((0..WAITING_MAX as u64).all(|ino| forgets.add(ino, 1)));
        assert!(!forgets.add(7, 1), "the thread that serves it sends it");
        assert_eq!((forgets.take(), forgets.take()), (Some((0, 1)), Some((1, 1))));
        assert!(forgets.add(7, 2));
    }
}
