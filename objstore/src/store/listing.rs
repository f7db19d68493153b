//! Listings: keys in byte order, and versions.

use super::types::{Checksum, List, ListVersions, Listed, Listing, ObjectInfo, VersionInfo, VersionListing};
use super::{Store, object};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::name::BucketName;
use crate::record::listed::ListingEntry;
use crate::tree::{Tree, list_keys, list_versions};

impl Store {
    /// A page of keys.
    pub fn list_objects(&self, bucket: &BucketName, list: &List) -> Result<Listing> {
        self.observe_all(bucket)?;
        let snapshot = self.core.meta.snapshot();
        let ancestry = self.core.readable(&*snapshot, bucket)?;
        let page = list_keys(Tree { read: &*snapshot, ancestry: &ancestry }, list)?;
        let objects = page.keys.into_iter().zip(page.shown).map(|(key, shown)| listed(key, shown));
        Ok(Listing { objects: objects.collect(), prefixes: page.prefixes, next: page.next })
    }

    /// Flushes what mounts wrote in place, before a listing shows sizes and times.
    fn observe_all(&self, bucket: &BucketName) -> Result<()> {
        match self.core.bucket_record(&*self.core.meta.snapshot(), bucket)? {
            Some(record) => self.core.observe_all(record.id).map(drop),
            None => Ok(()),
        }
    }

    /// A page of versions, by key and then newest first.
    pub fn list_versions(&self, bucket: &BucketName, request: &ListVersions) -> Result<VersionListing> {
        self.observe_all(bucket)?;
        let snapshot = self.core.meta.snapshot();
        let ancestry = self.core.readable(&*snapshot, bucket)?;
        let page = list_versions(Tree { read: &*snapshot, ancestry: &ancestry }, request)?;
        let versions = page.versions.into_iter().map(|listed| VersionInfo {
            object: match &listed.inode {
                Some(inode) => ObjectInfo { version: Some(listed.id), ..object::shown(&listed.key, listed.ino, inode) },
                None => object::marker(&listed.key, listed.id, listed.created),
            },
            marker: listed.inode.is_none(),
            latest: listed.latest,
        });
        Ok(VersionListing { versions: versions.collect(), prefixes: page.prefixes, next: page.next })
    }
}

fn listed(key: String, shown: ListingEntry) -> Listed {
    let ListingEntry { size, mtime, etag, checksums, storage_class } = shown;
    let checksums = checksums.into_iter().map(|sum| Checksum { algorithm: sum.algorithm, value: sum.value }).collect();
    Listed { key, size, etag, modified: Timestamp(mtime), checksums, storage_class }
}
