//! The plain values that operations on a tree take and give.

use crate::name::Hidden;

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

/// A request for a page of versions, by key and then newest first.
#[derive(Clone, Debug, Default)]
pub struct ListVersions {
    /// Prefix, delimiter and limit; `after` is the key marker.
    pub list: List,
    /// Continue after this version of the key `after`.
    pub after_version: Option<String>,
}

/// A hidden key, which a mount cannot show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenKey {
    /// The key.
    pub key: String,
    /// The reason.
    pub why: Hidden,
}

/// A page of hidden keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenPage {
    /// The keys.
    pub keys: Vec<HiddenKey>,
    /// The key after which to continue; `None` at the end.
    pub next: Option<String>,
}
