//! Check of buckets and snapshots: ids lead to names, and settings agree with buckets.
//!
//! - Settings that are missing or unreadable may have included a denying policy. They are replaced by settings that
//!   admit only the owner, who has to set the policy again. Object lock is kept where something is locked.

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report, Root, Roots, orphan_branches};
use crate::error::Result;
use crate::meta::Pair;
use crate::record::bucket::{Bucket, Snapshot, VersioningState};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::settings::{ObjectLock, PublicAccess, Settings};

/// The replacement for an unreadable policy. It is not a valid policy, so everything is denied.
const NO_POLICY: &str = "the settings of this bucket could not be read: put its policy and other settings again";

/// The trees of all buckets and snapshots.
pub(super) fn roots(store: &Checked<'_>, report: &mut Report) -> Result<Roots> {
    let mut roots = Roots::default();
    store.each(&[tag::BUCKET], |pair| {
        let what = format!("bucket \"{}\"", String::from_utf8_lossy(&pair.key[1..]));
        match report.take(decode::<Bucket>(&what, &pair.value)) {
            Some(record) => {
                report.buckets += 1;
                store.buckets.borrow_mut().insert(record.id);
                check_id(store, &what, record.id, &pair.key[1..], report)?;
                check_settings(store, &what, pair, &record, report)?;
                let Bucket { id, clone_group, branch, .. } = record;
                roots.shown.push(Root { what, clone_group, branch, bucket: Some(id) });
            }
            None => roots.unreadable.push(pair.clone()),
        }
        Ok(())
    })?;
    store.each(&[tag::SNAPSHOT], |pair| {
        let what = format!("snapshot \"{}\"", String::from_utf8_lossy(&pair.key[1..]));
        match report.take(decode::<Snapshot>(&what, &pair.value)) {
            Some(record) => {
                report.snapshots += 1;
                roots.shown.push(Root { what, clone_group: record.clone_group, branch: record.branch, bucket: None });
            }
            None => roots.unreadable.push(pair.clone()),
        }
        Ok(())
    })?;
    Ok(roots)
}

fn check_id(store: &Checked<'_>, what: &str, id: u64, name: &[u8], report: &mut Report) -> Result<()> {
    let id_key = key::by_id(tag::BUCKET_ID, id);
    if store.read().get(&id_key)?.as_deref() != Some(name) {
        report.problem(format!("{what}: its id {id} does not lead back to its name"));
        store.fix(Fix::put(id_key, name.to_vec(), format!("{what}: repaired, its id leads to its name")));
    }
    Ok(())
}

/// Checks that settings which were ever changed exist, and that a bucket with object lock has versioning.
fn check_settings(store: &Checked<'_>, what: &str, bucket: &Pair, record: &Bucket, report: &mut Report) -> Result<()> {
    let at = key::by_id(tag::SETTINGS, record.id);
    let value = store.read().get(&at)?;
    let done = format!("{what}: only its owner has access through S3 until its policy and settings are set again");
    let settings = match value {
        None if record.settings > 0 => {
            report.problem(format!("{what}: its settings, changed {} times, are missing", record.settings));
            store.fix(Fix::put(at, closed(store, record)?, done));
            return Ok(());
        }
        None => return Ok(()),
        Some(value) => match report.take(decode::<Settings>(&format!("the settings of {what}"), &value)) {
            Some(settings) => settings,
            None => {
                let pair = Pair { key: at.into(), value };
                store.fix(Fix::quarantine_record(&pair, Some(closed(store, record)?), done));
                return Ok(());
            }
        },
    };
    if record.settings == 0 {
        report.problem(format!("{what}: its record has no settings, but there are some"));
        let told = Bucket { settings: 1, ..record.clone() };
        store.fix(Fix::put(
            bucket.key.to_vec(),
            told.encode_to_vec(),
            format!("{what}: repaired, its settings apply again"),
        ));
    }
    if settings.object_lock.is_some() && record.versioning() != VersioningState::Enabled {
        report.problem(format!("{what}: it has object lock without versioning; enable its versioning"));
    }
    Ok(())
}

/// Settings that deny all access.
fn closed(store: &Checked<'_>, record: &Bucket) -> Result<Vec<u8>> {
    let locked = orphan_branches::traits(store, record.clone_group, record.branch)?.locked;
    let all = PublicAccess {
        block_acls: true,
        ignore_acls: true,
        block_policy: true,
        restrict_buckets: true,
        deleted: false,
    };
    let settings = Settings {
        policy: Some(NO_POLICY.into()),
        public_access: Some(all),
        object_lock: locked.then(ObjectLock::default),
        ..Settings::default()
    };
    Ok(settings.encode_to_vec())
}
