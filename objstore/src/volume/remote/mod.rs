//! Sessions of mounts on other machines: what a node's server at the store calls.
//!
//! - A session is recorded before its opening is answered, and continues over restarts of the store: a persistent
//!   session (`persistent`), whose kernel is asked through its node.
//! - A change is done once: its transaction records the outcome in the slot that names the call (`replay/slots.rs`).
//! - The end of a session is one transaction, which each change of the session reads; then calls under way are waited
//!   for. Nothing is done after the end is answered.
//! - The numbers that a peer may make the store hold are bounded ([`bounds`]), and a session on a directory reaches nothing
//!   outside of it ([`inside`]).
//!
//! A crash before the record is written leaves no session: the node opens it again. After it, the session is there and
//! its node resumes it. A crash between a change and its answer leaves the outcome of the slot. A crash before the
//! transaction that ends a session leaves the session, after it nothing: the calls under way died with the process.

mod bounds;
mod exclusive;
mod inside;
mod open;
mod session;

pub use super::replay::SlotCall;
pub use exclusive::{QueuedCall, VolumeLease};
pub use open::OpenRemote;
pub(crate) use open::resume_all;
pub use session::{Barrier, RemoteAbout, RemoteSession};
