//! The changes of others: received in order, handed to the mount, acknowledged when the mount has applied them.

use std::sync::mpsc::{Receiver, Sender, channel};

use node_codec::decode_changes;
use node_codec::session::{Acknowledged, Delivered, LOST};
use node_session::Boot;
use node_session::change::{Delivery, Inbox, Received};
use objstore_files::Change;
use parking_lot::Mutex;

/// A part of a batch.
pub(crate) struct Part {
    pub(crate) boot: Boot,
    pub(crate) number: u64,
    pub(crate) changes: Vec<Change>,
}

/// The changes of a session, on their way to the mount.
#[derive(Default)]
pub(crate) struct Stream(Mutex<State>);

#[derive(Default)]
struct State {
    inbox: Option<Inbox>,
    boot: Boot,
    acknowledged: u64,
    sender: Option<Sender<Part>>,
    is_followed: bool,
    is_closed: bool,
    is_lost: bool,
}

/// What follows from a notice.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    /// Tell the store again how far the changes are applied.
    Acknowledge(u64),
    /// A change before this one is missing: have all delivered again.
    Follow,
}

impl Stream {
    /// The session is open with this opening of the store, to which changes up to `acknowledged` are applied.
    pub(crate) fn opened(&self, boot: Boot, acknowledged: u64) {
        let state = &mut *self.0.lock();
        if state.inbox.is_some() && state.boot == boot {
            return;
        }
        match &mut state.inbox {
            // The store counts from 1 again.
            Some(inbox) => {
                inbox.resumed(boot);
                // What was not delivered before is not known any more.
                state.drop_caches();
            }
            inbox @ None => *inbox = Some(Inbox::inherited(boot, acknowledged)),
        }
        (state.boot, state.acknowledged) = (boot, 0);
    }

    /// Has the mount drop all of its caches.
    pub(crate) fn drop_caches(&self) {
        self.0.lock().drop_caches();
    }

    /// Whether the mount wants the changes.
    pub(crate) fn is_followed(&self) -> bool {
        let state = self.0.lock();
        state.is_followed && !state.is_closed
    }

    /// The mount wants the changes.
    pub(crate) fn follow(&self) -> Receiver<Part> {
        let (sender, receiver) = channel();
        let state = &mut *self.0.lock();
        state.is_followed = true;
        state.sender = Some(sender).filter(|_| !state.is_closed);
        receiver
    }

    /// A notice of the store.
    pub(crate) fn receive(&self, notice: &Delivered) -> Then {
        if notice.end != 0 {
            if Boot(notice.boot) == self.0.lock().boot {
                self.close(notice.end == LOST);
            }
            return Then::Nothing;
        }
        let changes = match decode_changes(&notice.changes) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::error!(%error, "changes of the store cannot be read: all caches are dropped");
                self.close(true);
                return Then::Nothing;
            }
        };
        let state = &mut *self.0.lock();
        let (boot, number) = (Boot(notice.boot), notice.number);
        let Some(inbox) = &mut state.inbox else { return Then::Nothing };
        match inbox.receive(boot, number, &Delivery::One(())) {
            Received::Apply => {
                if let Some(sender) = &state.sender {
                    // Without a receiver, nobody has caches.
                    let _ = sender.send(Part { boot, number, changes });
                }
                Then::Nothing
            }
            Received::Repeated if number <= state.acknowledged => Then::Acknowledge(state.acknowledged),
            Received::Gap => Then::Follow,
            Received::Repeated | Received::Foreign => Then::Nothing,
        }
    }

    /// Has the mount drop what it has cached of what this node knows to be different.
    pub(crate) fn tell(&self, changes: Vec<Change>) {
        let state = self.0.lock();
        if let Some(sender) = &state.sender {
            // Number 0 is no change of the store. Without a receiver, nobody has caches.
            let _ = sender.send(Part { boot: state.boot, number: 0, changes });
        }
    }

    /// The mount has applied a part; the message for the store, unless it is one of an earlier opening.
    pub(crate) fn applied(&self, boot: Boot, number: u64) -> Option<Acknowledged> {
        let state = &mut *self.0.lock();
        if state.boot != boot || number == 0 {
            return None;
        }
        state.acknowledged = state.acknowledged.max(number);
        Some(Acknowledged { boot: boot.0, number })
    }

    /// Ends the changes; `lost` if the caches may be wrong from now on.
    pub(crate) fn close(&self, lost: bool) {
        let state = &mut *self.0.lock();
        if !state.is_closed {
            (state.is_closed, state.is_lost, state.sender) = (true, lost, None);
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.lock().is_lost
    }
}

impl State {
    fn drop_caches(&self) {
        if let Some(sender) = &self.sender {
            // Number 0 is no change of the store. Without a receiver, nobody has caches.
            let _ = sender.send(Part { boot: self.boot, number: 0, changes: vec![Change::All] });
        }
    }
}

#[cfg(test)]
mod tests {
    use node_codec::encode_changes;

    use super::*;

    fn notice(boot: u64, number: u64) -> Delivered {
        let changes = encode_changes(&[Change::Content { ino: number }]).into();
        Delivered { boot, number, changes, end: 0 }
    }

    #[test]
    fn changes_are_handed_on_once_and_acknowledged_again_when_they_are_repeated() {
        let stream = Stream::default();
        let parts = stream.follow();
        stream.opened(Boot(1), 4);
        assert_eq!(stream.receive(&notice(1, 5)), Then::Nothing);
        assert_eq!(stream.receive(&notice(1, 5)), Then::Nothing, "the mount is still applying it");
        assert!(stream.applied(Boot(1), 5).is_some());
        assert_eq!(stream.receive(&notice(1, 5)), Then::Acknowledge(5));
        assert_eq!(stream.receive(&notice(1, 7)), Then::Follow);
        stream.opened(Boot(2), 0);
        assert_eq!(stream.receive(&notice(1, 6)), Then::Nothing);
        assert_eq!(stream.receive(&notice(2, 1)), Then::Nothing);
        assert!(stream.applied(Boot(1), 6).is_none(), "not acknowledged to another opening");
        assert_eq!(parts.try_iter().map(|part| part.number).collect::<Vec<_>>(), [5, 0, 1]);
        stream.receive(&Delivered { boot: 2, number: 0, changes: Default::default(), end: LOST });
        assert!(parts.recv().is_err() && stream.is_lost());
    }
}
