//! Accounts and what is theirs: whether names and numbers lead to each other, and keys, grants and publications belong
//! to somebody.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::fix::Fix;
use super::{Checked, Report};
use crate::clock::SystemRandom;
use crate::disk::Disk;
use crate::error::Result;
use crate::grant::{Bound, Master};
use crate::record::account::{Account, Grant, GrantMode, Key, Publication};
use crate::record::decode;
use crate::record::key::{self, tag};

/// Checks all but the seals.
pub(super) fn check(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    let mut ids = HashSet::new();
    store.each(&[tag::ACCOUNT], |pair| {
        let name = &pair.key[1..];
        let what = format!("account \"{}\"", String::from_utf8_lossy(name));
        let Some(account) = report.take(decode::<Account>(&what, &pair.value)) else { return Ok(()) };
        report.accounts += 1;
        if !ids.insert(account.id) {
            report.problem(format!("{what}: another account has its id {}", account.id));
        }
        let id_key = key::by_id(tag::ACCOUNT_ID, account.id);
        if store.read().get(&id_key)?.as_deref() != Some(name) {
            report.problem(format!("{what}: its id {} does not lead back to its name", account.id));
            store.fix(Fix::put(id_key, name.to_vec(), format!("{what}: its id leads to its name again")));
        }
        Ok(())
    })?;
    store.each(&[tag::KEY], |pair| {
        let what = format!("access key {}", String::from_utf8_lossy(&pair.key[1..]));
        if let Some(key) = report.take(decode::<Key>(&what, &pair.value))
            && !ids.contains(&key.account)
        {
            report.problem(format!("{what}: there is no account {}; delete the key", key.account));
        }
        Ok(())
    })?;
    grants(store, &ids, report)
}

fn grants(store: &Checked<'_>, accounts: &HashSet<u64>, report: &mut Report) -> Result<()> {
    store.each(&[tag::GRANT], |pair| {
        let Some((bucket, account)) = key::u64_at(&pair.key, 1).zip(key::u64_at(&pair.key, 9)) else {
            report.problem("a grant: its key has no bucket and account");
            return Ok(());
        };
        let what = format!("the grant of bucket {bucket} to account {account}");
        let Some(grant) = report.take(decode::<Grant>(&what, &pair.value)) else { return Ok(()) };
        if !is_bucket(store, bucket)? || !accounts.contains(&account) {
            report.problem(format!("{what}: there is no such bucket, or no such account"));
            store.fix(Fix::remove(pair.key.to_vec(), format!("{what}: removed, it lets nobody in anywhere")));
        } else if grant.mode() == GrantMode::None {
            report.problem(format!("{what}: it says no mode; add it anew"));
        }
        Ok(())
    })?;
    store.each(&[tag::PUBLICATION], |pair| {
        let bucket = key::u64_at(&pair.key, 1).unwrap_or_default();
        let what = format!("a publication of bucket {bucket}");
        if report.take(decode::<Publication>(&what, &pair.value)).is_some() && !is_bucket(store, bucket)? {
            report.problem(format!("{what}: there is no such bucket"));
            store.fix(Fix::remove(pair.key.to_vec(), format!("{what}: removed, there is no such bucket")));
        }
        Ok(())
    })
}

/// Whether there is a bucket with this id.
pub(super) fn is_bucket(store: &Checked<'_>, id: u64) -> Result<bool> {
    Ok(store.read().get(&key::by_id(tag::BUCKET_ID, id))?.is_some())
}

impl Checked<'_> {
    /// Opens every sealed secret.
    pub(super) fn check_seals(&self, disk: &Arc<dyn Disk>, dir: &Path, report: &mut Report) -> Result<()> {
        let master = Master::open(disk.clone(), dir, &SystemRandom, false);
        let Some(master) = report.take(master) else { return Ok(()) };
        self.each(&[tag::KEY], |pair| {
            let id = String::from_utf8_lossy(&pair.key[1..]);
            let Ok(key) = decode::<Key>("an access key", &pair.value) else { return Ok(()) };
            let bound = Bound { account: key.account, key_id: &id, version: key.version };
            if let Err(error) = master.sealer().open_secret(&key.sealed, bound) {
                report.problem(format!("{error}; delete access key {id} and make another"));
            }
            Ok(())
        })
    }
}
