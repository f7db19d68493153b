//! The holder: a small process that keeps the devices of mounts, so that a mount outlives the process that serves it.
//!
//! - `service` is the holder itself: it takes descriptors with a few bytes about them, and gives them to whoever asks
//!   next. It never reads or writes what it keeps, knows nothing of FUSE, and opens nothing.
//! - `client` talks to it, `custody` is what a server has put there and puts there again if the holder dies.
//! - `message` and `packet` are what they say to each other, `record` and `held` what servers write down about a mount
//!   and what the servers after them find.
//!
//! What a crash leaves: of the server, its mounts with the holder, where requests wait in the kernel for the next
//! server; of the holder, mounts that go on with the server they have, which puts them with the next holder; of both,
//! dead mounts (ENOTCONN).

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

/// Packets of either side. What can be read is written and read again as the same.
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
