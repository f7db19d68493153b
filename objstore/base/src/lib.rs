//! Basic types of every layer of the store: errors, the clock, randomness, latencies, pending results and POSIX ACLs; and
//! what all listeners share.
//!
//! - It knows of no disk, record or bucket. A type needed by one layer only does not belong here.
//! - [`clock`] alone asks the system for the time or for random bytes, so a test can control both.

pub mod accept;
pub mod acl;
pub mod certificate;
pub mod clock;
pub mod error;
pub mod latency;
pub mod ticket;
