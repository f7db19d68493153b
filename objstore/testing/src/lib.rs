//! What the tests of several layers of the store share: random choices that a seed replays, and disks that fail.
//!
//! - A dependency of tests alone (`[dev-dependencies]`), so nothing of it is compiled into the server.
//! - The disks implement the same [`Disk`](objstore_disk::Disk) and [`File`](objstore_disk::File) as the real one.

pub mod faulty;
pub mod lying;
pub mod random;
