//! The seam to what looks after mounts while no server does.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::deposits::Deposit;

/// What attends to deposits that have no server. The holder knows of none whether it has one: the attendant finds out, and
/// never disturbs a server.
///
/// The holder calls it from its one thread, so no call may wait. Dropping what it keeps of a deposit has to close its own
/// duplicates of the deposit's descriptors.
pub trait Attendant: Send {
    /// Looks which of all deposits have no server. What it keeps of any other is dropped.
    fn look(&mut self, deposits: &mut dyn Iterator<Item = &Deposit>);
    /// Descriptors that wake it when they can be read.
    fn wakes(&self) -> Vec<BorrowedFd<'_>>;
    /// When it has to be called without an event; `None`: never.
    fn due(&self) -> Option<Instant>;
    /// Does what there is to do now.
    fn attend(&mut self);
}
