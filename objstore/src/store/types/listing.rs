//! Pages of keys and of versions.

use super::object::ObjectInfo;
use crate::clock::Timestamp;
use crate::content::Checksum;

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its size, in bytes.
    pub size: u64,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// Time of the last change of its content.
    pub modified: Timestamp,
    /// The stored checksums.
    pub checksums: Vec<Checksum>,
    /// Its storage class; `None` is STANDARD.
    pub storage_class: Option<String>,
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<Listed>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// The `after` of the next page, if there is one: the last key or common prefix of this page.
    pub next: Option<String>,
}

/// A version in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// The object; for a delete marker only key, time and version are meaningful.
    pub object: ObjectInfo,
    /// Whether this is a delete marker.
    pub marker: bool,
    /// Whether this is the current version.
    pub latest: bool,
}

/// A page of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionListing {
    /// The versions and delete markers.
    pub versions: Vec<VersionInfo>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// The key and version markers of the next page, if there is one.
    pub next: Option<(String, Option<String>)>,
}
