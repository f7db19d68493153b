//! Check of content: each blob's bytes exist and match their checksums.

use std::collections::{BTreeMap, HashSet};

use super::fix::Fix;
use super::{Checked, Phase, Report};
use crate::blob::{BlobId, Place};
use crate::content::verified_blob;
use crate::disk::is_broken;
use crate::error::{Error, Result, with_source};
use crate::record::blob::{Blob, Trash};
use crate::record::damage::Damaged;
use crate::record::decode;
use crate::record::key::{self, tag};

/// After so many blobs, local copies of content in a bucket are removed if there are too many.
const TEND: usize = 256;
/// Bytes verified at a time.
const STEP: u64 = 4 << 20;

/// Damaged content.
pub(super) struct Damage {
    /// What is wrong.
    pub why: String,
    /// Whether it was known before.
    pub quarantined: bool,
}

/// Checks the bytes of all blobs; without `content` only known damage is collected. Returns the damage by blob.
pub(super) fn check(store: &Checked<'_>, content: bool, report: &mut Report) -> Result<BTreeMap<u64, Damage>> {
    let mut damage = quarantined(store)?;
    if !content {
        return Ok(damage);
    }
    let mut named = HashSet::new();
    store.each(&[tag::BLOB], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        if let Ok(blob) = decode::<Blob>("a blob", &pair.value) {
            named.insert(BlobId(id));
            match verify(store, id, &blob, report) {
                Err(error) if matches!(error, Error::Corrupt { .. }) || is_broken(&error) => {
                    found(store, id, &error, &mut damage);
                }
                verified => verified?,
            }
            // For content in a bucket: bounds what stays here.
            if named.len() % TEND == 0 {
                store.blobs.tend()?;
            }
        }
        Ok(())
    })?;
    store.each(&[tag::TRASH], |pair| {
        if let Ok(trash) = decode::<Trash>("the trash", &pair.value) {
            named.insert(trash.id());
        }
        Ok(())
    })?;
    let files = store.blobs.file_ids()?;
    report.unnamed_files = files.iter().filter(|id| !named.contains(id)).count() as u64;
    segments(store, report)?;
    Ok(damage)
}

pub(super) fn found(store: &Checked<'_>, blob: u64, error: &Error, damage: &mut BTreeMap<u64, Damage>) {
    let why = with_source(error);
    if !damage.get(&blob).is_some_and(|known| known.quarantined) {
        store.fix(Fix::Content { blob, why: why.clone() });
        damage.insert(blob, Damage { why, quarantined: false });
    }
}

/// Known damage that is still referenced.
pub(super) fn quarantined(store: &Checked<'_>) -> Result<BTreeMap<u64, Damage>> {
    let mut known = BTreeMap::new();
    store.each(&[tag::DAMAGED], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let there = store.read().get(&key::by_id(tag::BLOB, id))?.is_some();
        let record = decode::<Damaged>("quarantined content", &pair.value).ok();
        if let Some(Damaged { why, .. }) = record.filter(|_| there) {
            known.insert(id, Damage { why, quarantined: true });
        }
        Ok(())
    })?;
    Ok(known)
}

fn verify(store: &Checked<'_>, id: u64, blob: &Blob, report: &mut Report) -> Result<()> {
    if blob.place() == Place::File && !blob.sums {
        // An in-place blob: it has no checksum, but it has to exist. In a bucket its chunks have checksums.
        let file = store.blobs.file(BlobId(id))?;
        return if store.blobs.is_remote() { read_chunks(store, id, &*file, report) } else { Ok(()) };
    }
    let mut at = 0;
    while at < blob.length {
        let length = STEP.min(blob.length - at);
        match blob.packed {
            Some(at) => store.blobs.forget_cached_packed(at.segment, at.offset, length)?,
            None => store.blobs.forget_cached(BlobId(id), at, length)?,
        }
        verified_blob(&store.blobs, store.read(), id, blob, at, length)?;
        report.verified_bytes += length;
        at += length;
        store.tell(Phase::Content, report.verified_bytes, report.content_bytes);
    }
    Ok(())
}

/// Reads a file whose chunks are objects, each of which is compared with its checksum as it is got.
fn read_chunks(store: &Checked<'_>, id: u64, file: &dyn crate::disk::File, report: &mut Report) -> Result<()> {
    let (mut at, length) = (0, file.len()?);
    let mut room = vec![0; STEP as usize];
    while at < length {
        let count = file.read_at(&mut room[..STEP.min(length - at) as usize], at)? as u64;
        store.blobs.forget_cached(BlobId(id), at, count)?;
        report.verified_bytes += count;
        at += count.max(1);
        store.tell(Phase::Content, report.verified_bytes, 0);
    }
    Ok(())
}

/// Scans all segments: a store opens only if the newest one can be scanned, and the collector needs the others.
fn segments(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    for info in store.blobs.segments()? {
        if let Err(error) = store.blobs.scan_segment(info.id) {
            report.problem(format!("{error}; `--repair` moves its intact blobs to another segment"));
            store.fix(Fix::Segment { segment: info.id, why: error.to_string() });
        }
    }
    Ok(())
}
