//! What all connections share, and the end of sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use node_session::{Incarnation, SessionId};
use node_wire::credential::Claim;
use node_wire::refusal::{Reason, Refusal};
use node_wire::server::Refusals;
use node_wire::service::{Answer, Notices, Peer};

use crate::Clock;
use crate::connections::{Connections, Counted};
use crate::ended::{Ended, EndedSession, Named, Why};
use crate::session::Session;
use crate::store::Store;
use crate::table::Table;
use crate::workers::{Share, Workers};

/// The pause before a session is ended again that could not be.
const END_AGAIN: Duration = Duration::from_secs(1);

/// What a connection was admitted as.
pub struct Identity {
    pub(crate) session: SessionId,
    pub(crate) claim: Claim,
    /// The process for which this control connection has opened the session.
    pub(crate) incarnation: OnceLock<u64>,
    /// Reaches the node over this connection.
    pub(crate) notices: OnceLock<Notices>,
    /// Counts this connection while it lives.
    pub(crate) counted: OnceLock<Counted>,
}

/// What all connections share.
pub(crate) struct Shared<S> {
    pub(crate) store: Arc<S>,
    pub(crate) table: Table,
    pub(crate) clock: Clock,
    pub(crate) workers: Workers,
    /// The threads for what sessions ask for besides calls: a renewal waits for no call.
    pub(crate) control: Workers,
    /// The threads on which connections are admitted and sessions opened.
    pub(crate) admissions: Share,
    /// The threads on which sessions are ended, which may wait for the end of other sessions.
    pub(crate) endings: Share,
    pub(crate) counters: Arc<Counters>,
    pub(crate) connections: Connections,
    pub(crate) ended: Ended,
}

impl<S: Store> Shared<S> {
    /// The open session of a connection.
    ///
    /// # Errors
    /// The refusal that the node receives: it opens the session first.
    pub(crate) fn session(&self, peer: &Peer<Identity>) -> Result<Arc<Session>, Refusal> {
        let Some(session) = self.table.find(peer.identity.session) else {
            return Err(Refusal::new(Reason::Busy, "the session is not open here; open it on the control connection"));
        };
        session.belongs(&peer.node, &peer.identity.claim)?;
        Ok(session)
    }

    /// The session that a control connection has opened, for the process that has the session now: an earlier process
    /// neither takes nor acknowledges its changes.
    ///
    /// # Errors
    /// The refusal that the node receives.
    pub(crate) fn opened(&self, peer: &Peer<Identity>) -> Result<Arc<Session>, Refusal> {
        let session = self.session(peer)?;
        let Some(incarnation) = peer.identity.incarnation.get() else {
            return Err(Refusal::new(Reason::Busy, "the session is not open on this connection; open it first"));
        };
        session.check(Incarnation(*incarnation))?;
        Ok(session)
    }

    /// Ends a session: no more calls, then the store's transaction, then its changes.
    pub(crate) async fn end(self: &Arc<Self>, session: &Arc<Session>, why: Why) {
        session.close();
        let (shared, ending) = (Arc::clone(self), Arc::clone(session));
        // In a task of its own: it is finished also if the connection that asked for it ends.
        let ended = tokio::spawn(async move {
            let named = shared.named(ending.id).await;
            shared.end_at_the_store(ending.id).await;
            let stopping = Arc::clone(&ending);
            shared.endings.run(move || stopping.stop()).await;
            // Two may end it at the same time: it ended once.
            if shared.table.remove(ending.id).is_some() {
                shared.ended(ending.id, named, why);
            }
        });
        let _ = ended.await;
    }

    /// Ends a session that is recorded and not open here, because its node did not come back, or from outside.
    pub(crate) async fn end_recorded(&self, id: SessionId, why: Why) {
        let named = self.named(id).await;
        self.end_at_the_store(id).await;
        if named != Named::default() {
            self.ended(id, named, why);
        }
    }

    fn ended(&self, id: SessionId, named: Named, why: Why) {
        self.ended.add(EndedSession { id, named, why, at: (self.clock)() });
    }

    /// Whose session it is, for operators.
    pub(crate) async fn named(&self, id: SessionId) -> Named {
        let store = Arc::clone(&self.store);
        self.endings.run(move || store.named(id)).await.unwrap_or_default()
    }

    /// Ends a session at the store, however often it takes: until then others wait for it.
    pub(crate) async fn end_at_the_store(&self, id: SessionId) {
        loop {
            let store = Arc::clone(&self.store);
            match self.endings.run(move || store.end(id)).await {
                Some(Ok(())) => return,
                Some(Err(error)) => tracing::error!(session = ?id, %error, "a session cannot be ended; trying again"),
                None => tracing::error!(session = ?id, "the end of a session panicked; trying again"),
            }
            tokio::time::sleep(END_AGAIN).await;
        }
    }
}

/// What a server counts.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) answered: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) expired: AtomicU64,
    /// Refused openings of sessions.
    pub(crate) openings: Refusals,
}

impl Counters {
    pub(crate) fn count(&self, answered: &Result<Answer, Refusal>) {
        let counter = if answered.is_ok() { &self.answered } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
