//! The bytes of a file: pages, and nothing for holes.
//!
//! - Bytes that a file never contained read as zeros: no disk may show another file's old content.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The size in bytes that a disk writes completely or not at all.
pub(super) const SECTOR: u64 = 512;
/// The size in bytes of what a file system writes back at a time.
pub(super) const PAGE: u64 = 4096;

type Page = [u8; PAGE as usize];

const ZEROS: Page = [0; PAGE as usize];

/// The content and size of a file.
#[derive(Clone, Default)]
pub(super) struct Image {
    len: u64,
    /// The offset up to which there is space, written or not.
    reserved: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Image {
    /// The size, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The number of pages that have space.
    pub(super) fn page_count(&self) -> u64 {
        let reserved = self.reserved.div_ceil(PAGE);
        reserved + self.pages.range(reserved..).count() as u64
    }

    /// Reserves space up to `end`; the size stays.
    pub(super) fn reserve(&mut self, end: u64) {
        self.reserved = self.reserved.max(end);
    }

    /// Reads up to the end of the file; returns the number of bytes read.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let count = usize::try_from(self.len.saturating_sub(offset)).map_or(buf.len(), |left| left.min(buf.len()));
        for (page, within, piece) in pieces(offset, count) {
            let to = &mut buf[piece.clone()];
            match self.pages.get(&page) {
                Some(held) => to.copy_from_slice(&held[within..within + piece.len()]),
                None => to.fill(0),
            }
        }
        count
    }

    /// Writes `data`, and extends the file if necessary.
    pub(super) fn write(&mut self, data: &[u8], offset: u64) {
        self.len = self.len.max(offset + data.len() as u64);
        self.poke(data, offset);
    }

    /// Writes the part of `data` that is before the end of the file.
    pub(super) fn write_within(&mut self, data: &[u8], offset: u64) {
        let count = usize::try_from(self.len.saturating_sub(offset)).map_or(data.len(), |left| left.min(data.len()));
        self.poke(&data[..count], offset);
    }

    fn poke(&mut self, data: &[u8], offset: u64) {
        for (page, within, piece) in pieces(offset, data.len()) {
            let bytes = &data[piece];
            if bytes == ZEROS {
                self.pages.remove(&page);
                continue;
            }
            let held = self.pages.entry(page).or_insert_with(|| Arc::new(ZEROS));
            Arc::make_mut(held)[within..within + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Truncates or extends to `len` bytes.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.punch(len, self.len - len);
        }
        if len <= self.len {
            self.reserved = self.reserved.min(len);
        }
        self.len = len;
    }

    /// Makes a range zeros; the size stays.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let whole = offset.div_ceil(PAGE)..end / PAGE;
        if whole.start < whole.end {
            let inside: Vec<u64> = self.pages.range(whole).map(|(page, _)| *page).collect();
            for page in inside {
                self.pages.remove(&page);
            }
        }
        for edge in [offset / PAGE, end / PAGE] {
            let (from, to) = (offset.max(edge * PAGE), end.min((edge + 1) * PAGE));
            if from < to
                && let Some(held) = self.pages.get_mut(&edge)
            {
                Arc::make_mut(held)[(from - edge * PAGE) as usize..(to - edge * PAGE) as usize].fill(0);
            }
        }
    }

    /// The first byte at or after `offset` in a page with content.
    pub(super) fn data(&self, offset: u64) -> Option<u64> {
        let (page, _) = self.pages.range(offset / PAGE..).next()?;
        Some(offset.max(page * PAGE)).filter(|at| *at < self.len)
    }

    /// The first byte at or after `offset` in a page without content, or the end.
    pub(super) fn hole(&self, offset: u64) -> Option<u64> {
        let mut page = offset / PAGE;
        while self.pages.contains_key(&page) {
            page += 1;
        }
        (offset < self.len).then(|| offset.max(page * PAGE).min(self.len))
    }

    /// The whole content.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(&mut bytes, 0);
        bytes
    }
}

/// Splits a range at page boundaries, into the page's number, the offset in the page, and the part of the range.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let piece = done..len.min(done + PAGE as usize - within);
        done = piece.end;
        (!piece.is_empty()).then_some((at / PAGE, within, piece))
    })
}
