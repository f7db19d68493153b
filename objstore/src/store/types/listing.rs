//! Pages of keys and of versions.

use super::object::{Checksum, ObjectInfo};
use crate::clock::Timestamp;

/// A request for a page of keys, in byte order.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Keys with the same text up to the next delimiter form one common prefix.
    pub delimiter: Option<String>,
    /// Only keys after this, and common prefixes that contain such a key; a returned common prefix is skipped as a
    /// whole.
    pub after: Option<String>,
    /// The most keys and common prefixes together.
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

/// A request for a page of versions, by key and then newest first.
#[derive(Clone, Debug, Default)]
pub struct ListVersions {
    /// Prefix, delimiter and limit; `after` is the key marker.
    pub list: List,
    /// Continue after this version of the key `after`.
    pub after_version: Option<String>,
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
