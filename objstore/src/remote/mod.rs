//! Content in a bucket of an S3 store: whose bucket it is, and the records of files written in place.
//!
//! - The store's id is recorded before the bucket is claimed for it, and that it is claimed after that. So a store never
//!   uses a bucket of another store, nor an empty one in place of its own.
//! - Where the content of a store is does not change while it exists: in the data folder, or in a bucket.

mod places;
mod vault;

use std::path::Path;
use std::sync::Arc;

use prost::Message;

use crate::blob::{self, Blobs, Remote};
use crate::bucket::{Bucket, Claim};
use crate::clock::Random;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::header;
use crate::meta::{Durability, Meta, Read};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::placed::ContentPlace;

pub(crate) use places::MetaPlaces;
pub use vault::BucketVault;
pub(crate) use vault::failed;

/// A bucket for content.
#[derive(Clone, Debug)]
pub struct ContentBucket {
    /// How to reach it.
    pub bucket: crate::bucket::Options,
    /// The size in bytes up to which content that was read stays in the data folder.
    pub cache_bytes: u64,
}

/// Where the content is, if it is in a bucket.
pub(crate) fn place(read: &dyn Read) -> Result<Option<ContentPlace>> {
    read.get(&key::content())?.map(|value| decode("the place of the content", &value)).transpose()
}

/// Refuses to open a store with content in a bucket without it.
pub(crate) fn refuse_without(read: &dyn Read) -> Result<()> {
    let Some(place) = place(read)? else { return Ok(()) };
    let why = format!("the content of this store is in {}: set --content-url", place.location);
    Err(Error::Unusable { why })
}

/// A bucket that this store has claimed.
pub(crate) struct Claimed {
    bucket: Bucket,
    cache_bytes: u64,
    opening: blob::Opening,
}

impl Claimed {
    /// The name of this opening.
    pub fn opening(&self) -> blob::Opening {
        self.opening
    }

    /// The bucket.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The part of the bucket that has the master key.
    pub fn keys(&self) -> BucketVault {
        BucketVault::of_keys(self.bucket.clone())
    }
}

/// Claims the bucket for this store.
pub(crate) fn claim(meta: &Meta, content: ContentBucket, random: &dyn Random) -> Result<Claimed> {
    let unusable = |error: crate::bucket::Error| Error::Unusable { why: error.to_string() };
    let place = known_or_new(meta, random)?;
    let bucket = Bucket::open(content.bucket).map_err(unusable)?;
    bucket.claim(&place.id, if place.claimed { Claim::Known } else { Claim::New }).map_err(unusable)?;
    let location = bucket.location().to_string();
    if !place.claimed || place.location != location {
        put(meta, &ContentPlace { location, claimed: true, ..place })?;
    }
    let mut opening = blob::Opening::default();
    random.fill(&mut opening);
    Ok(Claimed { bucket, cache_bytes: content.cache_bytes, opening })
}

/// Opens the blobs of a store whose content is in a bucket.
pub(crate) fn open(
    meta: &Meta,
    disk: &Arc<dyn Disk>,
    dir: &Path,
    epoch: u32,
    options: blob::Options,
    Claimed { bucket, cache_bytes, opening }: Claimed,
) -> Result<Blobs> {
    let header = header::read(&*meta.snapshot())?;
    let last_epoch = header.as_ref().map_or(0, |header| header.epoch);
    let last_opening = header.and_then(|header| blob::Opening::try_from(header.opening).ok());
    let places = Arc::new(MetaPlaces(meta.clone()));
    let opening = Some(opening);
    let remote = Remote { bucket, places, cache_bytes, last_epoch, last_opening, opening };
    Blobs::open_remote(disk.clone(), &dir.join("content"), epoch, meta.poison(), options, remote)
}

/// Opens the bucket of a store to read it, and makes sure that it is this store's.
pub(crate) fn open_reading(read: &dyn Read, content: ContentBucket) -> Result<Bucket> {
    let Some(place) = place(read)? else {
        let why = "the metadata in this log names no bucket for content: this is not a store of --content-url";
        return Err(Error::Unusable { why: why.into() });
    };
    let unusable = |error: crate::bucket::Error| Error::Unusable { why: error.to_string() };
    let bucket = Bucket::open(content.bucket).map_err(unusable)?;
    bucket.verify(&place.id).map_err(unusable)?;
    Ok(bucket)
}

/// Opens the blobs of a bucket that is only read; what was read lies in `folder`.
pub(crate) fn open_blobs_reading(
    meta: &Meta,
    disk: &Arc<dyn Disk>,
    folder: &Path,
    bucket: &Bucket,
    cache_bytes: u64,
) -> Result<Blobs> {
    let snapshot = meta.snapshot();
    let last_epoch = header::read(&*snapshot)?.map_or(0, |header| header.epoch);
    let epoch = header::next_epoch(&*snapshot)?;
    let places = Arc::new(MetaPlaces(meta.clone()));
    let remote = Remote { bucket: bucket.clone(), places, cache_bytes, last_epoch, last_opening: None, opening: None };
    Blobs::open_remote(disk.clone(), folder, epoch, meta.poison(), blob::Options::default(), remote)
}

fn known_or_new(meta: &Meta, random: &dyn Random) -> Result<ContentPlace> {
    let snapshot = meta.snapshot();
    if let Some(place) = place(&*snapshot)? {
        return Ok(place);
    }
    if !snapshot.scan(&[tag::BLOB], &key::after_prefix(&[tag::BLOB]), 1)?.is_empty() {
        let why = "the content of this store is in its data folder, and stays there: leave --content-url out, or copy the data to a new store";
        return Err(Error::Unusable { why: why.into() });
    }
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    let id = hex_simd::encode_to_string(bytes, hex_simd::AsciiCase::Lower);
    let place = ContentPlace { id, location: String::new(), claimed: false };
    put(meta, &place)?;
    Ok(place)
}

fn put(meta: &Meta, place: &ContentPlace) -> Result<()> {
    let value = place.encode_to_vec();
    let done = meta.write(Durability::Synced, move |txn| {
        txn.put(key::content(), value);
        Ok(())
    });
    done.wait()
}
