//! The store as its callers see it, compared with models of it, and audited after each run.

pub(crate) mod audit;
pub(crate) mod random;
pub(crate) mod rig;
