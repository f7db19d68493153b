//! Access control lists of S3: the accounts and groups that may use a bucket or an object, in addition to those with a
//! grant or a policy (S3 User Guide, "Access control list (ACL) overview").
//!
//! - Accounts are stored by their ids, which are never reused: a later account with the name of a deleted one gets
//!   nothing from it.
//! - An absent list is the canned ACL `private`: the owner has FULL_CONTROL, and no other account has access.

use std::collections::BTreeSet;

use prost::Message;

/// The maximum number of grants in a list (S3 User Guide, "Access control list (ACL) overview").
pub const ACL_GRANTS_MAX: usize = 100;

/// An access control list.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AccessList {
    /// Its grants, in the order they were given.
    #[prost(message, repeated, tag = "1")]
    pub grants: Vec<AccessGrant>,
}

/// One grant of a list.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AccessGrant {
    /// The kind of grantee: a [`GranteeKind`].
    #[prost(enumeration = "GranteeKind", tag = "1")]
    pub kind: i32,
    /// The account's id, for the kind [`GranteeKind::Account`]; zero is an account of another store.
    #[prost(uint64, tag = "2")]
    pub account: u64,
    /// What the grant allows: a [`Permission`].
    #[prost(enumeration = "Permission", tag = "3")]
    pub permission: i32,
}

/// The kind of grantee of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum GranteeKind {
    /// Not set: the record is damaged, or of a later version. The grant is for no account.
    None = 0,
    /// The owner of the bucket or object that has the list.
    Owner = 1,
    /// An account.
    Account = 2,
    /// Everybody, signed or not.
    AllUsers = 3,
    /// Every account.
    AuthenticatedUsers = 4,
    /// The service that writes access logs.
    LogDelivery = 5,
    /// The account with which Amazon EC2 reads machine images (the canned ACL `aws-exec-read`). It does not exist here.
    Ec2 = 6,
}

/// What a grant allows (S3 User Guide, "What permissions can I grant?").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Permission {
    /// Not set: the record is damaged, or of a later version. The grant allows nothing.
    None = 0,
    /// List a bucket; read an object.
    Read = 1,
    /// Create objects in a bucket.
    Write = 2,
    /// Read the list.
    ReadAcp = 3,
    /// Write the list.
    WriteAcp = 4,
    /// All of these.
    FullControl = 5,
}

/// The grantee of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grantee {
    /// The owner of the bucket or object that has the list.
    Owner,
    /// An account, by its id.
    Account(u64),
    /// Everybody, signed or not.
    AllUsers,
    /// Every account.
    AuthenticatedUsers,
    /// The service that writes access logs.
    LogDelivery,
    /// Amazon EC2, which does not exist here.
    Ec2,
}

impl Grantee {
    /// Whether it is one of the groups that make a list public (S3 User Guide, "The meaning of public").
    pub fn is_public(self) -> bool {
        matches!(self, Self::AllUsers | Self::AuthenticatedUsers)
    }
}

impl AccessGrant {
    /// A grant of `permission` to `grantee`.
    pub fn new(grantee: Grantee, permission: Permission) -> Self {
        let (kind, account) = match grantee {
            Grantee::Owner => (GranteeKind::Owner, 0),
            Grantee::Account(id) => (GranteeKind::Account, id),
            Grantee::AllUsers => (GranteeKind::AllUsers, 0),
            Grantee::AuthenticatedUsers => (GranteeKind::AuthenticatedUsers, 0),
            Grantee::LogDelivery => (GranteeKind::LogDelivery, 0),
            Grantee::Ec2 => (GranteeKind::Ec2, 0),
        };
        Self { kind: kind as i32, account, permission: permission as i32 }
    }

    /// The grantee; `None` if this version does not know the kind in the record.
    pub fn grantee(&self) -> Option<Grantee> {
        match self.kind() {
            GranteeKind::None => None,
            GranteeKind::Owner => Some(Grantee::Owner),
            GranteeKind::Account => Some(Grantee::Account(self.account)),
            GranteeKind::AllUsers => Some(Grantee::AllUsers),
            GranteeKind::AuthenticatedUsers => Some(Grantee::AuthenticatedUsers),
            GranteeKind::LogDelivery => Some(Grantee::LogDelivery),
            GranteeKind::Ec2 => Some(Grantee::Ec2),
        }
    }

    /// Whether it allows `wanted`.
    pub fn gives(&self, wanted: Permission) -> bool {
        wanted != Permission::None
            && matches!(self.permission(), given if given == wanted || given == Permission::FullControl)
    }
}

impl AccessList {
    /// The list of the canned ACL `private`.
    pub fn private() -> Self {
        Self { grants: vec![AccessGrant::new(Grantee::Owner, Permission::FullControl)] }
    }

    /// The list as it is stored: absent for `private`.
    pub fn kept(self) -> Option<Self> {
        (self != Self::private()).then_some(self)
    }

    /// Whether it gives the public access.
    pub fn is_public(&self) -> bool {
        self.grants.iter().any(|grant| grant.grantee().is_some_and(Grantee::is_public))
    }

    /// The ids of the accounts in the list.
    pub fn accounts(&self) -> BTreeSet<u64> {
        self.grants.iter().filter(|grant| grant.kind() == GranteeKind::Account).map(|grant| grant.account).collect()
    }

    /// Replaces the ids of its accounts.
    pub fn map_accounts(&mut self, map: &impl Fn(u64) -> u64) {
        for grant in self.grants.iter_mut().filter(|grant| grant.kind() == GranteeKind::Account) {
            grant.account = map(grant.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    fn sample() -> AccessList {
        let grants = [
            AccessGrant::new(Grantee::Owner, Permission::FullControl),
            AccessGrant::new(Grantee::Account(7), Permission::ReadAcp),
            AccessGrant::new(Grantee::AllUsers, Permission::Read),
        ];
        AccessList { grants: grants.into() }
    }

    #[test]
    fn lists_round_trip() {
        let bytes = sample().encode_to_vec();
        assert_eq!(decode::<AccessList>("an ACL", &bytes).unwrap(), sample());
        for grantee in [
            Grantee::Owner,
            Grantee::Account(3),
            Grantee::AllUsers,
            Grantee::AuthenticatedUsers,
            Grantee::LogDelivery,
            Grantee::Ec2,
        ] {
            assert_eq!(AccessGrant::new(grantee, Permission::Read).grantee(), Some(grantee));
        }
        assert!(sample().is_public() && !AccessList::private().is_public());
        assert_eq!(sample().accounts().into_iter().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn a_changed_byte_never_panics_and_never_reads_as_the_same() {
        let bytes = sample().encode_to_vec();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            if let Ok(read) = decode::<AccessList>("an ACL", &damaged) {
                assert_ne!(read, sample(), "byte {at}");
            }
        }
    }

    #[test]
    fn what_a_later_version_wrote_means_nobody_and_nothing() {
        let grant = AccessGrant { kind: 99, account: 7, permission: 99 };
        assert_eq!((grant.grantee(), grant.gives(Permission::Read)), (None, false));
        assert!(!grant.gives(Permission::None));
    }
}
