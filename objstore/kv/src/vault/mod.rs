//! A place of checkpoints on other machines: objects that are created once, and one that is replaced by
//! compare-and-swap.
//!
//! - An acknowledged object is never lost and never changes, except by [`Vault::replace`].
//! - A listing may be old: it names what to remove, and never decides what exists.
//!
//! A crash leaves objects that nobody names; the next checkpoint removes them.

pub mod conformance;
mod memory;

use bytes::Bytes;
use objstore_base::error::Result;

pub use memory::Memory;

/// The state of a replaced object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(pub String);

/// The outcome of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The object has the new content, with this tag.
    Done(Tag),
    /// Another server was first; nothing was changed.
    Conflict,
}

/// A place of checkpoints. Its methods block.
pub trait Vault: Send + Sync {
    /// Creates an object. One of the name that exists has the same content: names contain a checksum.
    fn put(&self, name: &str, content: Bytes) -> Result<()>;

    /// An object of at most `most` bytes with its tag; `None` if there is none.
    fn get(&self, name: &str, most: usize) -> Result<Option<(Bytes, Tag)>>;

    /// Replaces an object whose tag is `before`; `None`: creates it.
    fn replace(&self, name: &str, content: Bytes, before: Option<&Tag>) -> Result<Replaced>;

    /// The names of all objects with this prefix.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Removes objects; those that do not exist are no error.
    fn remove(&self, names: &[String]) -> Result<()>;
}
