//! What every layer of the store says and is given: errors, the clock, randomness, latencies and pending answers.
//!
//! - It knows of no disk, no record and no bucket. Nothing moves in here that only one layer needs.
//! - [`clock`] alone asks the system for the time or for random bytes, so a test can own both.

pub mod clock;
pub mod error;
pub mod latency;
pub mod ticket;
