//! Content: whether each blob's bytes are there, and are what was written.

use std::collections::HashSet;

use super::{Checked, Report};
use crate::blob::{BlobId, Place};
use crate::content::verified_blob;
use crate::error::Result;
use crate::record::blob::{Blob, Trash};
use crate::record::decode;
use crate::record::key::{self, tag};

/// Bytes verified at a time.
const STEP: u64 = 4 << 20;

/// Checks the bytes of all blobs.
pub(super) fn check(store: &Checked, report: &mut Report) -> Result<()> {
    let mut named = HashSet::new();
    store.each(&[tag::BLOB], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        if let Ok(blob) = decode::<Blob>("a blob", &pair.value) {
            named.insert(BlobId(id));
            check_blob(store, id, &blob, report);
        }
        Ok(())
    })?;
    store.each(&[tag::TRASH], |pair| {
        if let Some(trash) = report.take(decode::<Trash>("the trash", &pair.value)) {
            named.insert(trash.id());
        }
        Ok(())
    })?;
    let files = store.blobs.file_ids()?;
    report.unnamed_files = files.iter().filter(|id| !named.contains(id)).count() as u64;
    Ok(())
}

fn check_blob(store: &Checked, id: u64, blob: &Blob, report: &mut Report) {
    if blob.place() == Place::File && !blob.sums {
        // Written in place by a mount: it has no checksum, but it has to be there.
        report.take(store.blobs.file(BlobId(id)));
        return;
    }
    let mut at = 0;
    while at < blob.length {
        let length = STEP.min(blob.length - at);
        let read = verified_blob(&store.blobs, store.read(), id, blob, at, length);
        if report.take(read).is_none() {
            return;
        }
        report.verified_bytes += length;
        at += length;
    }
}
