//! Tables in memory of what is in use: dirty files and their growth, locks, writers, readers, sessions.
//!
//! Each type is a table with its own lock. None reads a record or begins a transaction: what these tables decide is put
//! into effect by `tree`, `content` and `volume`, which are given them in [`crate::core::Core`].

mod appends;
mod calls;
mod cleanup;
mod closings;
mod dirty;
mod gate;
mod growth;
mod hidden_log;
mod leases;
mod locks;
mod mounted;
mod persistent;
mod places;
mod readers;
mod recent;
mod undelivered;
mod writers;
mod writes;

pub(crate) use appends::{Appends, Before, sweep as sweep_appends};
pub(crate) use calls::Calls;
pub(crate) use cleanup::Cleanup;
pub(crate) use dirty::{DirtyFile, DirtyFiles, Pending};
pub(crate) use gate::{ExclusiveGuard, Gates};
pub(crate) use hidden_log::HiddenLog;
pub(crate) use leases::{Changing, Leaseholder, Leases, Recalled};
pub(crate) use locks::{FileLocks, Left as LeftLocks, LockLog, LockSession};
pub(crate) use mounted::Mounted;
pub(crate) use persistent::{PersistentSessions, Served, refused};
pub(crate) use places::{Place, Places};
pub(crate) use readers::{ReadGuard, Readers};
pub(crate) use recent::RecentSyncs;
pub(crate) use undelivered::UndeliveredLog;
pub(crate) use writers::{Begun, Writers};
pub(crate) use writes::{WriteNote, Writes};
