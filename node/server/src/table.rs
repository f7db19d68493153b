//! All sessions that are open here, and the leases of those that the store has recorded and that are not back yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use node_session::lease::Granted;
use node_session::{Moment, SessionId, Terms};
use node_wire::refusal::{Reason, Refusal};
use parking_lot::Mutex;

use crate::session::Session;

/// What is left of a lease, and how old it is.
type LeaseTimes = (Duration, Duration);

/// The sessions.
pub(crate) struct Table {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<SessionId, Arc<Session>>,
    /// Those that the store is just opening.
    opening: HashSet<SessionId>,
    absent: HashMap<SessionId, Granted>,
    is_stopped: bool,
}

/// What a node finds that opens a session.
pub(crate) enum Found {
    /// It is open.
    Open(Arc<Session>),
    /// The caller opens it at the store, and then calls [`Table::opened`].
    Absent,
}

impl Table {
    /// A table for so many sessions. Those that the store recorded get a lease.
    pub(crate) fn new(most: usize, recorded: impl IntoIterator<Item = SessionId>, terms: Terms, now: Moment) -> Self {
        let absent = recorded.into_iter().map(|id| (id, Granted::new(terms, now))).collect();
        Self { most, state: Mutex::new(State { absent, ..State::default() }) }
    }

    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.state.lock().open.get(&id).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.state.lock().open.len()
    }

    /// A node wants to open a session.
    ///
    /// # Errors
    /// The refusal that the node receives.
    pub(crate) fn begin(&self, id: SessionId) -> Result<Found, Refusal> {
        let state = &mut *self.state.lock();
        if let Some(session) = state.open.get(&id) {
            return Ok(Found::Open(Arc::clone(session)));
        }
        if state.is_stopped {
            return Err(Refusal::new(Reason::Stopping, "the server is stopping; connect again"));
        }
        let count = state.open.len() + state.opening.len();
        if count >= self.most && !state.absent.contains_key(&id) {
            let why = format!("the store has {count} sessions, as many as it accepts; unmount one or try again later");
            return Err(Refusal::new(Reason::Busy, why));
        }
        if !state.opening.insert(id) {
            return Err(Refusal::new(Reason::Busy, "the session is being opened; try again"));
        }
        Ok(Found::Absent)
    }

    /// The store opened the session, or refused.
    pub(crate) fn opened(&self, id: SessionId, session: Option<Arc<Session>>) -> bool {
        let state = &mut *self.state.lock();
        state.opening.remove(&id);
        let Some(session) = session.filter(|_| !state.is_stopped) else { return false };
        state.absent.remove(&id);
        state.open.insert(id, session);
        true
    }

    /// Removes a session, and says whether it was there.
    pub(crate) fn remove(&self, id: SessionId) -> Option<Arc<Session>> {
        self.state.lock().open.remove(&id)
    }

    /// Takes a recorded session that is not back, so that nobody else ends it.
    pub(crate) fn forget(&self, id: SessionId) -> bool {
        self.state.lock().absent.remove(&id).is_some()
    }

    /// All open sessions, and those that are not back with what is left of their leases and how old they are.
    pub(crate) fn all(&self, now: Moment) -> (Vec<Arc<Session>>, Vec<(SessionId, LeaseTimes)>) {
        let state = self.state.lock();
        let absent = state.absent.iter().map(|(id, lease)| (*id, (lease.left(now), lease.age(now))));
        (state.open.values().cloned().collect(), absent.collect())
    }

    /// Sessions whose lease is over: open ones, and recorded ones that did not come back.
    pub(crate) fn overdue(&self, now: Moment) -> (Vec<Arc<Session>>, Vec<SessionId>) {
        let state = &mut *self.state.lock();
        let over =
            state.open.values().filter(|session| !session.is_closed() && session.is_overdue(now)).cloned().collect();
        let is_lost = |id: &SessionId, lease: &Granted| lease.is_over(now) && !state.opening.contains(id);
        let lost: Vec<_> = state.absent.iter().filter(|(id, lease)| is_lost(id, lease)).map(|(id, _)| *id).collect();
        state.absent.retain(|id, _| !lost.contains(id));
        (over, lost)
    }

    /// Opens no more sessions; all that are open.
    pub(crate) fn stop(&self) -> Vec<Arc<Session>> {
        let state = &mut *self.state.lock();
        state.is_stopped = true;
        state.open.drain().map(|(_, session)| session).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    #[test]
    fn a_recorded_session_that_does_not_come_back_is_ended_once_its_lease_is_over() {
        let terms = Terms { lease: Duration::from_millis(1000), rate_difference_ppm: 0, ..Terms::default() };
        let recorded = [1, 2].map(SessionId);
        let table = Table::new(2, recorded, terms, at(0));
        assert!(table.overdue(at(1000)).1.is_empty());
        // The store is just opening one of them.
        assert!(matches!(table.begin(SessionId(1)), Ok(Found::Absent)));
        assert_eq!(table.overdue(at(1001)).1, [SessionId(2)]);
        assert_eq!(table.overdue(at(1002)).1, []);
        table.opened(SessionId(1), None);
        assert_eq!(table.overdue(at(1003)).1, [SessionId(1)]);
    }

    #[test]
    fn sessions_are_bounded_and_one_that_is_recorded_always_comes_back() {
        let table = Table::new(1, [SessionId(1)], Terms::default(), at(0));
        assert!(matches!(table.begin(SessionId(2)), Ok(Found::Absent)));
        let reason = |id| table.begin(SessionId(id)).err().map(|refusal| refusal.reason);
        assert_eq!(reason(2), Some(Reason::Busy), "it is being opened");
        assert_eq!(reason(3), Some(Reason::Busy), "there are as many as there may be");
        assert!(matches!(table.begin(SessionId(1)), Ok(Found::Absent)));
        assert!(table.stop().is_empty());
        assert_eq!(reason(4), Some(Reason::Stopping));
    }
}
