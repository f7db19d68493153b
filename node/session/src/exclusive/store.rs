//! The store's side of the exclusive lease of one volume.

use crate::SessionId;

/// Who has the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// All sessions alike.
    #[default]
    Shared,
    /// One session.
    Held(SessionId),
    /// One session still, but another user waits for it.
    Recalled(SessionId),
}

/// Whether a use of the volume may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Now,
    /// It waits, and this session has to be sent a recall.
    Recall {
        /// The session that has the volume.
        session: SessionId,
        /// The number of its grant.
        grant: u64,
    },
    /// It waits; the recall is under way.
    Wait,
}

/// The exclusive lease of one volume.
#[derive(Clone, Debug, Default)]
pub struct Exclusive {
    state: State,
    last: u64,
}

impl Exclusive {
    /// The lease as a store that opens finds it recorded: held by this session under this grant. It may have changes
    /// that the store lacks until it resumes and returns the lease, or its session ends.
    pub fn recorded(session: SessionId, grant: u64) -> Self {
        Self { state: State::Held(session), last: grant }
    }

    /// The lease of a volume that no session holds exclusively, whose last grant had this number.
    pub fn shared(last: u64) -> Self {
        Self { state: State::Shared, last }
    }

    /// Grants the volume to a session, if it is its only user (`alone`); the number of the grant, to be recorded before
    /// it is sent.
    pub fn grant(&mut self, session: SessionId, alone: bool) -> Option<u64> {
        match self.state {
            State::Held(holder) if holder == session => Some(self.last),
            State::Shared if alone => {
                self.state = State::Held(session);
                self.last += 1;
                Some(self.last)
            }
            _ => None,
        }
    }

    /// Whether a user may use the volume: a session, or S3 (`None`).
    pub fn admit(&mut self, user: Option<SessionId>) -> Admission {
        match self.state {
            State::Held(holder) | State::Recalled(holder) if Some(holder) == user => Admission::Now,
            State::Shared => Admission::Now,
            State::Held(session) => {
                self.state = State::Recalled(session);
                Admission::Recall { session, grant: self.last }
            }
            State::Recalled(_) => Admission::Wait,
        }
    }

    /// The session that is being recalled, with the number of its grant: to be sent again until it returns.
    pub fn recalled(&self) -> Option<(SessionId, u64)> {
        match self.state {
            State::Recalled(session) => Some((session, self.last)),
            State::Shared | State::Held(_) => None,
        }
    }

    /// The session that has the volume.
    pub fn holder(&self) -> Option<SessionId> {
        match self.state {
            State::Held(session) | State::Recalled(session) => Some(session),
            State::Shared => None,
        }
    }

    /// The session returned the grant of this number; `false` if it does not have it.
    pub fn returned(&mut self, session: SessionId, grant: u64) -> bool {
        let has = self.holder() == Some(session) && self.last == grant;
        if has {
            self.state = State::Shared;
        }
        has
    }

    /// The session ended: its lease was over, or it was fenced.
    pub fn ended(&mut self, session: SessionId) {
        if self.holder() == Some(session) {
            self.state = State::Shared;
        }
    }
}
