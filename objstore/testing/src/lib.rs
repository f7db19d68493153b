//! Test helpers shared by several layers of the store: random choices that a seed replays, and disks that fail.
//!
//! - Only used as a dev-dependency, so none of it is compiled into the server.
//! - The disks implement the same [`Disk`](objstore_disk::Disk) and [`File`](objstore_disk::File) as the real one.

pub mod faulty;
pub mod random;
pub mod s3;
pub mod simulated;
