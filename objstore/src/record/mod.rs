//! The stored records as bytes: order-preserving keys and prost values.
//!
//! - A key's order carries meaning: each scan in the store is a range of keys. Layouts are in [`key`] alone.
//! - Values are prost messages, so fields can be added; a field number is never reused.
//! - Records of a tree have the branch that wrote them as the last four bytes of the key. An empty value there is a
//!   tombstone: this branch deleted what an ancestor would show.

pub mod account;
pub mod acl;
pub mod blob;
pub mod bucket;
pub mod creator;
pub mod damage;
pub mod inode;
pub mod key;
pub mod lifecycle;
pub mod listed;
pub mod live;
pub mod restore;
pub mod scrub;
pub mod session;
pub mod settings;
pub mod upload;
pub mod version;

use bytes::Bytes;
use prost::Message;

use crate::error::{Error, Result};

/// The version of the format written by this build; a store of another is refused.
pub const FORMAT: u32 = 1;

/// What the store knows of itself.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    /// [`FORMAT`] of the build that made the store.
    #[prost(uint32, tag = "1")]
    pub format: u32,
    /// How often the store was opened; part of each blob id made since.
    #[prost(uint32, tag = "2")]
    pub epoch: u32,
    /// The next id of buckets, families and accounts.
    #[prost(uint64, tag = "3")]
    pub next_id: u64,
    /// The next place in the trash.
    #[prost(uint64, tag = "4")]
    pub next_trash: u64,
}

/// Reads the value of `what`.
///
/// # Errors
/// [`Error::Corrupt`] if the bytes are no such message.
pub fn decode<M: Message + Default>(what: &str, value: &[u8]) -> Result<M> {
    M::decode(value).map_err(|error| corrupt(what, &error))
}

/// The same of a record that may hold content, which is then a part of `value` and not copied.
pub fn decode_shared<M: Message + Default>(what: &str, value: &Bytes) -> Result<M> {
    M::decode(value.clone()).map_err(|error| corrupt(what, &error))
}

fn corrupt(what: &str, error: &prost::DecodeError) -> Error {
    Error::corrupt(format!("the record of {what}"), "a valid message", error.to_string())
}
