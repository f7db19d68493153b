//! Restoring a bucket from a backup.

use std::sync::Arc;

use prost::Message;
use tokio::task::JoinError;

use super::chunks::Reader;
use super::create::shown;
use super::fill::Fill;
use super::folder::Folder;
use super::format::{BlobEntry, Entry, Manifest};
use super::{Backup, Progress, ProgressSink, settings, validate};
use crate::branch::{self, Ancestry};
use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::{Error, Noun, Result};
use crate::meta::{Durability, Read, Txn};
use crate::name::BucketName;
use crate::record::account::{Grant as GrantRecord, GrantMode};
use crate::record::bucket::{Bucket, CloneGroup, Usage};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::restore::Restore;
use crate::store::{ROOT_ACCOUNT, Store, check_buckets, find_account, header};
use crate::tree::{Tally, Tree, tally};

/// The most blobs, and the most bytes, created in one transaction.
const BLOBS: usize = 256;
const BLOB_BYTES: u64 = 32 << 20;
/// The most records created in one transaction.
const RECORDS: usize = 256;

/// Restores a backup as the bucket `name`, which must not exist; missing accounts are created, without keys.
///
/// # Errors
/// [`Error::Exists`] if the name is taken; [`Error::Corrupt`] if the backup is damaged or incomplete. Nothing is
/// visible then.
pub async fn restore(
    store: &Store,
    folder: &Arc<Folder>,
    (bucket, id): (&str, &str),
    name: &BucketName,
    told: &ProgressSink,
) -> Result<Backup> {
    let manifest = folder.manifest(bucket, id)?;
    refuse_taken(&*store.core.meta.snapshot(), &store.core, name)?;
    let shared = folder.clone();
    let looked = tokio::task::spawn_blocking(move || validate::check(&shared, &manifest).map(|()| manifest));
    let manifest = done(looked.await)?;
    let (named, listed) = (settings::named(&manifest)?, manifest.listed_accounts.values());
    let granted = manifest.grants.iter().map(|grant| &grant.account);
    for account in granted.chain([&manifest.owner]).chain(&named).chain(listed) {
        store.restore_account(account).await?;
    }
    let (held, folder, name, told) = (store.clone(), folder.clone(), name.clone(), told.clone());
    let id = id.to_owned();
    let restored = tokio::task::spawn_blocking(move || {
        bring_back(&held, &folder, &manifest, &name, &told)?;
        Ok(shown(id, manifest))
    });
    let restored = restored.await;
    store.grants_changed().await;
    done(restored)
}

/// The result of a blocking task.
fn done<T>(work: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    work.unwrap_or_else(|error| Err(Error::Engine { why: format!("a restore stopped: {error}") }))
}

fn refuse_taken(read: &dyn Read, core: &Core, name: &BucketName) -> Result<()> {
    match core.named(read, name) {
        Err(Error::NotFound { .. }) => check_buckets(read),
        Ok(_) => {
            let why = "delete it, or restore under another name".into();
            Err(Error::Exists { noun: Noun::Bucket, name: name.to_string(), why })
        }
        Err(error) => Err(error),
    }
}

fn bring_back(
    store: &Store,
    folder: &Folder,
    manifest: &Manifest,
    name: &BucketName,
    told: &ProgressSink,
) -> Result<()> {
    let ancestry = begin(&store.core, manifest, name)?;
    let done = fill(store, folder, manifest, &ancestry, told)
        .and_then(|used| finish(&store.core, manifest, name, ancestry.clone(), used));
    if done.is_err()
        && let Err(error) = abandon(&store.core, ancestry.clone_group, ancestry.branch())
    {
        tracing::warn!(%error, "cannot remove the data of a failed restore; the next start removes it");
    }
    store.background.wake();
    done
}

/// Creates the branch, marked as being filled.
fn begin(core: &Core, manifest: &Manifest, name: &BucketName) -> Result<Ancestry> {
    let (now, name) = (core.clock.now(), name.to_string());
    let (next_ino, next_version) = (manifest.next_ino, manifest.next_version);
    let begun = core.meta.write(Durability::Synced, move |txn| {
        let clone_group = header::next_id(txn)?;
        let branch = branch::first_branch(txn, clone_group, now);
        let counters = CloneGroup { next_ino, next_version, next_branch: branch - 1 };
        txn.put(key::by_id(tag::CLONE_GROUP, clone_group), counters.encode_to_vec());
        txn.put(key::by_id(tag::RESTORE, clone_group), Restore { branch, name, started: now.0 }.encode_to_vec());
        Ok(Ancestry::new(clone_group, [branch]))
    });
    begun.wait()
}

