//! Filling a new bucket with the objects below a prefix of another one, by reference.
//!
//! - An attribute of the bucket is there until it is whole, and says which key was copied last. Each page of objects is copied
//!   in one transaction, which also moves that attribute on: a repeated call continues, and copies nothing twice.
//! - A copy shares the content of its object, and keeps its metadata, tags and checksums. It has the owner and the mode of a
//!   new object. Locks, access lists and earlier versions stay behind, as with `CopyObject` of S3.
//! - Writes in place to the source are blocked while a page of it is shared. Only a snapshot is copied as of one moment.
//!
//! A crash leaves a bucket with the attribute, and whole pages.

use std::sync::Arc;

use super::copy::{Source, copied_object};
use super::object::version_of;
use super::types::{Fill, Listed, ObjectAccess};
use super::{List, Store, bucket};
use crate::content::bring_to_disk;
use crate::core::Core;
use crate::error::{Error, Noun, Result};
use crate::meta::{Durability, Txn};
use crate::name::Key;
use crate::passthrough::Prepared;
use crate::record::inode::Inode;
use crate::state::ExclusiveGuard;
use crate::tree::{SharedContent, Tree, Tx};

/// The objects of one transaction.
const PAGE: usize = 256;
/// How often a page is restarted because an object of it was replaced meanwhile.
const TRIES_MAX: usize = 8;

/// Some objects of the source, locked until their copies are written.
struct Page {
    objects: Vec<(Key, u64)>,
    /// The id of the source; zero is a snapshot.
    source: u64,
    /// The last key of the page; none if no page follows.
    next: Option<String>,
}

impl Store {
    /// Copies what is missing of a bucket's first content, until it is whole. A bucket that is whole stays as it is.
    ///
    /// # Errors
    /// [`Error::Busy`] if objects are replaced faster than they are copied: the call may be repeated.
    /// [`Error::QuotaExceeded`] if they do not fit.
    pub async fn fill_bucket(&self, fill: Fill) -> Result<()> {
        self.blocking(move |store| {
            let (fill, mut tries) = (Arc::new(fill), 1);
            loop {
                match store.fill_page(&fill) {
                    Ok(true) => tries = 1,
                    Ok(false) => return Ok(()),
                    Err(Error::Busy { .. }) if tries < TRIES_MAX => tries += 1,
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// Copies the next page. Returns whether one may follow.
    fn fill_page(&self, fill: &Arc<Fill>) -> Result<bool> {
        let Some(after) = self.bucket(&fill.bucket)?.attributes.remove(&fill.progress) else { return Ok(false) };
        let after = Some(after).filter(|after| !after.is_empty());
        let list = List { prefix: fill.prefix.clone(), delimiter: None, after, limit: PAGE };
        let listed = self.list_objects(&fill.source, &list)?;
        let (page, held) = self.hold_page(fill, &listed.objects, listed.next)?;
        let (core, fill, follows) = (self.core.clone(), fill.clone(), page.next.is_some());
        let written = self.core.meta.write(Durability::Synced, move |txn| copy_page(txn, &core, &fill, &page));
        let copied = written.wait();
        drop(held);
        copied.map(|()| follows)
    }

    /// Blocks writes in place to the source, after bringing to disk what is to be shared.
    fn hold_page(
        &self,
        fill: &Fill,
        listed: &[Listed],
        next: Option<String>,
    ) -> Result<(Page, (Vec<Prepared>, Option<ExclusiveGuard>))> {
        let record = self.core.bucket_record(&*self.core.meta.snapshot(), &fill.source)?;
        let gate = record.as_ref().map(|record| self.core.gates.share(record.id));
        let snapshot = self.core.meta.snapshot();
        let ancestry = self.core.readable(&*snapshot, &fill.source)?;
        let tree = Tree { read: &*snapshot, ancestry: &ancestry };
        let mut found = Vec::new();
        for listed in listed {
            let key: Key = listed.key.parse()?;
            match version_of(tree, &key, None) {
                Ok((ino, inode)) => found.push((key, ino, inode)),
                // It was deleted after the listing.
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(record) = &record {
            let inodes: Vec<u64> = found.iter().map(|(_, ino, _)| *ino).collect();
            self.core.flush(record.id, &inodes)?;
            found.iter().try_for_each(|(_, ino, inode)| bring_to_disk(&self.core, tree, *ino, inode))?;
        }
        let prepare =
            |(_, ino, inode): &(Key, u64, Inode)| self.core.passthrough.prepare(|| tree.blobs_of(*ino, inode));
        let prepared = found.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        let objects = found.into_iter().map(|(key, ino, _)| (key, ino)).collect();
        Ok((Page { objects, source: record.map_or(0, |record| record.id), next }, (prepared, gate)))
    }
}

fn copy_page(txn: &mut dyn Txn, core: &Arc<Core>, fill: &Fill, page: &Page) -> Result<()> {
    let shared = share_page(txn, core, fill, page)?;
    let mut tx = Tx::begin(txn, core, &fill.bucket, 0)?;
    if tx.bucket.id != fill.id {
        return Err(Error::not_found(Noun::Bucket, fill.bucket.as_str()));
    }
    for ((key, _), (source, shared)) in page.objects.iter().zip(shared) {
        // The prefix itself may be an object: the folder.
        let Some(rest) = key.as_str().strip_prefix(&fill.prefix).filter(|rest| !rest.is_empty()) else { continue };
        let ino = tx.new_ino()?;
        let content = tx.take_shared(ino, &shared)?;
        let mut object = copied_object(&source, ObjectAccess::default());
        object.website_redirect = None;
        tx.put_object(&rest.parse()?, ino, content, source.size, object)?;
    }
    match &page.next {
        Some(last) => tx.bucket.attributes.insert(fill.progress.clone(), last.clone()),
        None => tx.bucket.attributes.remove(&fill.progress),
    };
    bucket::put(tx.txn, tx.core, tx.name, &tx.bucket);
    tx.finish()
}

/// The objects of a page, with their content ready to be referred to.
fn share_page(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    fill: &Fill,
    page: &Page,
) -> Result<Vec<(Inode, SharedContent)>> {
    let mut tx = Tx::begin_source(txn, core, &fill.source)?;
    let mut shared = Vec::with_capacity(page.objects.len());
    for (key, held) in &page.objects {
        let held: Source = (page.source, *held);
        match version_of(tx.tree(), key, None) {
            Ok((ino, _)) if (tx.bucket.id, ino) == held => shared.push(tx.share_content(ino)?),
            Ok(_) | Err(Error::NotFound { .. }) => {
                return Err(Error::Busy { what: format!("object \"{key}\", which is being replaced,") });
            }
            Err(error) => return Err(error),
        }
    }
    tx.finish()?;
    Ok(shared)
}
