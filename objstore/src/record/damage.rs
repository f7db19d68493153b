//! Records of quarantined content: damage that was found and not repaired.
//!
//! - A record is keyed by the id of a referenced blob: while it exists, reading the content answers an error. It is
//!   removed with the blob, when the object is deleted or uploaded again. Ids are never reused, so a record without its
//!   blob is meaningless.

use prost::Message;

/// A blob whose bytes are not what was written, or that stands for content nobody can find any more.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Damaged {
    /// Found, nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub found: i64,
    /// What is wrong.
    #[prost(string, tag = "2")]
    pub why: String,
    /// Records that could not be read, as they were: what they referred to is kept as long as they are.
    #[prost(message, repeated, tag = "3")]
    pub aside: Vec<Aside>,
    /// Who had it when it was found, for people.
    #[prost(string, repeated, tag = "4")]
    pub who: Vec<String>,
}

/// A record moved aside.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Aside {
    /// Its key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Its value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}
