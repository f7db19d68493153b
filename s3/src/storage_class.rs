//! Storage classes (S3 User Guide, "Understanding and managing Amazon S3 storage classes").
//!
//! - A class is a stored name without effect: all objects lie on the same disk, are readable at once and cost the same.
//! - A class that promises more is refused: objects of an archive class have to be restored before a read, and others
//!   lie in a different place.

use s3s::dto::StorageClass;
use s3s::{S3ErrorCode, S3Result};

use crate::error::{Detail as _, refuse};

/// The class of an object for which none was given.
const STANDARD: &str = StorageClass::STANDARD;
/// The supported classes, whose objects are readable at once.
const OFFERED: [&str; 6] = [
    StorageClass::GLACIER_IR,
    StorageClass::INTELLIGENT_TIERING,
    StorageClass::ONEZONE_IA,
    StorageClass::REDUCED_REDUNDANCY,
    STANDARD,
    StorageClass::STANDARD_IA,
];

/// Refuses an unsupported class.
pub(crate) fn check(class: &[u8]) -> S3Result<()> {
    if OFFERED.iter().any(|offered| offered.as_bytes() == class) {
        return Ok(());
    }
    let hint = format!("Name one of the classes {}; archives are not offered.", OFFERED.join(", "));
    let error = refuse(S3ErrorCode::InvalidStorageClass, hint);
    Err(error.with("StorageClassRequested", String::from_utf8_lossy(class)))
}

/// The class to store for a request; none for STANDARD.
pub(crate) fn kept(named: Option<&StorageClass>) -> Option<String> {
    named.map(StorageClass::as_str).filter(|class| *class != STANDARD).map(str::to_owned)
}

/// The class for XML.
pub(crate) fn name(kept: Option<&String>) -> &str {
    kept.map_or(STANDARD, String::as_str)
}

/// The class for a response header, which is omitted for STANDARD (S3 API, GetObject).
pub(crate) fn header(kept: Option<String>) -> Option<StorageClass> {
    kept.map(StorageClass::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_promise_an_archive_or_another_place_are_refused() {
        for offered in OFFERED {
            assert!(check(offered.as_bytes()).is_ok(), "{offered}");
        }
        for other in
            ["GLACIER", "DEEP_ARCHIVE", "OUTPOSTS", "SNOW", "EXPRESS_ONEZONE", "FSX_ONTAP", "standard", "", "X"]
        {
            assert_eq!(check(other.as_bytes()).unwrap_err().code().as_str(), "InvalidStorageClass", "{other}");
        }
        assert!(OFFERED.is_sorted());
    }

    #[test]
    fn the_class_is_told_as_it_was_named() {
        let class = StorageClass::from_static(StorageClass::ONEZONE_IA);
        let kept_of = |class: &StorageClass| kept(Some(class));
        assert_eq!(name(kept_of(&class).as_ref()), "ONEZONE_IA");
        assert_eq!(header(kept_of(&class)), Some(class));
        assert_eq!(kept_of(&StorageClass::from_static(STANDARD)), None);
        assert_eq!((name(None), header(None)), ("STANDARD", None));
    }
}
