//! Helpers of the integration tests: the library of this package, and clients that need its dev-dependencies.

pub mod access;
pub mod agree;
pub mod cli;
pub mod elsewhere;
pub mod grpc;
pub mod load;
pub mod mapping;
mod mounted;
pub mod postgres;
pub mod program;
mod rng;
mod s3client;

pub use mounted::{Mounted, make_bucket};
pub use program::run_script;
pub use rng::Rng;
pub use s3client::s3client;
pub use tests::prelude::*;
