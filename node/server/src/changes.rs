//! The delivery of changes to a node: numbered, repeated after each reconnection, acknowledged to the store last.
//!
//! A thread takes a batch from the store, publishes it in parts, and waits until the node has acknowledged all of them,
//! or the session ends. A task of the control connection sends what is published. So a node that is away holds the
//! thread, and with it the changes that wait for the store's acknowledgement, until its session ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use node_codec::session::{Acknowledged, Delivered, ENDED, LOST, write};
use node_codec::{CHANGES_PAGE_MAX, encode_changes};
use node_session::change::{Delivery, Outbox};
use node_session::{Boot, Moment};
use node_wire::header::HEAD_BYTES;
use node_wire::service::Notices;
use objstore_files::{Change, Changes};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::Clock;

/// The bytes of names in one notice: well below a head.
const PART_BYTES: usize = HEAD_BYTES as usize / 2;
/// What a change takes besides its name, at most.
const CHANGE_BYTES: usize = 24;

/// The undelivered changes of one session.
pub(crate) struct Deliveries {
    boot: Boot,
    state: Mutex<State>,
    moved: Condvar,
    published: Notify,
}

struct State {
    outbox: Outbox<Bytes>,
    /// The stream of the store ended: 1, or 2 if changes were lost.
    end: Option<u32>,
    /// Nothing is delivered any more.
    is_over: bool,
    is_followed: bool,
    sender: Option<JoinHandle<()>>,
}

impl Deliveries {
    pub(crate) fn new(boot: Boot, most: usize) -> Self {
        let outbox = Outbox::new(most);
        let state = State { outbox, end: None, is_over: false, is_followed: false, sender: None };
        Self { boot, state: Mutex::new(state), moved: Condvar::new(), published: Notify::new() }
    }

    /// Whether this is the first time that the node follows the changes.
    pub(crate) fn begin(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().is_followed, true)
    }

    /// Takes the changes of the store until they end or the session does.
    pub(crate) fn take(&self, mut changes: Box<dyn Changes>, clock: &Clock) {
        // A thread that panics delivers nothing more, and the node must not believe that nothing changes.
        let _ends = Ends(self);
        while let Some(batch) = changes.next() {
            let last = self.publish(&batch, clock());
            if !self.wait(last) {
                return;
            }
            changes.acknowledge();
        }
        self.state.lock().end = Some(if changes.is_lost() { LOST } else { ENDED });
        self.published.notify_one();
    }

    /// The changes cannot be delivered any more, unless they ended before: the node drops its caches.
    pub(crate) fn lose(&self) {
        self.state.lock().end.get_or_insert(LOST);
        self.published.notify_one();
    }

    /// Publishes a batch in parts, each of which fits into a notice.
    fn publish(&self, batch: &[Change], now: Moment) -> u64 {
        let state = &mut *self.state.lock();
        for part in parts(batch) {
            state.outbox.publish(encode_changes(part).into(), now);
        }
        self.published.notify_one();
        state.outbox.published()
    }

    /// Waits until everything up to `last` is acknowledged; `false` if the session is over.
    fn wait(&self, last: u64) -> bool {
        let mut state = self.state.lock();
        self.moved.wait_while(&mut state, |state| !state.is_over && !state.outbox.is_acknowledged(last));
        !state.is_over
    }

    /// The node has applied changes.
    pub(crate) fn acknowledge(&self, acknowledged: Acknowledged) {
        if acknowledged.boot == self.boot.0 {
            self.state.lock().outbox.acknowledge(acknowledged.number);
            self.moved.notify_all();
        }
    }

    /// The number up to which the node has acknowledged changes.
    pub(crate) fn acknowledged(&self) -> u64 {
        let state = self.state.lock();
        state.outbox.undelivered().next().map_or(state.outbox.published(), |(oldest, _)| oldest - 1)
    }

    /// The unacknowledged parts of batches.
    pub(crate) fn count(&self) -> u64 {
        self.state.lock().outbox.undelivered().count() as u64
    }

    /// How long the node has left a change unacknowledged.
    pub(crate) fn owed(&self, now: Moment) -> Duration {
        self.state.lock().outbox.oldest().map_or(Duration::ZERO, |oldest| now.since(oldest))
    }

    /// Sends over this connection from now on, beginning with everything that is not acknowledged.
    pub(crate) fn send_over(self: &Arc<Self>, notices: Notices) {
        let sending = Arc::clone(self);
        let task = tokio::spawn(async move { sending.send(notices).await });
        if let Some(before) = self.state.lock().sender.replace(task) {
            before.abort();
        }
        // The task before may have taken the notification with it.
        self.published.notify_one();
    }

    async fn send(&self, notices: Notices) {
        let mut sent = 0;
        loop {
            let (parts, end) = self.behind(sent);
            for (number, changes) in parts {
                let notice = Delivered { boot: self.boot.0, number, changes, end: 0 };
                if notices.send(write(&notice)).await.is_err() {
                    return;
                }
                sent = number;
            }
            if let Some(end) = end {
                let notice = Delivered { boot: self.boot.0, number: 0, changes: Bytes::new(), end };
                // Without a connection, the next one receives it.
                let _ = notices.send(write(&notice)).await;
                return;
            }
            self.published.notified().await;
        }
    }

    /// What was published behind a number, and how the stream ended.
    fn behind(&self, sent: u64) -> (Vec<(u64, Bytes)>, Option<u32>) {
        let state = self.state.lock();
        let mut end = state.end;
        let mut parts = Vec::new();
        for (number, delivery) in state.outbox.undelivered().filter(|(number, _)| *number > sent) {
            match delivery {
                Delivery::One(changes) => parts.push((number, changes.clone())),
                // More than the outbox keeps: the caches are dropped as a whole.
                Delivery::All => end = Some(LOST),
            }
        }
        (parts, end)
    }

    /// The session is over, or is left to the next process: the thread of the changes ends.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        if let Some(sender) = state.sender.take() {
            sender.abort();
        }
        self.moved.notify_all();
    }
}

/// Ends the changes with their thread.
struct Ends<'a>(&'a Deliveries);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

/// A batch in parts that fit into a notice each.
fn parts(batch: &[Change]) -> impl Iterator<Item = &[Change]> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(CHANGES_PAGE_MAX).take_while(|change| {
            let name = if let Change::Entry { name, .. } = change { name.len() } else { 0 };
            bytes += name + CHANGE_BYTES;
            bytes <= PART_BYTES
        });
        let (part, left) = rest.split_at(fits.count().max(1).min(rest.len()));
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_into_parts_that_fit_into_a_notice() {
        let entry = |number: usize| Change::Entry { parent: u64::MAX, name: format!("{number:0255}") };
        let batch: Vec<_> = (0..9000).map(entry).chain((0..9000).map(|_| Change::Content { ino: u64::MAX })).collect();
        let parts: Vec<_> = parts(&batch).collect();
        assert_eq!(parts.concat(), batch);
        assert!(parts.iter().all(|part| part.len() <= CHANGES_PAGE_MAX));
        assert!(parts.iter().all(|part| encode_changes(part).len() < HEAD_BYTES as usize - 1024));
        assert_eq!(super::parts(&[]).count(), 0);
    }
}
