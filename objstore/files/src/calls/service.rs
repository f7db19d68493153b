//! The trait of a store's side: every request that a mount makes of a store.

use std::time::Duration;

use objstore_base::error::Result;

use super::link::LinkStats;
use super::op::Op;
use super::reply::Answer;
use crate::attributes::Traits;
use crate::changes::Changes;
use crate::context::{Context, RequestId, SessionId};
use crate::local::LocalFiles;

/// The facts about a session that do not change while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The number that calls name the session by.
    pub number: u64,
    /// The session's id, if it is persistent: if it outlives the process that serves it.
    pub id: Option<SessionId>,
    /// Whether another process served the session before.
    pub inherited: bool,
    /// The run of the store, which distinguishes files opened in this run from those opened in earlier ones.
    pub life: u32,
    /// The root directory's inode.
    pub root: u64,
    /// The id of the bucket or snapshot. A later one of the same name has another.
    pub bucket_id: u64,
    /// Whether changes are refused.
    pub read_only: bool,
}

/// How a session stands, as this machine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStanding {
    /// Calls are answered.
    Served,
    /// The store is not reached: calls wait for it.
    Unreached,
    /// The session ended: every call fails.
    Lost,
}

/// The calls of an operation since the process serves the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trips {
    /// The name of the operation.
    pub operation: &'static str,
    /// How many calls were made.
    pub calls: u64,
    /// How many trips they took: a call that is answered from a cache takes none, and one that is sent again takes another.
    pub trips: u64,
}

/// The files of a bucket or snapshot, as one session of a mount uses them. Each implementation has its own way to open
/// a session.
///
/// All methods may wait for the store, so call them from plain threads. Dropping a service ends its session, unless that
/// is persistent: then it is left for the next process to take over, with everything the kernel holds.
pub trait FileService: Send + Sync {
    /// The session.
    fn about(&self) -> About;

    /// Executes one operation. `data` has the bytes that a write or append writes, and is empty for any other.
    ///
    /// # Errors
    /// Those of the operation. Nothing was changed then, except with
    /// [`Indeterminate`](objstore_base::error::Error::Indeterminate).
    fn call(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer>;

    /// The kernel has the reply to a request with a recorded outcome, or no longer wants it: the record may be removed.
    /// Without this call it stays until the session ends.
    fn answered(&self, request: RequestId);

    /// The changes by other clients; called once. After a takeover they begin with those that the kernel was not
    /// notified of, and with questions about unlinked inodes that it may hold.
    fn changes(&self) -> Box<dyn Changes>;

    /// The error of a change of a file that was answered before it failed, once: that of the next fsync(2) or close(2).
    ///
    /// # Errors
    /// That error.
    fn unreported(&self, _ino: u64) -> Result<()> {
        Ok(())
    }

    /// Ends the changes: [`Changes::next`] returns `None`.
    fn close_changes(&self);

    /// Ends the session because the kernel mount is gone. A persistent session ends only in this way.
    fn end(&self);

    /// How long what is answered now may be served from caches without asking again. `None` if there is no limit, because
    /// [`FileService::changes`] cannot be interrupted.
    fn cacheable(&self) -> Option<Duration> {
        None
    }

    /// The number of the process that serves the session, among all that ever did: what it numbers must not repeat what an
    /// earlier one numbered.
    fn process(&self) -> u32 {
        self.about().life
    }

    /// How many calls of each operation were made, and how many trips to another machine they took. Empty for a service on
    /// this machine.
    fn trips(&self) -> Vec<Trips> {
        Vec::new()
    }

    /// What these inodes do not have now, in their order. A service that tells nothing returns nothing.
    fn traits(&self, _inos: &[u64]) -> Vec<Traits> {
        Vec::new()
    }

    /// How the session stands. Nothing is asked for this.
    fn standing(&self) -> SessionStanding {
        SessionStanding::Served
    }

    /// Whether the store keeps file locks, so that other mounts see them ([`LockOp`](crate::LockOp)). A release of the store
    /// before it did says no.
    fn keeps_locks(&self) -> bool {
        false
    }

    /// The connection to the store, if that is on another machine. Nothing is asked for this.
    fn link(&self) -> Option<LinkStats> {
        None
    }

    /// The files as this machine has them; `None` if they lie elsewhere.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }
}
