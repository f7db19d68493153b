//! Getting chunks from the bucket, and sending them there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use objstore_base::error::{Error, Result};
use objstore_bucket::{Bucket, Source};
use objstore_disk::File;
use parking_lot::Mutex;

use super::places::{CHUNK_BYTES, ChunkAt, Patch};
use super::state::{Base, start};
use crate::id::BlobId;
use crate::open_files::Name;

/// The number of chunks of a file that are sent at a time.
const SENDERS: usize = 8;
/// The size in bytes above which an object is sent in parts.
const ONE_REQUEST_MAX: u64 = 32 << 20;

/// The error of the store for one of the bucket.
pub(super) fn failed(error: &objstore_bucket::Error) -> Error {
    use objstore_bucket::Error as Of;
    let kind = match error {
        Of::Missing { name } => return Error::corrupt(name, "an object", "none"),
        Of::Damaged { name, expected, found } => return Error::corrupt(name, expected, found),
        Of::Unavailable { .. } => std::io::ErrorKind::HostUnreachable,
        _ => std::io::ErrorKind::PermissionDenied,
    };
    Error::io("a request to the S3 store", std::io::Error::new(kind, error.to_string()))
}

/// The key of the object that a blob or segment is.
pub(super) fn key_of(name: Name) -> String {
    match name {
        Name::Blob(id) => format!("blobs/{id}"),
        Name::Segment(segment) => format!("packs/{segment:016x}"),
    }
}

/// The key of the object that a chunk is in.
pub(super) fn chunk_key(object: u64) -> String {
    format!("chunks/{object:016x}")
}

/// Gets consecutive chunks of the object `name`, or one chunk from an object of its own. What is missing to the end of the
/// chunks is zeros.
pub(super) fn get(bucket: &Bucket, name: Name, base: Base, chunks: std::ops::Range<u32>, whole: u64) -> Result<Bytes> {
    match base {
        Base::Zeros => Ok(Bytes::new()),
        Base::Whole => {
            let end = start(chunks.end).min(whole);
            bucket.get_range(&key_of(name), start(chunks.start)..end).map_err(|error| failed(&error))
        }
        Base::Object(at) => {
            let got = bucket.get(&chunk_key(at.object), CHUNK_BYTES as usize).map_err(|error| failed(&error))?;
            let found = crc_fast::crc32_iscsi(&got.bytes);
            if got.bytes.len() != at.length as usize || found != at.crc {
                let expected = format!("{} bytes with the checksum {:08x}", at.length, at.crc);
                let found = format!("{} bytes, {found:08x}", got.bytes.len());
                return Err(Error::corrupt(format!("{}/{}", bucket.location(), chunk_key(at.object)), expected, found));
            }
            Ok(got.bytes)
        }
    }
}

/// A chunk with its patches over it.
pub(super) fn patched(bytes: Bytes, patches: &[Patch]) -> Bytes {
    if patches.is_empty() {
        return bytes;
    }
    let mut all = BytesMut::from(&bytes[..]);
    for patch in patches {
        let (from, to) = (patch.offset as usize, patch.offset as usize + patch.bytes.len());
        if all.len() < to {
            all.resize(to, 0);
        }
        all[from..to].copy_from_slice(&patch.bytes);
    }
    all.freeze()
}

/// Sends a new object for a chunk; all zeros need none.
///
/// # Errors
/// Those of the request, and if the object exists.
pub fn put_chunk(bucket: &Bucket, id: BlobId, bytes: Bytes) -> Result<ChunkAt> {
    let (length, crc) = (u32::try_from(bytes.len()).unwrap_or(u32::MAX), crc_fast::crc32_iscsi(&bytes));
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(ChunkAt { object: 0, length: 0, crc: 0 });
    }
    bucket.put(&chunk_key(id.0), bytes).map_err(|error| failed(&error))?;
    Ok(ChunkAt { object: id.0, length, crc })
}

/// Runs `send` for each of `items`, some at a time; the first error ends it.
pub(super) fn for_each<'a, T: Sync>(items: &'a [T], send: impl Fn(&'a T) -> Result<()> + Sync) -> Result<()> {
    if items.len() <= 1 {
        return items.iter().try_for_each(&send);
    }
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..SENDERS.min(items.len()) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if failure.lock().is_some() {
                        return;
                    }
                    if let Err(error) = send(item) {
                        failure.lock().get_or_insert(error);
                    }
                }
            });
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// Sends a local file as the object `name`.
pub(super) fn put_whole(bucket: &Bucket, name: Name, file: &Arc<dyn File>, length: u64) -> Result<()> {
    let key = key_of(name);
    let sent = if length <= ONE_REQUEST_MAX {
        let mut bytes = BytesMut::zeroed(usize::try_from(length).unwrap_or(0));
        let count = file.read_at(&mut bytes, 0)?;
        if (count as u64) < length {
            return Err(Error::corrupt(
                format!("the local copy of {key}"),
                format!("{length} bytes"),
                format!("{count}"),
            ));
        }
        bucket.put(&key, bytes.freeze()).map(drop)
    } else {
        bucket.put_large(&key, length, Arc::new(FromFile(file.clone())))
    };
    sent.map_err(|error| failed(&error))
}

struct FromFile(Arc<dyn File>);

impl Source for FromFile {
    fn read(&self, offset: u64, len: usize) -> Result<Bytes, String> {
        let mut bytes = BytesMut::zeroed(len);
        match self.0.read_at(&mut bytes, offset) {
            Ok(count) if count == len => Ok(bytes.freeze()),
            Ok(count) => Err(format!("{count} of {len} bytes are there")),
            Err(error) => Err(error.to_string()),
        }
    }
}
