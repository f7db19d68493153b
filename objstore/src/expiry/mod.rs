//! When things end by the lifecycle rules of a bucket: pure decisions, and what clients are told of them.

mod day;
pub(crate) mod expiration;
mod rules;

pub use day::Day;
pub use expiration::Expiration;
pub(crate) use rules::*;
