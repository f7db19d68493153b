//! Policy condition keys that describe the caller, of a request or of a mount.

use objstore::store::Account;
use s3_policy::ANONYMOUS;

use super::session::Session;

/// An account as a policy sees one that it does not name: under a name that no other account has.
pub(super) fn stranger(account: &Account) -> Account {
    Account { name: format!("#{}", account.id), ..account.clone() }
}

/// The value of a condition key that depends on the caller alone: its account, and the session in which it acts. `None`
/// for an anonymous caller.
pub(super) fn value(key: &str, account: Option<&Account>, session: Option<&Session>) -> Option<String> {
    let name = account.map(|account| account.name.as_str());
    match (key, account, session) {
        ("aws:principaltype", Some(_), Some(_)) => Some("AssumedRole".into()),
        ("aws:userid", Some(_), Some(session)) => Some(session.user_id.clone()),
        ("aws:principalarn", Some(_), Some(session)) => Some(session.role_arn.clone()),
        // A role has no user's name, as on AWS.
        ("aws:username", _, Some(_)) => None,
        ("aws:principaltype", None, _) => Some("Anonymous".into()),
        ("aws:principaltype", Some(account), None) => Some(if account.root { "Account" } else { "User" }.into()),
        ("aws:userid", None, _) => Some(ANONYMOUS.into()),
        ("aws:userid" | "aws:principalaccount", ..) => name.map(str::to_owned),
        ("aws:username", Some(account), None) if !account.root => Some(account.name.clone()),
        ("aws:principalarn", Some(account), None) => Some(arn(account)),
        ("aws:principalisawsservice" | "aws:viaawsservice", ..) => Some("false".into()),
        _ => None,
    }
}

/// The account as AWS writes it: root, or a user.
pub(crate) fn arn(account: &Account) -> String {
    let name = &account.name;
    if account.root { format!("arn:aws:iam::{name}:root") } else { format!("arn:aws:iam::{name}:user/{name}") }
}

/// Whether the value of a condition key depends on the account alone.
pub(super) fn decides(key: &str) -> bool {
    key.starts_with("aws:principal") || matches!(key, "aws:userid" | "aws:username" | "aws:viaawsservice")
}

/// An account of this name and the id 7, for tests.
#[cfg(test)]
pub(super) fn account(name: &str) -> Account {
    Account {
        name: name.into(),
        id: 7,
        may_create_buckets: false,
        root: false,
        created: objstore::clock::Timestamp(0),
        creator: objstore::store::Creator::Administrator,
    }
}
