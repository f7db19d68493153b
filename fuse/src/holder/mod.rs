//! The fd holder: a small process that keeps the device descriptors of mounts, so that a mount outlives the server
//! process behind it.
//!
//! - `service` is the holder itself: it accepts descriptors with a short record, and returns them to the next server.
//!   It never reads or writes the devices, knows nothing of FUSE, and opens no files.
//! - `client` is the connection to it. `custody` holds what a server has deposited and deposits it again if the holder
//!   dies.
//! - `message` and `packet` are the protocol. `record` and `held` are the depositor's record of a mount and what a
//!   later server reads from it.
//!
//! A crash of the server leaves its mounts with the holder, and requests wait in the kernel for the next server. A
//! crash of the holder leaves the mounts with their server, which deposits them with the next holder. If both crash,
//! the mounts are dead (ENOTCONN).

mod client;
mod custody;
mod deposits;
mod held;
mod message;
mod packet;
mod record;
mod service;
#[cfg(test)]
mod tests;

pub use client::{Error, Holder};
pub use custody::{Custody, Dial, Status};
pub use deposits::Deposit;
pub use held::Held;
pub(crate) use record::Record;

/// The entry point of a fuzz target: packets of either side. What decodes must encode to bytes that decode to the same
/// value.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read(bytes: &[u8]) {
    if let Ok((version, request)) = message::Request::decode(bytes) {
        assert_eq!(message::Request::decode(&request.encode(version)), Ok((version, request)));
    }
    if let Some(answer) = message::Answer::decode(bytes) {
        let version = bytes.first().copied().unwrap_or_default();
        assert_eq!(message::Answer::decode(&answer.encode(version)), Some(answer));
    }
}
pub use service::{Lifetime, Service};
