//! A call that is not answered yet, counted for its session and for the server until it is.
//!
//! - It is answered once, from whichever thread knows the answer. One that is dropped was cancelled.

use std::sync::Arc;

use node_wire::refusal::Refusal;
use node_wire::service::{Answer, Reply};

use crate::session::Session;
use crate::shared::Counters;

/// A call without an answer.
pub(crate) struct Unanswered {
    reply: Reply,
    counters: Arc<Counters>,
    under_way: Option<UnderWay>,
}

/// Counts a call of a session while it is under way.
struct UnderWay(Arc<Session>);

impl Unanswered {
    pub(crate) fn new(reply: Reply, counters: Arc<Counters>) -> Self {
        Self { reply, counters, under_way: None }
    }

    /// The call is one of this session.
    pub(crate) fn of(self, session: &Arc<Session>) -> Self {
        session.counts.call();
        Self { under_way: Some(UnderWay(Arc::clone(session))), ..self }
    }

    /// Completes when nobody receives the answer any more.
    pub(crate) async fn abandoned(&self) {
        self.reply.abandoned().await;
    }

    /// Sends the answer.
    pub(crate) fn send(self, answered: Result<Answer, Refusal>) {
        let Self { reply, counters, under_way } = self;
        counters.count(&answered);
        if let (Some(UnderWay(session)), Ok(_)) = (&under_way, &answered) {
            session.counts.answer();
        }
        // Counted before the node has the answer.
        drop(under_way);
        reply.send(answered);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.counts.called();
    }
}
