//! Taking over segments of another store.
//!
//! - Records keep their places. The number of the metadata batch in each becomes 0: it was that of the other store's log, and
//!   would be compared with this one's.
//! - Each record is compared with its checksum. One that is damaged is copied as it is.
//!
//! A crash leaves a part of a copy, which has another length, or a number that is not 0: the next copy begins again.

use std::sync::Arc;

use objstore_base::error::Result;
use objstore_disk::File;

use super::header::{RECORD_HEADER, RecordHeader};
use super::scan::Scan;
use crate::id::BlobId;

/// Bytes copied at a time.
const WINDOW: u64 = 1 << 20;

/// What is done with each record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    /// It has to be intact and without a number.
    Check,
    /// Its number becomes 0.
    Write,
}

/// Copies `length` bytes.
pub(super) fn copy(source: &dyn File, target: &dyn File, length: u64) -> Result<()> {
    let (mut at, mut room) = (0, vec![0; WINDOW as usize]);
    while at < length {
        let window = &mut room[..WINDOW.min(length - at) as usize];
        let count = source.read_at(window, at)?;
        window[count..].fill(0);
        target.write_at(window, at)?;
        at += window.len() as u64;
    }
    Ok(())
}

/// Goes over the records of a segment. Returns the blobs that are damaged; `None` if each record is intact, and has the
/// number 0 if that is checked.
pub(super) fn stamp(file: &Arc<dyn File>, segment: u64, stamp: Stamp) -> Result<Option<Vec<BlobId>>> {
    let mut scan = Scan::open(file.clone(), segment, file.len()?)?;
    let (mut damaged, mut numbered) = (Vec::new(), false);
    while let Some((offset, header)) = scan.next()? {
        let mut data = vec![0; header.length as usize];
        let count = file.read_at(&mut data, offset + RECORD_HEADER as u64)?;
        if count < data.len() || crc_fast::crc32_iscsi(&data) != header.data_crc {
            damaged.push(header.id);
        }
        if header.batch != 0 {
            numbered = true;
            if stamp == Stamp::Write {
                file.write_at(&RecordHeader { batch: 0, ..header }.encode(), offset)?;
            }
        }
    }
    let whole = damaged.is_empty() && (stamp == Stamp::Write || !numbered);
    Ok((!whole).then_some(damaged))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use bytes::Bytes;
    use objstore_disk::{Poison, RealDisk};

    use crate::{BlobId, Blobs, Options};

    #[test]
    fn an_adopted_segment_has_the_same_records_without_numbers_and_damage_is_named() {
        let open = |dir: &std::path::Path, epoch| {
            Blobs::open(Arc::new(RealDisk::new()), dir, epoch, Poison::default(), Options::default()).unwrap()
        };

        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = open(from.path(), 3);
        source.set_synced_batch(Arc::new(AtomicU64::new(99)));
        let ids = [BlobId(3 << 32 | 7), BlobId(3 << 32 | 8)];
        let packed = ids.map(|id| source.append(id, Bytes::from(vec![id.0 as u8; 9000])).wait().unwrap());
        assert_eq!(source.highest_batch().unwrap(), 99);
        drop(source);
        let (source, target) = (open(from.path(), 4), open(to.path(), 9));
        let segment = packed[0].segment;
        let adopt = || target.adopt_segment(segment, &*source.segment_file(segment).unwrap()).unwrap();
        for _ in 0..2 {
            assert_eq!(adopt(), []);
            assert_eq!(target.highest_batch().unwrap(), 0);
            for (id, at) in ids.iter().zip(&packed) {
                let data = target.read_packed(*id, segment, at.offset, at.length).unwrap();
                assert_eq!(data, vec![id.0 as u8; 9000]);
            }
        }
        source.segment_file(segment).unwrap().write_at(b"damage", packed[1].offset + 500).unwrap();
        std::fs::remove_file(to.path().join(format!("segments/{segment:016x}.seg"))).unwrap();
        let target = open(to.path(), 10);
        let damaged = target.adopt_segment(segment, &*source.segment_file(segment).unwrap()).unwrap();
        assert_eq!(damaged, [ids[1]]);
        assert!(target.read_packed(ids[0], segment, packed[0].offset, 9000).is_ok());
    }
}
