//! The traits of an object that decide on access to it: its tags, its owner and its access control list.

use std::collections::BTreeMap;

use objstore::store::{ObjectAccess, ObjectInfo};

/// The tags of an object.
pub(crate) type Tags = BTreeMap<String, String>;

/// The traits of an object that decide who may do what with it; an absent object has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// The object's tags.
    pub(crate) tags: Tags,
    /// The object's owner and access control list.
    pub(super) access: ObjectAccess,
}

impl Traits {
    /// The traits of an object that was found.
    pub(crate) fn of(object: &ObjectInfo) -> Self {
        Self { tags: object.tags.clone(), access: object.access.clone() }
    }
}

/// The source of a copy as the access check saw it.
#[derive(Clone, Debug)]
pub(crate) struct CheckedSource {
    /// Its entity tag at that moment; the copy fails if the object has another.
    pub(crate) etag: String,
    /// The tags it had.
    pub(crate) tags: Tags,
    /// Owner and list it had.
    access: ObjectAccess,
}

impl CheckedSource {
    /// The source as it was found.
    pub(crate) fn of(object: ObjectInfo) -> Self {
        Self { etag: object.etag, tags: object.tags, access: object.access }
    }

    /// The traits that decided.
    pub(crate) fn traits(&self) -> Traits {
        Traits { tags: self.tags.clone(), access: self.access.clone() }
    }
}
