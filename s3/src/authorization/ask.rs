//! Access requests: one action on a bucket or object, which an authority allows or refuses.

use std::collections::BTreeMap;

use super::right::Right;

/// An action that the caller needs to perform.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The action's name in policies.
    pub(crate) action: &'static str,
    /// The right that a grant has to give for it.
    pub(crate) right: Right,
    /// The key; `None` asks about the bucket.
    pub(crate) key: Option<String>,
    /// The version of the object.
    pub(crate) version: Option<String>,
    /// Whether it is part of creating the object under the key, rather than an action on an existing object.
    pub(crate) with_object: bool,
    /// Further values for policy conditions.
    pub(crate) body: BodyFacts,
}

/// Values for policy conditions that come from a body or a form, not from the request's head or URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyFacts {
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
    /// An action on the bucket.
    pub(crate) fn bucket(action: &'static str, right: Right) -> Self {
        Self { action, right, key: None, version: None, with_object: false, body: BodyFacts::default() }
    }

    /// An action on an object.
    pub(crate) fn object(action: &'static str, right: Right, key: &str, version: Option<&str>) -> Self {
        let (key, version) = (Some(key.to_owned()), version.map(str::to_owned));
        Self { action, right, key, version, with_object: false, body: BodyFacts::default() }
    }
}
