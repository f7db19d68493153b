//! Policy condition keys that describe the caller, of a request or of a mount.

use objstore::store::Account;
use s3_policy::ANONYMOUS;

/// An account as a policy sees one that it does not name: under a name that no other account has.
pub(super) fn stranger(account: &Account) -> Account {
    Account { name: format!("#{}", account.id), ..account.clone() }
}

/// The value of a condition key that depends on the account alone; `None` for an anonymous caller.
pub(super) fn value(key: &str, account: Option<&Account>) -> Option<String> {
    let name = account.map(|account| account.name.as_str());
    match (key, account) {
        ("aws:principaltype", None) => Some("Anonymous".into()),
        ("aws:principaltype", Some(account)) => Some(if account.root { "Account" } else { "User" }.into()),
        ("aws:userid", None) => Some(ANONYMOUS.into()),
        ("aws:userid" | "aws:principalaccount", _) => name.map(str::to_owned),
        ("aws:username", Some(account)) if !account.root => Some(account.name.clone()),
        ("aws:principalarn", Some(account)) => {
            let name = &account.name;
            Some(if account.root {
                format!("arn:aws:iam::{name}:root")
            } else {
                format!("arn:aws:iam::{name}:user/{name}")
            })
        }
        ("aws:principalisawsservice" | "aws:viaawsservice", _) => Some("false".into()),
        _ => None,
    }
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
