//! The node's side of the exclusive lease of one volume.

/// How a node answers a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Send every change that the node answered itself, then call [`Delegation::flushed`] and return the grant.
    Flush,
    /// Return the grant at once: the node has answered nothing under it.
    Return,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Shared,
    /// The node answers changes itself.
    Exclusive(u64),
    /// The node sends the changes that it answered itself.
    Flushing(u64),
}

/// Whether this node answers changes of a volume itself.
#[derive(Clone, Debug, Default)]
pub struct Delegation {
    state: State,
    /// The number of the last recalled or returned grant: neither it nor an earlier one is used again.
    closed: u64,
}

impl Delegation {
    /// The store granted the volume; `false` if the grant is not to be used, because it was recalled before it arrived.
    pub fn granted(&mut self, grant: u64) -> bool {
        if grant > self.closed && self.state == State::Shared {
            self.state = State::Exclusive(grant);
        }
        self.state == State::Exclusive(grant)
    }

    /// Whether the node may answer changes itself. The lease of the session has to be fresh as well.
    pub fn may_answer(&self) -> bool {
        matches!(self.state, State::Exclusive(_))
    }

    /// The store recalls a grant.
    pub fn recall(&mut self, grant: u64) -> Recall {
        self.closed = self.closed.max(grant);
        match self.state {
            State::Exclusive(held) | State::Flushing(held) if held <= grant => {
                self.state = State::Flushing(held);
                Recall::Flush
            }
            _ => Recall::Return,
        }
    }

    /// The node gives the lease back by itself; the number of the grant to return after the flush.
    pub fn give_back(&mut self) -> Option<u64> {
        let State::Exclusive(grant) = self.state else { return None };
        self.recall(grant);
        Some(grant)
    }

    /// The store has every change that the node answered itself.
    pub fn flushed(&mut self) {
        self.state = State::Shared;
    }

    /// The session is lost, and with it every change that the node answered and did not send.
    pub fn lost(&mut self) {
        self.state = State::Shared;
    }
}
