//! Filling a new bucket with the objects below a prefix of another one, by reference.
//!
//! - An attribute of the bucket marks it until it is whole. It holds the id of the source, and the key that was copied last. Each
//!   page of objects is copied in one transaction, which also moves the mark on, so nothing is copied twice.
//! - Only the bucket or snapshot with the id that the caller checked is read: another one of its name never continues a copy.
//! - A copy shares the content of its object, and keeps its metadata, tags and checksums. It has the owner and the mode of a
//!   new object. Locks, access lists and earlier versions stay behind, as with `CopyObject` of S3.
//! - Writes in place to the source are blocked while a page of it is shared. Only a snapshot is copied as of one moment.
//!
//! A crash leaves a bucket with the mark, and whole pages.

use std::sync::Arc;

use super::copy::copied_object;
use super::object::version_of;
use super::types::{Fill, Listed, ObjectAccess};
use super::{List, Store, bucket};
use crate::content::bring_to_disk;
use crate::core::{Core, Named};
use crate::error::{Error, Noun, Result};
use crate::meta::{Durability, Read, Txn};
use crate::name::{BucketName, Key};
use crate::passthrough::Prepared;
use crate::record::inode::Inode;
use crate::state::ExclusiveGuard;
use crate::tree::{SharedContent, Tree, Tx};

/// The most objects of one transaction.
const OBJECTS_MAX: usize = 256;
/// The pieces of content after which a transaction takes no further object. One object may have more by itself.
const PIECES_ENOUGH: usize = if cfg!(test) { 16 } else { 8192 };
/// How often a page is restarted because its first object was replaced meanwhile.
const TRIES_MAX: usize = 8;

/// Some objects of the source, with writes in place blocked until they are copied.
struct Page {
    /// The mark of the bucket when the page was read.
    mark: String,
    objects: Vec<(Key, u64)>,
    /// The last key of the page; none if no page follows.
    next: Option<String>,
}

/// What is released after the commit.
type Held = (Vec<Prepared>, Option<ExclusiveGuard>);

/// An object that is to be copied.
struct Shared {
    key: Key,
    inode: Inode,
    content: SharedContent,
}

impl Fill {
    /// The value of the attribute with which the bucket has to be created.
    pub fn mark(source_id: u64) -> String {
        format!("{source_id}:")
    }

    fn marked(&self, last: &str) -> String {
        format!("{}:{last}", self.source_id)
    }

    /// The key after which to continue.
    fn after(&self, mark: &str) -> Result<Option<String>> {
        match mark.split_once(':') {
            Some((id, last)) if id == self.source_id.to_string() => {
                Ok(Some(last.to_owned()).filter(|key| !key.is_empty()))
            }
            // The copy was begun with another bucket of this name.
            _ => Err(missing(&self.source)),
        }
    }
}

impl Store {
    /// Copies the next page of a bucket's first content, and returns whether another one may follow. A bucket without the mark
    /// is whole, and stays as it is.
    ///
    /// # Errors
    /// [`Error::NotFound`] if one of the two buckets was deleted, or replaced by another of its name; [`Error::QuotaExceeded`]
    /// if the page does not fit; [`Error::Busy`] if an object is replaced faster than it is copied: the call may be repeated.
    pub async fn fill_page(&self, fill: Fill) -> Result<bool> {
        // What a mount on another machine has answered is copied, too.
        let _changing = (self.begin_change(&fill.source).await?, self.begin_change(&fill.bucket).await?);
        self.blocking(move |store| {
            let (fill, mut tries) = (Arc::new(fill), 1);
            loop {
                match store.fill_once(&fill) {
                    Err(Error::Busy { .. }) if tries < TRIES_MAX => tries += 1,
                    answer => return answer,
                }
            }
        })
        .await
    }

    fn fill_once(&self, fill: &Arc<Fill>) -> Result<bool> {
        let mut bucket = self.bucket(&fill.bucket)?;
        if bucket.id != fill.id {
            return Err(missing(&fill.bucket));
        }
        let Some(mark) = bucket.attributes.remove(&fill.attribute) else { return Ok(false) };
        let list = List { prefix: fill.prefix.clone(), delimiter: None, after: fill.after(&mark)?, limit: OBJECTS_MAX };
        let listed = self.list_objects(&fill.source, &list)?;
        let (objects, held) = self.hold_objects(fill, &listed.objects)?;
        let page = Page { mark, objects, next: listed.next };
        let (core, fill) = (self.core.clone(), fill.clone());
        let written = self.core.meta.write(Durability::Synced, move |txn| copy_page(txn, &core, &fill, &page));
        let follows = written.wait();
        drop(held);
        follows
    }

