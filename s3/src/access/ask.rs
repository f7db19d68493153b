//! What is asked of an authority.

use std::collections::BTreeMap;

use super::right::Right;

/// May the caller do this?
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The action, as policies name it.
    pub(crate) action: &'static str,
    /// The right that a grant has to give.
    pub(crate) right: Right,
    /// The key; none asks about the bucket.
    pub(crate) key: Option<String>,
    /// The version of it.
    pub(crate) version: Option<String>,
    /// What conditions may know besides.
    pub(crate) told: Told,
}

/// What conditions may know of a request that neither its head nor its URL says: it came in a body or a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The tags of `s3:RequestObjectTag`.
    pub(crate) tags: Option<BTreeMap<String, String>>,
    /// `s3:object-lock-mode`
    pub(crate) lock_mode: Option<String>,
    /// `s3:object-lock-retain-until-date`, as RFC 3339 writes it
    pub(crate) retain_until: Option<String>,
    /// `s3:object-lock-legal-hold`
    pub(crate) legal_hold: Option<String>,
    /// `s3:prefix`
    pub(crate) prefix: Option<String>,
}

impl Ask {
    /// About the bucket.
    pub(crate) fn bucket(action: &'static str, right: Right) -> Self {
        Self { action, right, key: None, version: None, told: Told::default() }
    }

    /// About an object.
    pub(crate) fn object(action: &'static str, right: Right, key: &str, version: Option<&str>) -> Self {
        let (key, version) = (Some(key.to_owned()), version.map(str::to_owned));
        Self { action, right, key, version, told: Told::default() }
    }
}
