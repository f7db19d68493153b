//! What a store supplies to its listener for nodes.

use std::pin::Pin;
use std::sync::Arc;

use node_codec::session::{Leased, Queued};
use node_session::slot::Outcome;
use node_session::{Boot, CallId, Digest, Incarnation, Position, SessionId, Terms};
use node_wire::credential::{Claim, Secret};
use node_wire::refusal::Refusal;
use objstore_base::error::Result;
use objstore_files::{Answer, Context, FileService, Op};

use crate::ended::Named;

/// A store, as its listener for nodes sees it. All methods may wait for the disk.
pub trait Store: Send + Sync + 'static {
    /// The number of this opening of the store.
    fn boot(&self) -> Boot;

    /// The secret of an access key; `None` if the key is unknown or revoked.
    fn secret(&self, access_key: &str) -> Option<Secret>;

    /// Decides about a connection of the node of this name, whose proof is checked. `certificate` (DER) is of the authority
    /// for nodes, if the listener has one.
    ///
    /// # Errors
    /// The refusal that the node receives.
    fn admit(&self, claim: &Claim, node: &str, certificate: Option<&[u8]>) -> std::result::Result<(), Refusal>;

    /// Opens a session, or goes on with one that the store has recorded. It is recorded durably when this returns.
    ///
    /// # Errors
    /// The refusal that the node receives; [`Reason::Session`](node_wire::refusal::Reason::Session) if a session that
    /// was open before is not there any more.
    fn open(&self, opening: &Opening) -> std::result::Result<Opened, Refusal>;

    /// Ends a session in one transaction, which fences it: nothing that it sent is executed after this returns. A session
    /// that is not there is no error.
    ///
    /// # Errors
    /// The session is not ended; this is tried again.
    fn end(&self, session: SessionId) -> Result<()>;

    /// Whose session this is, for operators and the log. Asked before the session is ended.
    fn named(&self, _session: SessionId) -> Named {
        Named::default()
    }

    /// The sessions that the store has recorded. Each gets a lease from the start of the listener on, and is ended if its
    /// node does not come back.
    fn recorded(&self) -> Vec<SessionId> {
        Vec::new()
    }
}

/// Which session a node opens.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The session's id, chosen by the node.
    pub session: SessionId,
    /// The process of the node.
    pub incarnation: Incarnation,
    /// Whether the session was open before.
    pub resumes: bool,
    /// The node's name.
    pub node: String,
    /// What the node was admitted by.
    pub claim: Claim,
    /// The bucket; empty if a ticket names it.
    pub bucket: String,
    /// The directory of the bucket that becomes the root; empty for the whole bucket.
    pub prefix: String,
    /// Whether the node will change nothing.
    pub read_only: bool,
}

/// An open session.
pub struct Opened {
    /// The session.
    pub session: Arc<dyn StoredSession>,
    /// Its terms.
    pub terms: Terms,
}

/// A session, as the store executes its calls.
pub trait StoredSession: Send + Sync {
    /// The files: for calls that change nothing, the changes of others, and requests whose answer has arrived.
    fn files(&self) -> &dyn FileService;

    /// Executes a call that changes or counts something. A store that records the outcomes of slots writes this one in
    /// the transaction of the change.
    ///
    /// # Errors
    /// Those of the operation.
    fn change(&self, _call: (CallId, Digest), context: &Context, op: Op<'_>, data: &[u8]) -> Result<Done> {
        Ok(Done { answer: self.files().call(context, op, data)?, position: None })
    }

    /// Whether the store leases volumes: without, a node does not ask.
    fn leases(&self) -> bool {
        false
    }

    /// Leases the volume to this session, if it is the only user of it.
    ///
    /// # Errors
    /// Those of the store.
    fn lease(&self) -> Result<Option<Leased>> {
        Ok(None)
    }

    /// The node gives a lease back.
    fn give_back(&self, _grant: u64) {}

    /// Makes a change that the node has answered; without effect if it was made before.
    ///
    /// # Errors
    /// Those of the operation: then it is not made. ESTALE without a lease.
    fn make_queued(&self, _queued: &Queued, _context: &Context, _op: Op<'_>, _data: &[u8]) -> Result<()> {
        Err(objstore_base::error::Posix::Stale.into())
    }

    /// Changes up to this number are not made any more.
    ///
    /// # Errors
    /// Those of the store.
    fn pass_queued(&self, _number: u64) -> Result<()> {
        Ok(())
    }

    /// Completes when all other mounts have applied every change that was made before this call, or have ended: a change
    /// is answered after that.
    fn settled(&self) -> Settled {
        Box::pin(std::future::ready(()))
    }

    /// Whether the store has ended the session by itself, for example because its volume is no longer published to the
    /// node. It is asked regularly, and the node is then told.
    fn is_over(&self) -> bool {
        false
    }

    /// The outcome that is recorded for a slot; its reply is made by [`node_codec::encode_reply`].
    fn last(&self, _slot: u32) -> Option<Outcome> {
        None
    }
}

/// The acknowledgement of a change by all other mounts.
pub type Settled = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executed call.
#[derive(Debug)]
pub struct Done {
    /// Its answer.
    pub answer: Answer,
    /// Where the change is committed; `None` if there was none, or the store does not say.
    pub position: Option<Position>,
}