    /// Blocks writes in place to the source, after bringing to disk what is to be shared. Snapshots need no lock.
    fn hold_objects(&self, fill: &Fill, listed: &[Listed]) -> Result<(Vec<(Key, u64)>, Held)> {
        let record = self.core.bucket_record(&*self.core.meta.snapshot(), &fill.source)?;
        let gate = record.as_ref().map(|record| self.core.gates.share(record.id));
        let snapshot = self.core.meta.snapshot();
        check_source(&*snapshot, &self.core, fill)?;
        let ancestry = self.core.readable(&*snapshot, &fill.source)?;
        let tree = Tree { read: &*snapshot, ancestry: &ancestry };
        let mut found = Vec::with_capacity(listed.len());
        for listed in listed {
            let key: Key = listed.key.parse()?;
            match version_of(tree, &key, None) {
                Ok((ino, inode)) => found.push((key, ino, inode)),
                // It was deleted after the listing.
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(record) = record {
            let inodes: Vec<u64> = found.iter().map(|(_, ino, _)| *ino).collect();
            self.core.flush(record.id, &inodes)?;
            found.iter().try_for_each(|(_, ino, inode)| bring_to_disk(&self.core, tree, *ino, inode))?;
        }
        let prepare =
            |(_, ino, inode): &(Key, u64, Inode)| self.core.passthrough.prepare(|| tree.blobs_of(*ino, inode));
        let prepared = found.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        Ok((found.into_iter().map(|(key, ino, _)| (key, ino)).collect(), (prepared, gate)))
    }
}

/// Makes the copies of a page, and moves the mark on. Returns whether another page may follow.
fn copy_page(txn: &mut dyn Txn, core: &Arc<Core>, fill: &Fill, page: &Page) -> Result<bool> {
    check_source(&*txn, core, fill)?;
    let (shared, next) = share_page(txn, core, fill, page)?;
    let mut tx = Tx::begin(txn, core, &fill.bucket, 0)?;
    if tx.bucket.id != fill.id {
        return Err(missing(&fill.bucket));
    }
    if tx.bucket.attributes.get(&fill.attribute) != Some(&page.mark) {
        return Err(Error::Busy { what: format!("bucket \"{}\", which another call fills,", fill.bucket) });
    }
    for Shared { key, inode, content } in shared {
        // The prefix itself may be an object: the folder.
        let Some(rest) = key.as_str().strip_prefix(&fill.prefix).filter(|rest| !rest.is_empty()) else { continue };
        let ino = tx.new_ino()?;
        let content = tx.take_shared(ino, &content)?;
        let mut object = copied_object(&inode, ObjectAccess::default());
        object.website_redirect = None;
        tx.put_object(&rest.parse()?, ino, content, inode.size, object)?;
    }
    match &next {
        Some(last) => tx.bucket.attributes.insert(fill.attribute.clone(), fill.marked(last)),
        None => tx.bucket.attributes.remove(&fill.attribute),
    };
    bucket::put(tx.txn, tx.core, tx.name, &tx.bucket);
    tx.finish()?;
    Ok(next.is_some())
}

/// The objects of a page with their content ready to be referred to, and the key after which the next page begins. The page
/// ends early where its content has many pieces, and before an object that was replaced since writes to it were blocked.
fn share_page(txn: &mut dyn Txn, core: &Arc<Core>, fill: &Fill, page: &Page) -> Result<(Vec<Shared>, Option<String>)> {
    let mut tx = Tx::begin_source(txn, core, &fill.source)?;
    let (mut shared, mut next, mut pieces) = (Vec::with_capacity(page.objects.len()), page.next.clone(), 0);
    for (at, (key, held)) in page.objects.iter().enumerate() {
        let ended = at.checked_sub(1).map(|before| page.objects[before].0.to_string());
        match version_of(tx.tree(), key, None) {
            Err(Error::NotFound { .. }) => continue,
            Ok((ino, _)) if ino == *held && pieces < PIECES_ENOUGH => {}
            Ok(_) if ended.is_some() => {
                next = ended;
                break;
            }
            Ok(_) => return Err(Error::Busy { what: format!("object \"{key}\", which is being replaced,") }),
            Err(error) => return Err(error),
        }
        let (inode, content) = tx.share_content(*held)?;
        if let SharedContent::Extents(extents) = &content {
            pieces += extents.len();
        }
        shared.push(Shared { key: key.clone(), inode, content });
    }
    tx.finish()?;
    Ok((shared, next))
}

fn check_source(read: &dyn Read, core: &Core, fill: &Fill) -> Result<()> {
    let id = match core.named(read, &fill.source)? {
        Named::Bucket(bucket) => bucket.id,
        Named::Snapshot(snapshot) => snapshot.id,
    };
    if id == fill.source_id { Ok(()) } else { Err(missing(&fill.source)) }
}

fn missing(bucket: &BucketName) -> Error {
    Error::not_found(Noun::Bucket, bucket.as_str())
}
