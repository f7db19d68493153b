//! The store as its callers see it, compared with models of it, and audited after each run.

mod access;
pub(crate) mod audit;
mod buckets;
mod content;
mod objects;
mod opening;
mod orphans;
pub(crate) mod random;
pub(crate) mod rig;
mod segments;
mod uploads;
