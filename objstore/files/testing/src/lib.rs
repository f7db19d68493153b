//! Test helpers for services of files: a suite that every [`FileService`](objstore_files::FileService) has to pass, and
//! a service behind the codec of the wire.
//!
//! Only used as a dev-dependency, so none of it is compiled into the server.

pub mod conformance;
mod encoded;

pub use encoded::{Encoded, decoded, read_reply, write_reply};
