//! What every engine of a vault has to keep.

use bytes::Bytes;

use super::{Replaced, Vault};

/// Tries an empty vault.
///
/// # Panics
/// If it does not keep a guarantee.
pub fn keeps_its_guarantees(vault: &dyn Vault) {
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

#[cfg(test)]
mod tests {
    use super::super::Memory;

    #[test]
    fn the_vault_in_memory_keeps_the_guarantees() {
        super::keeps_its_guarantees(&Memory::default());
    }
}
