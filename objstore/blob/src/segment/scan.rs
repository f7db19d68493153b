//! Scanning the records of a segment.
//!
//! - The scan ends at the first place without a record: the end, zeros, or a group torn by a crash.
//! - It ends with an error if synced records follow that place: that is damage, and a caller that took the scan as
//!   complete would lose them.
//! - In the last group, damage and a torn write look alike, and the scan ends there without an error. Only references
//!   can tell whether a segment is empty.

use std::sync::Arc;

use objstore_base::error::{Error, Result};
use objstore_disk::File;

use super::header::{ALIGN, FILE_HEADER, FileHeader, RECORD_HEADER, RecordHeader};
use super::segment_name;

const WINDOW: u64 = 1024 * 1024;

/// A scan of the records of one segment.
pub(super) struct Scan {
    file: Arc<dyn File>,
    segment: u64,
    at: u64,
    end: u64,
}

impl Scan {
    /// Starts a scan of `file` up to `end`.
    pub(super) fn open(file: Arc<dyn File>, segment: u64, end: u64) -> Result<Self> {
        let scan = Self { file, segment, at: FILE_HEADER as u64, end };
        let mut bytes = [0; FILE_HEADER];
        let count = scan.file.read_at(&mut bytes, 0)?;
        // Without a header, either the process died before the first sync or the header is damaged; the records, which
        // also name their segment, show which.
        match FileHeader::decode(&bytes).filter(|_| count == FILE_HEADER) {
            Some(header) if header.segment != segment => {
                let found = format!("the header of {}", segment_name(header.segment));
                Err(Error::corrupt(scan.what(), "its own header", found))
            }
            _ => Ok(scan),
        }
    }

    /// The next record and the offset of its header.
    pub(super) fn next(&mut self) -> Result<Option<(u64, RecordHeader)>> {
        let at = self.at;
        if at >= self.end {
            return Ok(None);
        }
        let mut bytes = [0; RECORD_HEADER];
        let count = self.file.read_at(&mut bytes, at)?;
        let header = RecordHeader::decode(&bytes[..count]).filter(|header| header.segment == self.segment);
        match header {
            Some(header) if at + header.size() <= self.end => {
                self.at = at + header.size();
                Ok(Some((at, header)))
            }
            _ => {
                self.tail(at)?;
                Ok(None)
            }
        }
    }

    // Ends the scan at `hole`; an error if a later group was synced behind it.
    fn tail(&mut self, hole: u64) -> Result<()> {
        self.at = self.end;
        let mut at = hole;
        while let Some(data) = self.file.seek_data(at)? {
            // Holes are skipped without reading them.
            at = at.max(data / ALIGN as u64 * ALIGN as u64);
            let window = self.window(at)?;
            if window.len() < RECORD_HEADER {
                break;
            }
            let starts = (window.len() - RECORD_HEADER) / ALIGN + 1;
            if let Some(start) = (0..starts).map(|index| index * ALIGN).find(|at| self.is_later(&window[*at..], hole)) {
                let found = format!("none, with a synced record at {}", at + start as u64);
                return Err(Error::corrupt(self.what(), format!("a record at {hole}"), found));
            }
            at += (starts * ALIGN) as u64;
        }
        Ok(())
    }

    fn is_later(&self, bytes: &[u8], hole: u64) -> bool {
        RecordHeader::decode(bytes).is_some_and(|header| header.segment == self.segment && header.group > hole)
    }

    fn window(&self, at: u64) -> Result<Vec<u8>> {
        // No record begins in a hole.
        let hole = self.file.seek_hole(at)?.map_or(self.end, |hole| hole.saturating_add(RECORD_HEADER as u64));
        let mut window = vec![0; self.end.min(hole).saturating_sub(at).min(WINDOW) as usize];
        let count = self.file.read_at(&mut window, at)?;
        window.truncate(count);
        Ok(window)
    }

    fn what(&self) -> String {
        segment_name(self.segment)
    }
}
