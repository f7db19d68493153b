//! The expiry of objects, versions and uploads by a bucket's lifecycle rules: pure decisions, and their announcement to
//! clients.

mod day;
pub(crate) mod expiration;
mod rules;

pub use day::Day;
pub use expiration::Expiration;
pub(crate) use rules::*;
