//! Canned ACLs (S3 User Guide, "Canned ACL").

use objstore::store::{AccessGrant, AccessList, Grantee, Permission};

use super::Of;

/// A canned ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Canned {
    Private,
    PublicRead,
    PublicReadWrite,
    AuthenticatedRead,
    AwsExecRead,
    BucketOwnerRead,
    BucketOwnerFullControl,
    LogDeliveryWrite,
}

use Canned::{
    AuthenticatedRead, AwsExecRead, BucketOwnerFullControl, BucketOwnerRead, LogDeliveryWrite, Private, PublicRead,
    PublicReadWrite,
};

/// All of them, by name.
const CANNED: [(&str, Canned); 8] = [
    ("authenticated-read", AuthenticatedRead),
    ("aws-exec-read", AwsExecRead),
    ("bucket-owner-full-control", BucketOwnerFullControl),
    ("bucket-owner-read", BucketOwnerRead),
    ("log-delivery-write", LogDeliveryWrite),
    ("private", Private),
    ("public-read", PublicRead),
    ("public-read-write", PublicReadWrite),
];

impl Canned {
    /// The canned ACL of this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        CANNED.iter().find(|(known, _)| *known == name).map(|(_, canned)| *canned)
    }

    /// Whether it can be set on this.
    pub(super) fn is_for(self, of: Of) -> bool {
        of == Of::Bucket || self != LogDeliveryWrite
    }

    /// Whether it says what holds where ACLs are disabled: the owner of the bucket has full control, and nobody else
    /// anything.
    pub(super) fn is_in_force(self) -> bool {
        matches!(self, Private | BucketOwnerRead | BucketOwnerFullControl)
    }

    /// The list. `bucket_owner` is the id of the account that owns the bucket, where another owns the object; on a
    /// bucket those that name its owner mean `private`.
    pub(super) fn list(self, bucket_owner: Option<u64>) -> AccessList {
        let all = |permission| Some((Grantee::AllUsers, permission));
        let owner = |permission| bucket_owner.map(|id| (Grantee::Account(id), permission));
        let others = match self {
            Private => [None, None],
            PublicRead => [all(Permission::Read), None],
            PublicReadWrite => [all(Permission::Read), all(Permission::Write)],
            AuthenticatedRead => [Some((Grantee::AuthenticatedUsers, Permission::Read)), None],
            AwsExecRead => [Some((Grantee::Ec2, Permission::Read)), None],
            BucketOwnerRead => [owner(Permission::Read), None],
            BucketOwnerFullControl => [owner(Permission::FullControl), None],
            LogDeliveryWrite => {
                [Permission::Write, Permission::ReadAcp].map(|permission| Some((Grantee::LogDelivery, permission)))
            }
        };
        let others = others.into_iter().flatten().map(|(grantee, permission)| AccessGrant::new(grantee, permission));
        AccessList { grants: AccessList::private().grants.into_iter().chain(others).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_canned_acl_grants_what_aws_documents() {
        let full = (Grantee::Owner, Permission::FullControl);
        let bucket = Grantee::Account(7);
        let table = [
            ("private", vec![full]),
            ("public-read", vec![full, (Grantee::AllUsers, Permission::Read)]),
            (
                "public-read-write",
                vec![full, (Grantee::AllUsers, Permission::Read), (Grantee::AllUsers, Permission::Write)],
            ),
            ("authenticated-read", vec![full, (Grantee::AuthenticatedUsers, Permission::Read)]),
            ("aws-exec-read", vec![full, (Grantee::Ec2, Permission::Read)]),
            ("bucket-owner-read", vec![full, (bucket, Permission::Read)]),
            ("bucket-owner-full-control", vec![full, (bucket, Permission::FullControl)]),
            (
                "log-delivery-write",
                vec![full, (Grantee::LogDelivery, Permission::Write), (Grantee::LogDelivery, Permission::ReadAcp)],
            ),
        ];
        assert_eq!(table.len(), CANNED.len());
        for (name, grants) in table {
            let canned = Canned::parse(name).unwrap();
            let expected: Vec<_> = grants.into_iter().map(|(who, what)| AccessGrant::new(who, what)).collect();
            assert_eq!(canned.list(Some(7)).grants, expected, "{name}");
            // Who owns the bucket and the object stands in the list once.
            assert_eq!(canned.list(None) == AccessList::private(), canned.is_in_force(), "{name}");
        }
        assert_eq!(Canned::parse("Private"), None);
    }
}
