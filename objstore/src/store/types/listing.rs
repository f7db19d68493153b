//! Pages of keys and of versions.

use super::object::{Checksum, ObjectInfo};
use crate::clock::Timestamp;

/// A request for a page of keys, in byte order.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys alike up to the next delimiter are one common prefix.
    pub delimiter: Option<String>,
    /// Only keys after this, and common prefixes that hold such a key; a common prefix given back is passed whole.
    pub after: Option<String>,
    /// At most so many keys and common prefixes together.
    pub limit: usize,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its size, in bytes.
    pub size: u64,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// When its content last changed.
    pub modified: Timestamp,
    /// The checksums kept with it.
    pub checksums: Vec<Checksum>,
    /// Its storage class; none is STANDARD.
    pub storage_class: Option<String>,
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<Listed>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// If there is more: the `after` of the next page (the last key or common prefix of this one).
    pub next: Option<String>,
}

/// A version in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// The object; of a delete marker only key, time and version are meant.
    pub object: ObjectInfo,
    /// Whether this is a delete marker.
    pub marker: bool,
    /// Whether this is the current version.
    pub latest: bool,
}

/// A request for a page of versions: by key, then newest first.
#[derive(Clone, Debug, Default)]
pub struct ListVersions {
    /// Prefix, delimiter and limit; `after` is the key marker.
    pub list: List,
    /// Go on after this version of the key `after`.
    pub after_version: Option<String>,
}

/// A page of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionListing {
    /// The versions and delete markers.
    pub versions: Vec<VersionInfo>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// If there is more: the key and version markers of the next page.
    pub next: Option<(String, Option<String>)>,
}
