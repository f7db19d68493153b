//! What the tests, the demo and `cargo verify` share: the server as a child process, bounded commands, skips.
//!
//! - Every wait is bounded, and every process that was started is killed when its owner is dropped.
//! - Nothing here talks a protocol; clients live beside the tests that use them.
//! - It depends on little, because `cargo verify` compiles it before it can print its first line.

pub mod amount;
pub mod child;
pub mod home;
pub mod image;
mod launcher;
mod port;
pub mod ready;
pub mod server;
pub mod skip;
pub mod tls;
pub mod tools;
pub mod totals;

/// The names a test module needs, in one import.
pub mod prelude {
    pub use crate::amount::{amount, is_full, limit, progress};
    pub use crate::child::{Outcome, run, wait_until};
    pub use crate::home::{Home, write_private};
    pub use crate::image::{Image, Kind, loop_devices};
    pub use crate::ready::Ready;
    pub use crate::server::{Credentials, Options, Server};
    pub use crate::tls::Certificate;
    pub use crate::tools::{amphora, lake_python, node, packaged, python, repo, required, root_and_fuse, tool};
    pub use crate::{need, skip};
}
