//! The store as its callers see it, compared with models of it, and audited after each run.

mod access;
pub(crate) mod audit;
mod buckets;
mod content;
mod failed_commit;
mod lifecycle;
mod lifecycle_faults;
mod lifecycle_model;
mod mounted_locks;
mod mounted_versions;
mod mounted_walk;
mod moved_versions;
mod objects;
mod opening;
mod orphans;
pub(crate) mod random;
mod refused_parts;
pub(crate) mod rig;
mod segments;
mod uploads;
mod version_model;
mod versions;
