//! The slots of a session: which call runs, which waits for the one that runs, and which is answered again.

use std::collections::HashMap;

use bytes::Bytes;
use node_session::slot::{Begin, Finished, Outcome, Outcomes, Table};
use node_session::{CallId, Digest, Incarnation, SessionId};
use node_wire::refusal::{Reason, Refusal};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::besides::Besides;
use crate::refusals::superseded;
use crate::store::StoredSession;

/// How many slots a process of a node has: as many calls of it change something at once.
pub(crate) const SLOTS: u32 = 64;
/// How many processes of a node, one after the other, have slots of their own. The outcomes of the calls of one stay while
/// the next begins: the kernel sends it again what the one before did not answer.
const PROCESSES: u32 = 16;

/// The first slot of a process.
pub(crate) fn first_slot(incarnation: Incarnation) -> u32 {
    let Incarnation(number) = incarnation;
    // Below the number of processes.
    (number % u64::from(PROCESSES)) as u32 * SLOTS
}

/// The reply of a call, once it has one.
pub(crate) type Pending = watch::Receiver<Option<Told>>;

/// A reply, and what its answer tells besides.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) reply: Bytes,
    pub(crate) besides: Besides,
}

/// The slots of one session.
pub(crate) struct Slots(Mutex<State>);

struct State {
    table: Table,
    /// The highest number of a call in any slot.
    last: u64,
    running: HashMap<CallId, Pending>,
}

/// What is done with a call.
pub(crate) enum Step {
    /// It is executed, and its reply sent here.
    Run(watch::Sender<Option<Told>>),
    /// Its reply follows here.
    Wait(Pending),
    /// This is its reply.
    Reply(Bytes),
}

/// The outcomes that the store recorded for the session.
struct Recorded<'a>(&'a dyn StoredSession);

impl Outcomes for Recorded<'_> {
    fn last(&self, _session: SessionId, slot: u32) -> Option<Outcome> {
        self.0.last(slot)
    }
}

impl Slots {
    /// The slots of a session in which the store has recorded outcomes.
    pub(crate) fn new(session: SessionId, incarnation: Incarnation, stored: &dyn StoredSession) -> Self {
        let table = Table::new(session, SLOTS * PROCESSES, incarnation);
        let recorded = (0..SLOTS * PROCESSES).filter_map(|slot| stored.last(slot));
        let last = recorded.map(|outcome| outcome.sequence).max().unwrap_or(0);
        Self(Mutex::new(State { table, last, running: HashMap::new() }))
    }

    /// The highest number of a call in any slot.
    pub(crate) fn last(&self) -> u64 {
        self.0.lock().last
    }

    /// A process of the node opens the session.
    ///
    /// # Errors
    /// Calls of an earlier process are still running; those that come from now on are refused.
    pub(crate) fn supersede(&self, incarnation: Incarnation) -> Result<(), Refusal> {
        if self.0.lock().table.supersede(incarnation) {
            return Ok(());
        }
        Err(Refusal::new(Reason::Busy, "calls of an earlier process of the node are still running; try again"))
    }

    /// Decides about a call.
    ///
    /// # Errors
    /// The refusal that the node receives.
    pub(crate) fn begin(
        &self,
        stored: &dyn StoredSession,
        incarnation: Incarnation,
        call: CallId,
        digest: Digest,
    ) -> Result<Step, Refusal> {
        let first = first_slot(incarnation);
        if !(first..first + SLOTS).contains(&call.slot) {
            let why = format!("slot {} is not one of the {SLOTS} from {first} on, which this process has", call.slot);
            return Err(Refusal::new(Reason::Protocol, why));
        }
        let state = &mut *self.0.lock();
        match state.table.begin(&Recorded(stored), incarnation, call, digest) {
            Begin::Run => {
                state.last = state.last.max(call.sequence);
                let (sender, pending) = watch::channel(None);
                state.running.insert(call, pending);
                Ok(Step::Run(sender))
            }
            Begin::InProgress => match state.running.get(&call) {
                Some(pending) => Ok(Step::Wait(pending.clone())),
                None => Err(Refusal::new(Reason::Busy, "the call is just ending; send it again")),
            },
            Begin::Replay(reply) => Ok(Step::Reply(reply.into())),
            Begin::Superseded => Err(superseded()),
            wrong @ (Begin::Stale | Begin::FalseRetry | Begin::Misused) => {
                let why = format!(
                    "slot {} with number {} is not used as slots are: {wrong:?}; this is a fault of the node",
                    call.slot, call.sequence
                );
                Err(Refusal::new(Reason::Protocol, why))
            }
        }
    }

    /// A call ended with this reply, or panicked. The reply is kept until the slot is used again.
    pub(crate) fn finish(&self, call: CallId, reply: Option<&Bytes>) {
        let state = &mut *self.0.lock();
        state.running.remove(&call);
        match reply {
            Some(reply) => state.table.finish(call, Finished::Unchanged(reply.to_vec())),
            None => state.table.abandon(call),
        }
    }
}
