//! Ownership of buckets and accounts: which ones this driver created, and may delete or hand out.
//!
//! - A bucket is the driver's if the account [`OWNER`] owns it and it carries the driver's name; both are written in
//!   the transaction that creates it, by every version. A backup preserves them, so a bucket whose recorded requested
//!   name differs from its own name is a restored copy and not the driver's.
//! - An account is the driver's if its record says that COSI created it. Earlier versions did not record this and named
//!   accounts `cosi-ba-` and the UID of a BucketAccess, a name that others have no reason to use, so these count too.

use objstore::name::is_uuid;
use objstore::store::{Account, Bucket, Creator};

use crate::parameters::{DRIVER, NAME};
use crate::{ACCESS_PREFIX, OWNER};

/// The prefix that the released sidecar puts before the UID of a BucketAccess in account names (COSI v1alpha1).
const SIDECAR_PREFIX: &str = "ba-";

/// Whether the driver `driver_name` created the bucket.
pub(crate) fn is_bucket(bucket: &Bucket, driver_name: &str) -> bool {
    let by = bucket.attributes.get(DRIVER).map(String::as_str);
    // Versions that did not record the requested name always used it as the bucket's name.
    let is_restored_copy = bucket.attributes.get(NAME).is_some_and(|name| name != bucket.name.as_str());
    bucket.owner == OWNER && by == Some(driver_name) && !bucket.snapshot && !is_restored_copy
}

/// Whether the driver created the account for an access.
pub(crate) fn is_access(account: &Account) -> bool {
    let Some(access) = account.name.strip_prefix(ACCESS_PREFIX) else { return false };
    match account.creator {
        Creator::Cosi => true,
        Creator::Unrecorded => access.strip_prefix(SIDECAR_PREFIX).is_some_and(is_uuid),
        Creator::Administrator | Creator::Csi => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use objstore::clock::Timestamp;

    fn account(name: &str, creator: Creator) -> Account {
        let (name, created) = (name.to_owned(), Timestamp(0));
        Account { name, id: 1, may_create_buckets: false, root: false, created, creator }
    }

    #[test]
    fn accounts_are_told_by_their_record_and_those_of_older_builds_by_the_whole_name() {
        let uid = "cosi-ba-0a1b2c3d-1111-2222-3333-444455556666";
        assert!(is_access(&account("cosi-any", Creator::Cosi)));
        assert!(is_access(&account(uid, Creator::Unrecorded)));
        for name in ["cosi-alice", "cosi-ba-1", "ba-0a1b2c3d-1111-2222-3333-444455556666", OWNER] {
            assert!(!is_access(&account(name, Creator::Unrecorded)), "{name}");
        }
        assert!(!is_access(&account(uid, Creator::Administrator)), "an administrator created it under such a name");
        assert!(
            !is_access(&account(OWNER, Creator::Cosi)),
            "the account that owns the buckets is not one of an access"
        );
    }
}
