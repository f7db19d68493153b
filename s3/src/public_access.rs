//! Public access block of a bucket (S3 User Guide, Blocking public access).
//!
//! - A bucket whose block was never set has the server's default; one whose configuration was deleted has none.
//! - The settings for public ACLs take effect where Object Ownership enables ACLs (`acl`, `authorization::Lists`).

use objstore::store::{PublicAccess, Settings};

/// The four settings of a block.
pub(crate) type Block = PublicAccess;

/// All four settings on, or all off.
pub(crate) fn all(on: bool) -> Block {
    Block { block_acls: on, ignore_acls: on, block_policy: on, restrict_buckets: on, deleted: false }
}

/// The block in force for a bucket with these settings.
pub(crate) fn in_force(settings: &Settings, default: Block) -> Block {
    match settings.public_access {
        None => default,
        Some(block) if block.deleted => all(false),
        Some(block) => block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_was_never_told_has_the_default() {
        let settings = |public_access| Settings { public_access, ..Settings::default() };
        let some = Block { block_policy: true, ..all(false) };
        assert_eq!(in_force(&settings(None), all(true)), all(true));
        assert_eq!(in_force(&settings(Some(some)), all(true)), some);
        let deleted = Block { deleted: true, ..all(false) };
        assert_eq!(in_force(&settings(Some(deleted)), all(true)), all(false));
    }
}
