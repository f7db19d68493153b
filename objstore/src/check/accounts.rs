//! Check of accounts: names and ids lead to each other, and keys, grants, roles and publications have an owner.

use std::collections::HashSet;
use std::sync::Arc;

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report, orphan_branches};
use crate::clock::SystemRandom;
use crate::disk::Disk;
use crate::error::Result;
use crate::grant::{Bound, KeyPlace, Master};
use crate::meta::Pair;
use crate::record::account::{Account, Grant, GrantMode, Key, Publication, Role};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::store::{ROOT_ACCOUNT, volume_authority};

/// Checks everything except the seals.
pub(super) fn check(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    let mut ids = HashSet::new();
    let mut led_to = HashSet::new();
    store.each(&[tag::ACCOUNT], |pair| {
        let name = &pair.key[1..];
        let what = format!("account \"{}\"", String::from_utf8_lossy(name));
        let Some(account) = report.take(decode::<Account>(&what, &pair.value)) else {
            return unreadable(store, &what, pair);
        };
        report.accounts += 1;
        if !ids.insert(account.id) {
            report.problem(format!("{what}: another account has its id {}", account.id));
        }
        let id_key = key::by_id(tag::ACCOUNT_ID, account.id);
        if store.read().get(&id_key)?.as_deref() != Some(name) {
            report.problem(format!("{what}: its id {} does not lead back to its name", account.id));
            store.fix(Fix::put(id_key, name.to_vec(), format!("{what}: repaired, its id leads to its name")));
        }
        Ok(())
    })?;
    store.each(&[tag::ACCOUNT_ID], |pair| {
        if store.read().get(&[&[tag::ACCOUNT], &pair.value[..]].concat())?.is_some() {
            led_to.extend(key::u64_at(&pair.key, 1));
        } else if let Some(id) = key::u64_at(&pair.key, 1).filter(|id| !ids.contains(id)) {
            report.problem(format!("account id {id}: it leads to no account"));
            store.fix(Fix::quarantine_record(pair, None, format!("account id {id}: removed, it led to no account")));
        }
        Ok(())
    })?;
    // An unreadable account still owns its records.
    ids.extend(led_to);
    store.each(&[tag::KEY], |pair| {
        let what = format!("access key {}", String::from_utf8_lossy(&pair.key[1..]));
        if let Some(key) = store.take_or_quarantine::<Key>(&what, pair, report)
            && !ids.contains(&key.account)
        {
            report.problem(format!("{what}: there is no account {}", key.account));
            store.fix(Fix::quarantine_record(pair, None, format!("{what}: removed, it has no account")));
        }
        Ok(())
    })?;
    roles(store, &ids, report)?;
    grants(store, &ids, report)
}

fn roles(store: &Checked<'_>, accounts: &HashSet<u64>, report: &mut Report) -> Result<()> {
    store.each(&[tag::ROLE], |pair| {
        let name = String::from_utf8_lossy(pair.key.get(key::ROLE_NAME_AT..).unwrap_or_default());
        let account = key::u64_at(&pair.key, 1).unwrap_or_default();
        let what = format!("role \"{name}\" of account {account}");
        if store.take_or_quarantine::<Role>(&what, pair, report).is_some() && !accounts.contains(&account) {
            report.problem(format!("{what}: there is no such account"));
            store.fix(Fix::quarantine_record(pair, None, format!("{what}: removed, it has no account")));
        }
        Ok(())
    })
}

