//! The stored records as bytes: order-preserving keys and prost values.
//!
//! - A key's order carries meaning: each scan in the store is a range of keys. Layouts are in [`key`] alone.
//! - Values are prost messages, so fields can be added; a field number is never reused.
//! - Records of a tree have the branch that wrote them as the last four bytes of the key. An empty value there is a
//!   tombstone: this branch deleted what an ancestor would show.

pub mod access_list;
pub mod account;
pub mod authority;
pub mod blob;
pub mod bucket;
pub mod creator;
pub mod damage;
pub mod dirty;
mod flags;
pub mod inode;
pub mod key;
pub mod lifecycle;
pub mod listed;
mod permissions;
pub mod placed;
pub mod restore;
pub mod scrub;
pub mod session;
pub mod settings;
pub mod upload;
pub mod version;

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use prost::Message;

pub use flags::Touching;
pub use objstore_base::acl;

/// The version of the record format that this build writes; a store with another is refused.
pub const FORMAT: u32 = 1;

/// The format of a store into which another one is being moved: no server opens it.
pub const UNFINISHED: u32 = u32::MAX - 1;

/// The format of a store that was moved to another place: no server opens it.
pub const MOVED: u32 = u32::MAX;

/// The store's header record.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    /// The [`FORMAT`] of the build that created the store.
    #[prost(uint32, tag = "1")]
    pub format: u32,
    /// How often the store was opened; part of each blob id created since.
    #[prost(uint32, tag = "2")]
    pub epoch: u32,
    /// The next id for buckets, clone groups and accounts.
    #[prost(uint64, tag = "3")]
    pub next_id: u64,
    /// The next order in the trash.
    #[prost(uint64, tag = "4")]
    pub next_trash: u64,
    /// What the last opening with content in a bucket was called, at random: its data folder knows the same name. Empty
    /// without such an opening.
    #[prost(bytes = "vec", tag = "5")]
    pub opening: Vec<u8>,
    /// The last move of the store to another place (`amphora migrate`); absent if it was never moved.
    #[prost(message, optional, tag = "6")]
    pub moved: Option<Moved>,
}

/// A move of a store from one place to another.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Moved {
    /// Where it came from, or with the format [`MOVED`] where it went, for people.
    #[prost(string, tag = "1")]
    pub place: String,
    /// When its root account was made, in nanoseconds since 1970: the same store has the same time.
    #[prost(sfixed64, tag = "2")]
    pub root_created: i64,
}

/// Decodes the value of `what`, which errors name.
///
/// # Errors
/// [`Error::Corrupt`] if the bytes are not such a message.
pub fn decode<M: Message + Default>(what: &str, value: &[u8]) -> Result<M> {
    M::decode(value).map_err(|error| corrupt(what, &error))
}

/// Decodes the value of `what` without a copy of inline content, which stays a part of `value`.
///
/// # Errors
/// [`Error::Corrupt`] if the bytes are not such a message.
pub fn decode_shared<M: Message + Default>(what: &str, value: &Bytes) -> Result<M> {
    M::decode(value.clone()).map_err(|error| corrupt(what, &error))
}

fn corrupt(what: &str, error: &prost::DecodeError) -> Error {
    Error::corrupt(format!("the record of {what}"), "a valid message", error.to_string())
}
