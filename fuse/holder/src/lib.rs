//! The fd holder: a small process that keeps the device descriptors of mounts, so that a mount outlives the server
//! process behind it.
//!
//! - `service` is the holder itself: it accepts descriptors with a short record, and returns them to the next server.
//!   It knows nothing of FUSE or of the store. What looks after mounts without a server is given to it (`attendant`).
//! - `client` is the connection to it. `fd_holder` holds what a server has deposited and deposits it again if the holder
//!   dies.
//! - `peer` is the user at the other end, `message` and `packet` are the protocol. What the record of a deposit says is
//!   the depositor's business.
//!
//! A crash of the server leaves its mounts with the holder, and requests wait in the kernel for the next server. A
//! crash of the holder leaves the mounts with their server, which deposits them with the next holder. If both crash,
//! the mounts are dead (ENOTCONN).

mod attendant;
mod client;
mod deposits;
mod fd_holder;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod message;
mod packet;
mod peer;
mod service;
#[cfg(test)]
mod tests;

pub use attendant::Attendant;
pub use client::{Error, Holder, with_causes};
pub use deposits::Deposit;
pub use fd_holder::{Dial, FdHolder, Status};
pub use service::{Lifetime, Service, Starter};
