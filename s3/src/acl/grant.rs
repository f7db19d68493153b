//! Grants as requests name them: accounts by their canonical ids, which are their names here, and groups by URI (S3 User
//! Guide, "Who is a grantee?").

use objstore::store::{AccessGrant, Grantee, Permission};
use objstore::{Error, Store};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::error::{bad_argument, from_store, refuse};

/// The canonical id by which Amazon EC2 reads machine images (S3 User Guide, "Canned ACL", aws-exec-read).
pub(super) const EC2_ID: &str = "6aa5a366c34c1cbe25dc49211496e913e0351eb0e8c37aa3477e40942ec6b97c";

/// The groups, by URI.
const GROUPS: [(&str, Grantee); 3] = [
    ("http://acs.amazonaws.com/groups/global/AllUsers", Grantee::AllUsers),
    ("http://acs.amazonaws.com/groups/global/AuthenticatedUsers", Grantee::AuthenticatedUsers),
    ("http://acs.amazonaws.com/groups/s3/LogDelivery", Grantee::LogDelivery),
];

/// The permissions, by name.
const PERMISSIONS: [(&str, Permission); 5] = [
    ("FULL_CONTROL", Permission::FullControl),
    ("READ", Permission::Read),
    ("READ_ACP", Permission::ReadAcp),
    ("WRITE", Permission::Write),
    ("WRITE_ACP", Permission::WriteAcp),
];

/// A grant as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) grantee: NamedGrantee,
    pub(super) permission: Permission,
}

/// A grantee as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamedGrantee {
    /// An account, by its canonical id.
    Id(String),
    /// A group.
    Group(Grantee),
}

impl NamedGrantee {
    /// The group of this URI.
    pub(super) fn group(uri: &str) -> S3Result<Self> {
        let found = GROUPS.iter().find(|(known, _)| *known == uri);
        found.map(|(_, group)| Self::Group(*group)).ok_or_else(|| bad_argument("Invalid group uri", "URI", uri))
    }
}

impl Named {
    /// The grant with the id of its account, which is looked up.
    pub(super) fn look_up(self, store: &Store) -> S3Result<AccessGrant> {
        let grantee = match self.grantee {
            NamedGrantee::Group(group) => group,
            NamedGrantee::Id(id) if id == EC2_ID => Grantee::Ec2,
            NamedGrantee::Id(id) => Grantee::Account(account(store, &id)?),
        };
        Ok(AccessGrant::new(grantee, self.permission))
    }
}

/// The id in the store of the account with a canonical id.
pub(super) fn account(store: &Store, id: &str) -> S3Result<u64> {
    match store.account(id) {
        Ok(account) => Ok(account.id),
        Err(Error::NotFound { .. } | Error::Invalid { .. }) => Err(bad_argument("Invalid id", "CanonicalUser/ID", id)),
        Err(error) => Err(from_store(error)),
    }
}

/// The grant in the list of a bucket or object of `owner`, whose own grants are stored under [`Grantee::Owner`].
pub(super) fn of(grant: AccessGrant, owner: u64) -> AccessGrant {
    match grant.grantee() {
        Some(Grantee::Account(id)) if id == owner => AccessGrant::new(Grantee::Owner, grant.permission()),
        _ => grant,
    }
}

/// The URI of a group.
pub(super) fn uri(group: Grantee) -> Option<&'static str> {
    GROUPS.iter().find(|(_, known)| *known == group).map(|(uri, _)| *uri)
}

/// The permission of this name.
pub(super) fn permission(name: &str) -> Option<Permission> {
    PERMISSIONS.iter().find(|(known, _)| *known == name).map(|(_, permission)| *permission)
}

/// The name of a permission; none for a permission that a later version wrote.
pub(super) fn permission_name(permission: Permission) -> Option<&'static str> {
    PERMISSIONS.iter().find(|(_, known)| *known == permission).map(|(name, _)| *name)
}

/// A grantee by e-mail address, which AWS refuses since October 2025 (S3 API, Grantee).
pub(super) fn by_email() -> S3Error {
    let hint = "Grantees by e-mail address are not taken; name the canonical id, which is the account's name here.";
    refuse(S3ErrorCode::MethodNotAllowed, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_permissions_have_the_names_of_aws() {
        for (uri_of, group) in GROUPS {
            assert_eq!(NamedGrantee::group(uri_of).unwrap(), NamedGrantee::Group(group));
            assert_eq!(uri(group), Some(uri_of));
        }
        for (name, of) in PERMISSIONS {
            assert_eq!((permission(name), permission_name(of)), (Some(of), Some(name)));
        }
        let error = NamedGrantee::group("http://acs.amazonaws.com/groups/global/Nobody").unwrap_err();
        assert_eq!(error.code().as_str(), "InvalidArgument");
        assert_eq!((permission("read"), permission_name(Permission::None)), (None, None));
        assert_eq!(by_email().status_code().map(|status| status.as_u16()), Some(405));
    }
}
