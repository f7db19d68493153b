//! References that the kernel returns, on their way to the store.
//!
//! The kernel does not wait for the answer to FORGET, and sends thousands when memory is short. So they are sent behind, some
//! at a time. The store adds and subtracts: their order among other calls does not matter.
//!
//! If this process dies, those that wait are not returned: the store keeps what they name until the session ends, as it
//! does for a FORGET that the process had read and not sent.

use std::collections::VecDeque;
use std::sync::Arc;

use objstore_files::{Context, NameOp};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::call::one;
use crate::link::Link;

/// The most that wait; beyond, a FORGET is sent by the thread that serves it.
const WAITING_MAX: usize = 1 << 16;
/// How many are under way at a time.
const TOGETHER: usize = 16;

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

    fn take(&self) -> Option<(u64, u64)> {
        self.waiting.lock().pop_front()
    }
}

/// Sends what waits, until the task is dropped.
pub(crate) async fn send(link: Arc<Link>) {
    let mut sending = JoinSet::new();
    loop {
        while sending.len() < TOGETHER
            && let Some((ino, count)) = link.forgets.take()
        {
            let link = Arc::clone(&link);
            sending.spawn(async move {
                let Some(session) = link.about.get().map(|about| about.number) else { return };
                let context = Context { session, caller: None, request: None };
                if let Err(error) = one(&link, &context, NameOp::Forget { ino, count }.into(), &[]).await {
                    tracing::debug!(ino, %error, "cannot return inode references to the store; they end with the session");
                }
            });
        }
        if sending.is_empty() {
            link.forgets.added.notified().await;
        } else {
            // A panic is that task's own.
            let _ = sending.join_next().await;
        }
    }
}
