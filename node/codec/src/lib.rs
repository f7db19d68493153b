//! Calls of a mount and their replies as bytes: the heads of the wire between a node and a store.
//!
//! - A head is a prost message, so fields can be added: an older peer skips them. The number of an operation, reply or
//!   error is never reused; a peer refuses an unknown one with an error that contains it. The bytes of a file are not
//!   in the head: a frame carries them behind it, unchanged.
//! - Bytes from a peer are untrusted: every length is bounded, and every decoded value satisfies the rules of its type
//!   ([`objstore_files`]).
//! - A head's size is checked before it is decoded ([`CALL_BYTES_MAX`], [`REPLY_BYTES_MAX`]): a decoded value takes at most
//!   some thirty times the memory of its head.

mod about;
mod arguments;
mod bounds;
mod call;
mod changes;
mod failure;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod locks;
mod message;
mod reply;
pub mod session;
#[cfg(test)]
mod tests;
mod values;
mod word;

pub use about::{decode_about, encode_about};
pub use bounds::{CALL_BYTES_MAX, CHANGES_PAGE_MAX, NAMES_PAGE_MAX, REPLY_BYTES_MAX, within_one_reply};
pub use call::{decode_call, encode_call};
pub use changes::{decode_changes, encode_changes};
pub use failure::{decode_failure, encode_failure};
pub use reply::{decode_reply, encode_reply};
