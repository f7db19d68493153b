//! A place of checkpoints on other machines: objects that are created once, and one that is replaced by
//! compare-and-swap.
//!
//! - An acknowledged object is never lost and never changes, except by [`Vault::replace`].
//! - A listing may be old: it names what to remove, and never decides what exists.
//!
//! A crash leaves objects that nobody names; the next checkpoint removes them.

mod folder;
mod memory;

use bytes::Bytes;
use objstore_base::error::Result;

pub use folder::Folder;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_its_guarantees(vault: &dyn Vault) {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(vault.get("tables/a", 10).unwrap(), None);
        assert!(vault.list("tables/").unwrap().is_empty());
        vault.put("tables/a", bytes("one")).unwrap();
        vault.put("tables/a", bytes("one")).unwrap();
        vault.put("tables/b", bytes("two")).unwrap();
        assert_eq!(vault.get("tables/a", 3).unwrap().unwrap().0, "one");
        assert!(vault.get("tables/a", 2).is_err());
        let Replaced::Done(first) = vault.replace("manifest", bytes("1"), None).unwrap() else { panic!("it is new") };
        assert_eq!(vault.replace("manifest", bytes("2"), None).unwrap(), Replaced::Conflict);
        assert_eq!(vault.get("manifest", 9).unwrap(), Some((bytes("1"), first.clone())));
        let Replaced::Done(second) = vault.replace("manifest", bytes("2"), Some(&first)).unwrap() else {
            panic!("its tag is current")
        };
        assert_eq!(vault.replace("manifest", bytes("3"), Some(&first)).unwrap(), Replaced::Conflict);
        assert_eq!(vault.get("manifest", 9).unwrap(), Some((bytes("2"), second)));
        let mut listed = vault.list("tables/").unwrap();
        listed.sort();
        assert_eq!(listed, ["tables/a", "tables/b"]);
        vault.remove(&["tables/a".to_owned(), "tables/none".to_owned()]).unwrap();
        assert_eq!((vault.list("tables/").unwrap().len(), vault.get("tables/a", 9).unwrap()), (1, None));
    }

    #[test]
    fn every_engine_keeps_the_guarantees_of_a_vault() {
        keeps_its_guarantees(&Memory::default());
        let folder = tempfile::tempdir().unwrap();
        keeps_its_guarantees(&Folder::open(&folder.path().join("vault")).unwrap());
    }
}
