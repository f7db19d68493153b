//! Tables in memory of what is in use: dirty files and their growth, locks, writers, passthrough, readers, sessions.
//!
//! Each type is a table with its own lock. None reads a record or begins a transaction: what these tables decide is put
//! into effect by `tree`, `content` and `volume`, which are given them in [`crate::core::Core`].

mod appends;
mod backed;
mod cleanup;
mod closings;
mod duplicate;
mod gate;
mod hidden_log;
mod lasting;
mod ledger;
mod live;
mod mounted;
mod places;
mod readers;
mod recent;
mod undelivered;
mod verified;
mod writers;

pub use appends::RequestId;
pub(crate) use appends::{Appends, Before, sweep as sweep_appends};
pub use backed::Released;
pub(crate) use backed::{Added, BackedFiles, Owner, Reference};
pub(crate) use cleanup::Cleanup;
pub(crate) use duplicate::Duplicate;
pub(crate) use gate::{Alone, Gates};
pub(crate) use hidden_log::HiddenLog;
pub(crate) use lasting::{Lasting, Served, refused};
pub(crate) use live::{Live, LiveFiles, Pending};
pub(crate) use mounted::Mounted;
pub(crate) use places::{Place, Places};
pub(crate) use readers::{ReadGuard, Readers};
pub(crate) use recent::RecentSyncs;
pub(crate) use undelivered::Ledger;
pub(crate) use verified::{Outcome, VerifiedBlobs};
pub(crate) use writers::{Begun, Writers};
