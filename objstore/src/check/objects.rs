//! Check that each object that a record names is in the bucket, with its length.
//!
//! - The bucket is listed once, into files of the scratch folder: 16 bytes for each object, in the order of their ids.
//! - A listing may be old or wrong: what it lacks is asked for itself before it counts as missing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::content::{Damage, found, quarantined};
use super::{Checked, Phase};
use crate::blob::Place;
use crate::bucket::Bucket;
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use crate::record::blob::Blob;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::placed::{PlacedChunk, PlacedFile};
use crate::remote::failed;

/// Bytes of an entry of a listing: an id and a length, big-endian.
const ENTRY_BYTES: u64 = 16;
/// The folders of the bucket that have content.
const FOLDERS: [&str; 3] = ["blobs/", "packs/", "chunks/"];

/// The listing of one folder of the bucket.
struct Listing {
    folder: &'static str,
    file: Arc<dyn File>,
    count: u64,
}

/// The listings of a bucket.
struct Listings<'a> {
    bucket: &'a Bucket,
    blobs: Listing,
    packs: Listing,
    chunks: Listing,
}

/// Checks all blobs; returns the damage by blob.
pub(super) fn check(
    store: &Checked<'_>,
    bucket: &Bucket,
    (disk, scratch): (&dyn Disk, &Path),
) -> Result<BTreeMap<u64, Damage>> {
    let mut damage = quarantined(store)?;
    let mut listed = 0;
    let mut list = |at: usize| {
        let path = scratch.join(format!("listing-{at}"));
        Listing::write(FOLDERS[at], bucket, disk.create(&path)?, &mut |count| {
            listed += count;
            store.tell(Phase::Objects, 0, listed);
        })
    };
    let listings = Listings { bucket, blobs: list(0)?, packs: list(1)?, chunks: list(2)? };
    let mut done = 0;
    store.each(&[tag::BLOB], |pair| {
        let (Some(id), Ok(blob)) = (key::u64_at(&pair.key, 1), decode::<Blob>("a blob", &pair.value)) else {
            return Ok(());
        };
        match listings.check(store, id, &blob) {
            Err(error @ Error::Corrupt { .. }) => found(store, id, &error, &mut damage),
            checked => checked?,
        }
        done += 1;
        store.tell(Phase::Objects, done, listed.max(done));
        Ok(())
    })?;
    Ok(damage)
}

impl Listings<'_> {
    fn check(&self, store: &Checked<'_>, id: u64, blob: &Blob) -> Result<()> {
        match blob.place() {
            Place::Packed { segment, offset } => {
                let least = offset + blob.length;
                self.object(&self.packs, segment, &|length| length >= least, || format!("at least {least} bytes"))
            }
            Place::File if blob.sums => {
                let exact = blob.length;
                self.object(&self.blobs, id, &|length| length == exact, || format!("{exact} bytes"))
            }
            Place::File => self.in_place(store, id),
        }
    }

    /// A file that is written in place: chunks, and the object that it began as.
    fn in_place(&self, store: &Checked<'_>, id: u64) -> Result<()> {
        let Some(value) = store.read().get(&key::by_id(tag::PLACED, id))? else {
            // It was not written since it was an object.
            return self.object(&self.blobs, id, &|_| true, || "an object".to_owned());
        };
        let head: PlacedFile = decode("a placed file", &value)?;
        if head.whole > 0 {
            let least = head.whole;
            self.object(&self.blobs, id, &|length| length >= least, || format!("at least {least} bytes"))?;
        }
        store.each(&key::placed_chunks(id), |pair| {
            let chunk: PlacedChunk = decode("a chunk of a placed file", &pair.value)?;
            if chunk.object == 0 {
                return Ok(());
            }
            let exact = u64::from(chunk.length);
            self.object(&self.chunks, chunk.object, &|length| length == exact, || format!("{exact} bytes"))
        })
    }

    /// Whether an object is there with a length that fits.
    fn object(
        &self,
        listing: &Listing,
        id: u64,
        fits: &dyn Fn(u64) -> bool,
        expected: impl Fn() -> String,
    ) -> Result<()> {
        if listing.length(id)?.is_some_and(fits) {
            return Ok(());
        }
        let key = format!("{}{id:016x}", listing.folder);
        let length = self.bucket.length(&key).map_err(|error| failed(&error))?;
        if length.is_some_and(fits) {
            return Ok(());
        }
        let found = length.map_or_else(|| "no object".to_owned(), |length| format!("{length} bytes"));
        Err(Error::corrupt(format!("{}/{key}", self.bucket.location()), expected(), found))
    }
}

impl Listing {
    fn write(
        folder: &'static str,
        bucket: &Bucket,
        file: Arc<dyn File>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let (mut count, mut last): (u64, Option<String>) = (0, None);
        loop {
            let page = bucket.list(folder, last.as_deref()).map_err(|error| failed(&error))?;
            let Some(end) = page.last().map(|object| object.key.clone()) else { break };
            if last.as_ref().is_some_and(|last| end <= *last) {
                let why = format!("the listing of {}/{folder} does not advance behind {end}", bucket.location());
                return Err(Error::Unusable { why });
            }
            last = Some(end);
            let mut bytes = Vec::with_capacity(page.len() * ENTRY_BYTES as usize);
            for object in &page {
                let name = object.key.strip_prefix(folder).filter(|name| name.len() == 16);
                let Some(id) = name.and_then(|name| u64::from_str_radix(name, 16).ok()) else { continue };
                bytes.extend(id.to_be_bytes());
                bytes.extend(object.length.to_be_bytes());
            }
            file.write_at(&bytes, count * ENTRY_BYTES)?;
            count += bytes.len() as u64 / ENTRY_BYTES;
            progress(page.len() as u64);
        }
        Ok(Self { folder, file, count })
    }

    /// The length of the object `id`, if it is listed.
    fn length(&self, id: u64) -> Result<Option<u64>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let at = low + (high - low) / 2;
            let mut entry = [0; ENTRY_BYTES as usize];
            self.file.read_at(&mut entry, at * ENTRY_BYTES)?;
            let (listed, length) = (key::u64_at(&entry, 0).unwrap_or_default(), key::u64_at(&entry, 8));
            match listed.cmp(&id) {
                std::cmp::Ordering::Equal => return Ok(length),
                std::cmp::Ordering::Less => low = at + 1,
                std::cmp::Ordering::Greater => high = at,
            }
        }
        Ok(None)
    }
}
