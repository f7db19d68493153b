//! Values of the store in the form of responses: times, entity tags, sizes, versions and accounts.

use objstore::clock::Timestamp;
use s3s::dto::{self, Initiator, Owner};

/// A time in the form of a response.
pub(crate) fn time(time: Timestamp) -> dto::Timestamp {
    dto::Timestamp::from(std::time::SystemTime::from(time))
}

/// An entity tag in the form of a response.
pub(crate) fn etag(value: &str) -> dto::ETag {
    dto::ETag::Strong(value.to_owned())
}

/// The version that a write created, for its response: S3 omits `null`.
pub(crate) fn version_made(version: Option<String>) -> Option<String> {
    version.filter(|id| id != "null")
}

/// A length or count in the form of a response. Objects are smaller than 2^63 bytes.
pub(crate) fn length(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// An account as the owner that a response names.
pub(crate) fn person(account: &str) -> Owner {
    Owner { id: Some(account.to_owned()), display_name: Some(account.to_owned()) }
}

/// The initiator of an upload, in the form of a response.
pub(crate) fn initiator(account: String) -> Initiator {
    Initiator { id: Some(account.clone()), display_name: Some(account) }
}

#[cfg(test)]
pub(crate) mod tests {
    use objstore::clock::Timestamp;
    use objstore::store::ObjectInfo;

    /// An object for unit tests.
    pub(crate) fn object(key: &str, etag: &str, modified_nanos: i64) -> ObjectInfo {
        ObjectInfo {
            access: Default::default(),
            key: key.into(),
            ino: 2,
            size: 10,
            etag: etag.into(),
            modified: Timestamp(modified_nanos),
            headers: objstore::store::Headers::default(),
            metadata: std::collections::BTreeMap::new(),
            tags: std::collections::BTreeMap::new(),
            checksums: Vec::new(),
            parts: None,
            version: None,
            lock: Default::default(),
            expiration: None,
        }
    }
}
