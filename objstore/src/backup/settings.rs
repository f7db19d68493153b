//! Adapting a bucket's settings during a restore, where accounts have other ids and the bucket may have another name.
//!
//! - A policy names accounts, whose ids are stored beside it (`Settings::policy_accounts`). With the ids of another
//!   store, every named account would count as a stranger, and denials for it would not apply; so the names are looked
//!   up again. A name that already meant a different account stays a stranger.
//! - Access control lists, of the bucket and of objects, name accounts by their ids. A backup stores the names of these
//!   accounts; one that was deleted before, or is missing in this store, means no account.
//! - The resources of a policy name its bucket. They are renamed with it, because otherwise the policy would apply to
//!   nothing.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::format::Manifest;
use super::records::Accounts;
use crate::error::Result;
use crate::meta::Read;
use crate::name::BucketName;
use crate::record::access_list::AccessList;
use crate::record::decode;
use crate::record::settings::Settings;
use crate::store::{deleted_names, find_account, header};

/// The id in place of a deleted account's; no account has it.
const NOBODY: u64 = 0;
/// The prefix of resources in a policy (S3 API, bucket policies).
const ARN: &str = "arn:aws:s3:::";

/// Settings in the form of a backup: accounts that their policy names and that are deleted are marked.
pub(super) fn kept(read: &dyn Read, value: &[u8]) -> Result<Vec<u8>> {
    let mut settings = of(value)?;
    for (name, id) in &mut settings.policy_accounts {
        if id_of(read, name)? != Some(*id) {
            *id = NOBODY;
        }
    }
    if settings.policy.is_some() {
        add_namesakes(read, &mut settings)?;
    }
    Ok(settings.encode_to_vec())
}

/// Marks names in a policy that now belong to accounts created after the policy was set.
fn add_namesakes(read: &dyn Read, settings: &mut Settings) -> Result<()> {
    for name in deleted_names(read)? {
        if id_of(read, &name)?.is_some_and(|id| id >= settings.policy_since) {
            settings.policy_accounts.insert(name, NOBODY);
        }
    }
    Ok(())
}

/// The accounts that the policy of a backup names.
pub(super) fn named(manifest: &Manifest) -> Result<Vec<String>> {
    let accounts = of(&manifest.settings)?.policy_accounts;
    Ok(accounts.into_iter().filter(|(_, id)| *id != NOBODY).map(|(name, _)| name).collect())
}

/// The accounts in access control lists of a backup, with their ids in this store.
pub(super) fn listed(read: &dyn Read, manifest: &Manifest) -> Result<Accounts> {
    let mut ids = BTreeMap::new();
    for (there, name) in &manifest.listed_accounts {
        if let Some(here) = id_of(read, name)? {
            ids.insert(*there, here);
        }
    }
    Ok(Accounts(ids))
}

/// The ids of the accounts in the access control list of a bucket with these settings.
pub(super) fn in_list(value: &[u8]) -> Result<BTreeSet<u64>> {
    Ok(of(value)?.acl.iter().flat_map(AccessList::accounts).collect())
}

/// The settings of a backup adapted to this store, for a bucket of this name.
pub(super) fn restored(read: &dyn Read, manifest: &Manifest, name: &BucketName) -> Result<Vec<u8>> {
    let mut settings = of(&manifest.settings)?;
    settings.policy = settings.policy.map(|policy| renamed(&policy, &manifest.bucket, name.as_str()));
    for (name, id) in settings.policy_accounts.iter_mut().filter(|(_, id)| **id != NOBODY) {
        *id = id_of(read, name)?.unwrap_or(NOBODY);
    }
    // A bucket that was its own target stays so.
    if let Some(logging) = settings.logging.as_mut().filter(|logging| logging.target == manifest.bucket) {
        logging.target = name.to_string();
    }
    if let Some(acl) = &mut settings.acl {
        let accounts = listed(read, manifest)?;
        acl.map_accounts(&|id| accounts.id(id));
    }
    // The policy refers to the current accounts.
    if settings.policy.is_some() {
        settings.policy_since = header::read(read)?.map_or(0, |header| header.next_id);
    }
    Ok(settings.encode_to_vec())
}

/// The settings in a backup; empty for a bucket without any.
pub(super) fn of(value: &[u8]) -> Result<Settings> {
    decode("the settings of a backup", value)
}

fn id_of(read: &dyn Read, account: &str) -> Result<Option<u64>> {
    Ok(find_account(read, account)?.map(|account| account.id))
}

/// The policy with the resources of bucket `from` replaced by those of bucket `to`. It is not validated: its reader
/// does that.
fn renamed(policy: &str, from: &str, to: &str) -> String {
    let mut parts = policy.split(ARN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(ARN);
        // A longer name belongs to another bucket.
        let ends = |rest: &&str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || ".-".contains(next));
        match part.strip_prefix(from).filter(ends) {
            Some(rest) => {
                text.push_str(to);
                text.push_str(rest);
            }
            None => text.push_str(part),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resources_of_a_policy_follow_its_bucket() {
        let policy = r#"{"Resource":["arn:aws:s3:::jar","arn:aws:s3:::jar/*","arn:aws:s3:::jar\/a","arn:aws:s3:::jar*/b",
            "arn:aws:s3:::jars/*","arn:aws:s3:::jar-2","arn:aws:s3:::*"],"Sid":"jar"}"#;
        let expected = r#"{"Resource":["arn:aws:s3:::pot-1","arn:aws:s3:::pot-1/*","arn:aws:s3:::pot-1\/a","arn:aws:s3:::pot-1*/b",
            "arn:aws:s3:::jars/*","arn:aws:s3:::jar-2","arn:aws:s3:::*"],"Sid":"jar"}"#;
        assert_eq!(renamed(policy, "jar", "pot-1"), expected);
        assert_eq!(renamed(policy, "jar", "jar"), policy);
    }
}
