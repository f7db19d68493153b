//! The evaluation of access control lists (S3 User Guide, "Access control list (ACL) overview", "Mapping of ACL
//! permissions and access policy permissions").
//!
//! - They are evaluated where Object Ownership enables ACLs, and only for actions that no grant or policy decides.
//! - The owner of a bucket or an object can read and write its list, whether the list grants it or not.
//! - Accounts are compared by their ids. No list applies to a snapshot.

use std::sync::Arc;

use objstore::store::{AccessList, Account, BucketSettings, Grantee, ObjectAccess, Permission, Settings};

use super::ask::Ask;
use crate::acl::Setting;
use crate::public_access::{self, Block};

/// The lists of a bucket where ACLs are enabled.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    settings: Arc<Settings>,
    /// The id of the account that owns the bucket.
    pub(crate) bucket_owner: u64,
    /// The setting that decides who owns new objects.
    pub(crate) ownership: Setting,
    /// The public access block in force.
    pub(crate) block: Block,
}

/// The requirement of an action on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// This permission on the bucket.
    OfBucket(Permission),
    /// This permission on the object.
    OfObject(Permission),
    /// Permission to write to the bucket, and ownership of the object.
    OwnObject,
}

impl Lists {
    /// The lists of a bucket, if ACLs are enabled there; `default` is the public access block of a bucket that has none
    /// of its own.
    pub(super) fn of(bucket: &BucketSettings, default: Block) -> Option<Self> {
        let ownership = Setting::of(&bucket.settings);
        ownership.enables_acls().then(|| Self {
            settings: Arc::clone(&bucket.settings),
            bucket_owner: bucket.owner,
            ownership,
            block: public_access::in_force(&bucket.settings, default),
        })
    }

    /// Whether a bucket with these settings accepts a list.
    pub(crate) fn accept(settings: &Settings, default: Block, list: Option<&AccessList>) -> bool {
        let blocked = public_access::in_force(settings, default).block_acls;
        Setting::of(settings).enables_acls() && !(blocked && list.is_some_and(AccessList::is_public))
    }

    /// The list of the bucket.
    pub(crate) fn of_bucket(&self) -> Option<&AccessList> {
        self.settings.acl.as_ref()
    }

    /// The id of the account that owns an object.
    pub(crate) fn owner(&self, object: &ObjectAccess) -> u64 {
        if object.owner == 0 { self.bucket_owner } else { object.owner }
    }

    /// Whether a list allows an action on an object to an account, or to an anonymous caller.
    pub(super) fn allow(&self, account: Option<&Account>, ask: &Ask, object: &ObjectAccess) -> bool {
        let caller = account.map(|account| account.id);
        let of_bucket = |wanted| self.gives(self.of_bucket(), self.bucket_owner, caller, wanted);
        match needed(ask) {
            Some(Needed::OfBucket(wanted)) => of_bucket(wanted),
            Some(Needed::OfObject(wanted)) => self.gives(object.acl.as_ref(), self.owner(object), caller, wanted),
            Some(Needed::OwnObject) => of_bucket(Permission::Write) && caller == Some(self.owner(object)),
            None => false,
        }
    }

    /// Whether a list could allow the action on some object of the bucket.
    pub(super) fn could_allow(&self, account: Option<&Account>, ask: &Ask) -> bool {
        let Some(account) = account else { return false };
        needed(ask) == Some(Needed::OwnObject)
            && self.gives(self.of_bucket(), self.bucket_owner, Some(account.id), Permission::Write)
    }

    fn gives(&self, list: Option<&AccessList>, owner: u64, caller: Option<u64>, wanted: Permission) -> bool {
        let owns = caller == Some(owner);
        if owns && matches!(wanted, Permission::ReadAcp | Permission::WriteAcp) {
            return true;
        }
        let Some(list) = list else { return owns };
        list.grants.iter().filter(|grant| grant.gives(wanted)).any(|grant| match grant.grantee() {
            Some(Grantee::Owner) => owns,
            // An id of zero is an account of another store.
            Some(Grantee::Account(id)) => id != 0 && caller == Some(id),
            Some(Grantee::AllUsers) => !self.block.ignore_acls,
            Some(Grantee::AuthenticatedUsers) => !self.block.ignore_acls && caller.is_some(),
            Some(Grantee::LogDelivery | Grantee::Ec2) | None => false,
        })
    }
}

/// The requirement of an action on a list; none if no list can allow the action.
fn needed(ask: &Ask) -> Option<Needed> {
    use Needed::{OfBucket, OfObject, OwnObject};
    match ask.action {
        "s3:ListBucket" | "s3:ListBucketVersions" | "s3:ListBucketMultipartUploads" => Some(OfBucket(Permission::Read)),
        "s3:PutObject" => Some(OfBucket(Permission::Write)),
        // The writer of an object owns it, and sets its list with the same request.
        "s3:PutObjectAcl" if ask.with_object => Some(OfBucket(Permission::Write)),
        "s3:DeleteObject" => Some(OwnObject),
        "s3:GetBucketAcl" => Some(OfBucket(Permission::ReadAcp)),
        "s3:PutBucketAcl" => Some(OfBucket(Permission::WriteAcp)),
        "s3:GetObject" | "s3:GetObjectVersion" | "s3:GetObjectTorrent" | "s3:GetObjectVersionTorrent" => {
            Some(OfObject(Permission::Read))
        }
        "s3:GetObjectAcl" | "s3:GetObjectVersionAcl" => Some(OfObject(Permission::ReadAcp)),
        "s3:PutObjectAcl" | "s3:PutObjectVersionAcl" => Some(OfObject(Permission::WriteAcp)),
        _ => None,
    }
}
