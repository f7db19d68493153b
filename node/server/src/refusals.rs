//! Refusals of sessions that more than one module gives.

use node_wire::refusal::{Reason, Refusal};

/// The refusal for a process of a node that is not the last one.
pub(crate) fn superseded() -> Refusal {
    Refusal::new(Reason::Session, "a later process of the node has the session")
}

/// The refusal for a session that is not there any more.
pub(crate) fn fenced() -> Refusal {
    Refusal::new(Reason::Session, "the session is ended: its lease was over, or it was ended from outside; mount again")
}