fn grants(store: &Checked<'_>, accounts: &HashSet<u64>, report: &mut Report) -> Result<()> {
    store.each(&[tag::GRANT], |pair| {
        let Some((bucket, account)) = key::u64_at(&pair.key, 1).zip(key::u64_at(&pair.key, 9)) else {
            report.problem("a grant: its key has no bucket and account");
            return Ok(());
        };
        let what = format!("the grant of bucket {bucket} to account {account}");
        let Some(grant) = store.take_or_quarantine::<Grant>(&what, pair, report) else { return Ok(()) };
        if !is_bucket(store, bucket)? || !accounts.contains(&account) {
            report.problem(format!("{what}: there is no such bucket, or no such account"));
            store.fix(Fix::quarantine_record(pair, None, format!("{what}: removed, it had no effect")));
        } else if grant.mode() == GrantMode::None {
            report.problem(format!("{what}: it has no mode; add the grant again"));
            store.fix(Fix::quarantine_record(pair, None, format!("{what}: removed, it had no mode")));
        }
        Ok(())
    })?;
    store.each(&[tag::PUBLICATION], |pair| {
        let bucket = key::u64_at(&pair.key, 1).unwrap_or_default();
        let what = format!("a publication of bucket {bucket}");
        let publication = report.take(decode::<Publication>(&what, &pair.value));
        if !is_bucket(store, bucket)? {
            report.problem(format!("{what}: there is no such bucket"));
            store.fix(Fix::quarantine_record(pair, None, format!("{what}: removed, there was no such bucket")));
        } else if publication.is_none() {
            // The volume stays attached, with a capability that no one requests: it has to be detached first.
            let unknown = Publication { read_only: true, capability: "unknown".into(), ..Publication::default() };
            store.fix(Fix::quarantine_record(
                pair,
                Some(unknown.encode_to_vec()),
                format!("{what}: detach the volume and attach it again"),
            ));
        }
        Ok(())
    })
}

/// The parts of an unreadable account that follow from other records: its name and id. It may not create buckets.
fn unreadable(store: &Checked<'_>, what: &str, pair: &Pair) -> Result<()> {
    let id = orphan_branches::id_of(store, tag::ACCOUNT_ID, &pair.key[1..])?;
    let root = pair.key[1..] == *ROOT_ACCOUNT.as_bytes();
    let account = id.map(|id| Account { id, may_create_buckets: root, root, ..Account::default() }.encode_to_vec());
    let done = match id {
        Some(_) if root => "repaired from its name",
        Some(_) => "repaired from its name; it may not create buckets",
        None => "removed: its id is unknown, and so are its keys and grants",
    };
    store.fix(Fix::quarantine_record(pair, account, format!("{what}: {done}")));
    Ok(())
}

/// Whether a bucket with this id exists, or one that lost its record.
pub(super) fn is_bucket(store: &Checked<'_>, id: u64) -> Result<bool> {
    Ok(store.buckets.borrow().contains(&id) || store.read().get(&key::by_id(tag::BUCKET_ID, id))?.is_some())
}

impl Checked<'_> {
    /// Opens every sealed secret.
    pub(super) fn check_seals(&self, disk: &Arc<dyn Disk>, place: KeyPlace, report: &mut Report) -> Result<()> {
        let master = Master::open(disk.clone(), place, None, &SystemRandom, false);
        let Some(master) = report.take(master) else { return Ok(()) };
        let (mut opened, mut sealed) = (0, Vec::new());
        self.each(&[tag::KEY], |pair| {
            let id = String::from_utf8_lossy(&pair.key[1..]);
            let Ok(key) = decode::<Key>("an access key", &pair.value) else { return Ok(()) };
            let bound = Bound { account: key.account, key_id: &id, version: key.version };
            match master.sealer().open_secret(&key.sealed, bound) {
                Ok(_) => opened += 1,
                Err(error) => {
                    report.problem(format!("{error}; delete access key {id} and make another"));
                    sealed.push(Fix::quarantine_record(
                        pair,
                        None,
                        format!("access key {id}: its secret cannot be opened"),
                    ));
                }
            }
            Ok(())
        })?;
        let what = "the authority of the volume listener";
        match volume_authority::check(self.read(), master.sealer()) {
            Ok(kept) => opened += usize::from(kept),
            Err(error) => {
                report.problem(format!("{what}: {error}; give the listener a certificate with --volume-cert"));
                if let Some(value) = self.read().get(&key::volume_authority())? {
                    let pair = Pair { key: key::volume_authority().into(), value };
                    let done = format!("{what}: removed, the next start makes another, which nodes have to be given");
                    sealed.push(Fix::quarantine_record(&pair, None, done));
                }
            }
        }
        // If no secret opens, the master key is a different one; during a rotation it may be the next one.
        if opened > 0 && !master.is_rotating() {
            sealed.into_iter().for_each(|fix| self.fix(fix));
        }
        Ok(())
    }
}