fn fill(
    store: &Store,
    folder: &Folder,
    manifest: &Manifest,
    ancestry: &Ancestry,
    told: &ProgressSink,
) -> Result<Usage> {
    let accounts = settings::listed(&*store.core.meta.snapshot(), manifest)?;
    let mut fill = Fill::new(store, folder, ancestry.clone(), accounts);
    let (bucket, total_bytes) = (manifest.bucket.clone(), manifest.content_bytes);
    let mut progress = Progress { bucket, total_bytes, ..Progress::default() };
    let mut blobs = Reader::new(folder, &manifest.blobs);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    loop {
        let entry: Option<BlobEntry> = blobs.next()?;
        let ended = entry.is_none();
        if let Some(entry) = entry {
            bytes += entry.length;
            batch.push(entry);
        }
        if ended || batch.len() >= BLOBS || bytes >= BLOB_BYTES {
            fill.blobs(std::mem::take(&mut batch))?;
            progress.done_bytes = progress.done_bytes.saturating_add(bytes);
            progress.sent_bytes = progress.sent_bytes.saturating_add(std::mem::take(&mut bytes));
            told(progress.clone())?;
        }
        if ended {
            break;
        }
    }
    let mut records = Reader::new(folder, &manifest.records);
    let mut used = Usage::default();
    loop {
        let mut batch = Vec::new();
        while batch.len() < RECORDS
            && let Some(entry) = records.next::<Entry>()?
        {
            batch.push(entry);
        }
        if batch.is_empty() {
            break;
        }
        let more = fill.records(batch)?;
        (used.bytes, used.inodes) = (used.bytes + more.bytes, used.inodes + more.inodes);
        told(progress.clone())?;
    }
    fill.forget_names()?;
    let snapshot = store.core.meta.snapshot();
    let Tally { objects, hidden } = tally(Tree { read: &*snapshot, ancestry })?;
    Ok(Usage { objects, hidden, counted: true, ..used })
}

/// Names the bucket, which makes it visible.
fn finish(core: &Arc<Core>, manifest: &Manifest, name: &BucketName, ancestry: Ancestry, used: Usage) -> Result<()> {
    let (shared, manifest, name) = (core.clone(), manifest.clone(), name.clone());
    let done = core.meta.write(Durability::Synced, move |txn| {
        refuse_taken(&*txn, &shared, &name)?;
        let id = header::next_id(txn)?;
        let (clone_group, branch) = (ancestry.clone_group, ancestry.branch());
        let owner = account(&*txn, &manifest.owner)?;
        let record: Bucket = decode("the bucket of a backup", &manifest.record)?;
        let has_settings = !manifest.settings.is_empty();
        let record = Bucket { id, clone_group, branch, owner, settings: u64::from(has_settings), ..record };
        if has_settings {
            txn.put(key::by_id(tag::SETTINGS, id), settings::restored(&*txn, &manifest, &name)?);
        }
        for grant in &manifest.grants {
            let mode = GrantMode::try_from(grant.mode).unwrap_or(GrantMode::None) as i32;
            txn.put(key::grant(id, account(&*txn, &grant.account)?), GrantRecord { mode }.encode_to_vec());
        }
        txn.put(key::of_branch(tag::USAGE, clone_group, branch), used.encode_to_vec());
        txn.put(key::by_name(tag::BUCKET, name.as_str()), record.encode_to_vec());
        txn.put(key::by_id(tag::BUCKET_ID, id), name.as_str().as_bytes().to_vec());
        txn.delete(key::by_id(tag::RESTORE, clone_group));
        Ok(())
    });
    done.wait()
}

/// The id of an account; root replaces one that was deleted meanwhile.
fn account(read: &dyn Read, name: &str) -> Result<u64> {
    let found = match find_account(read, name)? {
        Some(found) => Some(found),
        None => find_account(read, ROOT_ACCOUNT)?,
    };
    Ok(found.ok_or_else(|| Error::not_found(Noun::Account, name))?.id)
}

/// Queues the data of a failed restore for collection.
fn abandon(core: &Core, clone_group: key::CloneGroup, branch: key::Branch) -> Result<()> {
    let done = core.meta.write(Durability::Synced, move |txn| end(txn, clone_group, branch));
    done.wait()
}

fn end(txn: &mut dyn Txn, clone_group: key::CloneGroup, branch: key::Branch) -> Result<()> {
    branch::kill_branch(txn, clone_group, branch)?;
    txn.delete(key::by_id(tag::RESTORE, clone_group));
    Ok(())
}

/// Ends the restores that the last process did not complete.
pub(crate) fn abandon_all(core: &Core) -> Result<()> {
    for pair in crate::store::all(&*core.meta.snapshot(), &[tag::RESTORE])? {
        let Some(clone_group) = key::u64_at(&pair.key, 1) else { continue };
        let record = unless_damaged("an interrupted restore", decode("a restore under way", &pair.value))?;
        let Some(Restore { branch, name, .. }) = record else { continue };
        tracing::info!(bucket = name, "a restore was interrupted and its data is removed: restore the bucket again");
        abandon(core, clone_group, branch)?;
    }
    Ok(())
}
