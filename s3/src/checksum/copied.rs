//! The checksum of a copy.
//!
//! - A copy keeps its source's checksum, since the bytes are the same. But a copy is a single part: of a checksum over
//!   parts' checksums, only the CRC of the whole is kept, which is computed from the parts' without reading the
//!   content.
//! - For another algorithm, which the client has to request, the content is read once.

use objstore::Store;
use objstore::store::{Checksum, ObjectInfo, Reader};
use s3s::S3Result;

use super::{Algorithm, Hasher, parts};
use crate::error::{OrRefuse as _, refuse_source};
use crate::names::Source;

/// Bytes read and hashed at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// A checksum computed for a copy.
pub(crate) struct Copied {
    /// The entity tag of the source it was computed from.
    pub(crate) source_etag: String,
    /// The checksum; `None` if the copy has none.
    pub(crate) checksum: Option<Checksum>,
}

/// Computes the checksum of a copy if it differs from its source's; otherwise `None`. Blocking.
pub(crate) fn of_copy(store: &Store, source: &Source, asked: Option<Algorithm>) -> S3Result<Option<Copied>> {
    let opened = store.open_object(&source.bucket, &source.key, source.version.as_deref());
    let (object, reader) = opened.map_err(refuse_source)?;
    let kept = object.checksums.first();
    let (composite, named) = match kept {
        Some(kept) => (kept.value.contains('-'), Algorithm::from_name(&kept.algorithm).ok()),
        None => (false, None),
    };
    let Some(algorithm) = asked.or(named.filter(|_| composite)) else { return Ok(None) };
    if named == Some(algorithm) && !composite {
        return Ok(None);
    }
    let known = if named == Some(algorithm) { parts::whole(algorithm, &reader.parts().or_refuse()?) } else { None };
    let known = known.filter(|_| object.parts.is_some());
    let checksum = match known {
        None if asked.is_some() => Some(read(algorithm, &object, &reader)?),
        known => known,
    };
    Ok(Some(Copied { source_etag: object.etag, checksum }))
}

fn read(algorithm: Algorithm, object: &ObjectInfo, reader: &Reader) -> S3Result<Checksum> {
    let mut hasher = Hasher::new(algorithm);
    let mut at = 0;
    while at < object.size {
        let len = usize::try_from((object.size - at).min(CHUNK_BYTES)).unwrap_or_default();
        let data = reader.read(at, len).or_refuse()?;
        hasher.update(&data);
        at += data.len().max(1) as u64;
    }
    Ok(Checksum { algorithm: algorithm.name().into(), value: hasher.finish() })
}
