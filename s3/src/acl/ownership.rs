//! Object Ownership of a bucket: who owns what is written to it, and whether ACLs are in force there (S3 User Guide,
//! Controlling ownership of objects and disabling ACLs).
//!
//! - A bucket without a configuration has `BucketOwnerEnforced`: its owner owns all in it, and ACLs are disabled.
//! - A bucket whose configuration was deleted has `ObjectWriter`, as on AWS (S3 API, GetBucketOwnershipControls).

use objstore::store::{Ownership, Settings};
use s3s::S3Result;
use s3s::dto::ObjectOwnership;

use crate::error::bad_argument;

/// The setting Object Ownership: the owner of new objects in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The owner of the bucket; ACLs are disabled.
    Enforced,
    /// The writer, or the owner of the bucket if the writer says so (`bucket-owner-full-control`).
    Preferred,
    /// The writer.
    Writer,
}

impl Setting {
    /// The setting that a request names.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            ObjectOwnership::BUCKET_OWNER_ENFORCED => Some(Self::Enforced),
            ObjectOwnership::BUCKET_OWNER_PREFERRED => Some(Self::Preferred),
            ObjectOwnership::OBJECT_WRITER => Some(Self::Writer),
            _ => None,
        }
    }

    /// The name of the setting.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Enforced => ObjectOwnership::BUCKET_OWNER_ENFORCED,
            Self::Preferred => ObjectOwnership::BUCKET_OWNER_PREFERRED,
            Self::Writer => ObjectOwnership::OBJECT_WRITER,
        }
    }

    /// The setting of a bucket.
    pub(crate) fn of(settings: &Settings) -> Self {
        settings.ownership.as_ref().and_then(|kept| Self::parse(&kept.rule)).unwrap_or(Self::Enforced)
    }

    /// Whether ACLs are in force.
    pub(crate) fn enables_acls(self) -> bool {
        self != Self::Enforced
    }

    /// The setting in its stored form.
    pub(crate) fn kept(self) -> Ownership {
        Ownership { rule: self.name().to_owned(), deleted: false }
    }
}

/// The setting that the header `x-amz-object-ownership` names (S3 API, CreateBucket).
pub(crate) fn of_header(value: &str) -> S3Result<Setting> {
    Setting::parse(value).ok_or_else(|| {
        let words = format!("Invalid x-amz-object-ownership header: {value}");
        bad_argument(words, "x-amz-object-ownership", value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_are_disabled_in_a_bucket_that_was_never_told_and_in_one_of_an_earlier_version() {
        let of = |ownership| Setting::of(&Settings { ownership, ..Settings::default() });
        assert_eq!(of(None), Setting::Enforced);
        assert_eq!(of(Some(Ownership::default())), Setting::Enforced);
        for setting in [Setting::Enforced, Setting::Preferred, Setting::Writer] {
            assert_eq!(of(Some(setting.kept())), setting);
            assert_eq!(of_header(setting.name()).unwrap(), setting);
        }
        assert_eq!(of_header("enforced").unwrap_err().code().as_str(), "InvalidArgument");
    }
}
