//! Records of quarantined content: damage that was found and not repaired.
//!
//! - A record is keyed by the id of a referenced blob: while it exists, reading the content answers an error. It is
//!   removed with the blob, when the object is deleted or uploaded again. Ids are never reused, so a record without its
//!   blob is meaningless.

use prost::Message;

/// The record of a blob whose bytes differ from what was written, or of one that represents content that cannot be
/// found any more.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Damaged {
    /// When it was found, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub found: i64,
    /// What is wrong, in words.
    #[prost(string, tag = "2")]
    pub why: String,
    /// Unreadable records, with their original bytes: what they referred to is kept as long as they are.
    #[prost(message, repeated, tag = "3")]
    pub quarantine: Vec<Quarantined>,
    /// The names of the objects that contained it when it was found, for people.
    #[prost(string, repeated, tag = "4")]
    pub who: Vec<String>,
}

/// An unreadable record that was moved out of the way.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Quarantined {
    /// Its key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Its value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}
