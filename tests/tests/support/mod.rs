//! What integration tests share: the library of this package, and clients that need its dev-dependencies.

mod s3client;

pub use s3client::s3client;
pub use tests::prelude::*;
