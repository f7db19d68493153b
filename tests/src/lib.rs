//! Helpers shared by the tests, the demo and `cargo verify`: the server as a child process, bounded commands, skips.
//!
//! - Every wait is bounded, and every started process is killed when its owner is dropped.
//! - It speaks no protocol; clients are beside the tests that use them.
//! - It has few dependencies, because `cargo verify` compiles it before it can print its first line.

pub mod amount;
pub mod child;
pub mod home;
pub mod image;
mod launcher;
pub mod namespace;
pub mod place;
mod port;
pub mod ready;
pub mod server;
pub mod shared_store;
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
    pub use crate::namespace::Namespace;
    pub use crate::ready::Ready;
    pub use crate::server::{Credentials, Options, Server};
    pub use crate::tls::Certificate;
    pub use crate::tools::{amphora, hadoop, lake_python, node, packaged, python, repo, required, root_and_fuse, tool};
    pub use crate::{here_and_elsewhere, need, skip};
}
