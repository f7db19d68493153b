//! Writing.
//!
//! - Up to 4 KiB a file lies in its record: a write is one transaction.
//! - Larger files have a home. A write within the size and within the home needs no transaction but the first one,
//!   which gives the content a new generation; any other writes its bytes first and then commits what they mean.
//! - A crash between the two leaves bytes past the size, or in a home where no extent shows them: an extension clears
//!   them first.

use std::sync::Arc;

use super::attributes::without_privileges;
use super::home::Home;
use super::session::Volume;
use super::types::Change;
use crate::content::{Hot, INLINE_MAX};
use crate::error::{Error, Posix, Result};
use crate::meta::Durability;
use crate::record::inode::{Content, Extent, Inode, InodeKind};
use crate::tree::Tx;

/// The largest file, in bytes.
const SIZE_MAX: u64 = i64::MAX as u64;

impl Volume {
    /// Writes at `offset`: in the store when it returns. `kill_privileges` as in [`super::SetAttr`].
    pub fn write(&self, ino: u64, offset: u64, data: &[u8], kill_privileges: bool) -> Result<()> {
        self.refuse_write()?;
        if data.is_empty() {
            return Ok(());
        }
        self.changing(ino, || {
            let _gate = self.0.core.gates.write_in_place(self.0.bucket);
            if !kill_privileges && self.write_hot(ino, offset, data)? {
                return Ok(());
            }
            let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
            self.write_cold(ino, offset, data, kill_privileges)
        })
    }

    /// Appends at the end of the file: no other write can come between.
    pub fn append(&self, ino: u64, data: &[u8]) -> Result<()> {
        self.refuse_write()?;
        if data.is_empty() {
            return Ok(());
        }
        self.changing(ino, || {
            let _gate = self.0.core.gates.write_in_place(self.0.bucket);
            let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
            let (_, inode) = self.reading(|tree| tree.live_inode(ino))?;
            self.write_cold(ino, inode.size, data, false)
        })
    }

    /// A write within a file that is written in place already; whether it was one.
    fn write_hot(&self, ino: u64, offset: u64, data: &[u8]) -> Result<bool> {
        let core = &self.0.core;
        let within = |hot: &Hot| offset.saturating_add(data.len() as u64) <= hot.size && hot.unseen();
        if !core.hot.get(self.0.bucket, ino).is_some_and(|hot| within(&hot)) {
            return Ok(false);
        }
        let _shared = core.gates.within(self.0.bucket, ino);
        // Looked up again under the lock: a truncation may have come between.
        let Some(hot) = core.hot.get(self.0.bucket, ino).filter(|hot| within(hot)) else { return Ok(false) };
        self.put_bytes(ino, &hot, offset, data)?;
        Ok(true)
    }

    fn put_bytes(&self, ino: u64, hot: &Hot, offset: u64, data: &[u8]) -> Result<()> {
        self.0.core.writable()?;
        hot.file.write_at(data, offset)?;
        hot.wrote(self.0.core.clock.now());
        self.0.core.blobs.mark_dirty(hot.blob);
        self.0.core.feeds.publish(self.0.bucket, self.0.mount, &[Change::Content { ino }]);
        Ok(())
    }

    fn write_cold(&self, ino: u64, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= SIZE_MAX).ok_or(Posix::TooLarge)?;
        self.0.core.writable()?;
        self.begin_version(ino)?;
        self.0.core.hot.remove(self.0.bucket, ino);
        let (_, inode) = self.reading(|tree| tree.live_inode(ino))?;
        if inode.kind() != InodeKind::File {
            return Err(Posix::Invalid.into());
        }
        if matches!(inode.content, None | Some(Content::Inline(_))) && end.max(inode.size) <= INLINE_MAX as u64 {
            return self.write_inline(ino, offset, data, kill);
        }
        // What does not fit is refused before any byte is written.
        self.check_growth(end.saturating_sub(inode.size))?;
        let (inode, home) = self.home(ino)?;
        if home.whole {
            self.write_home(ino, &inode, &home, offset, data, kill)
        } else {
            self.write_extent(ino, &home, offset, data, kill)
        }
    }

    fn write_inline(&self, ino: u64, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let data = data.to_vec();
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            let mut held = match inode.content.take() {
                Some(Content::Inline(held)) => held,
                _ => Vec::new(),
            };
            let start = usize::try_from(offset).map_err(|_| Posix::TooLarge)?;
            let end = start + data.len();
            let size = usize::try_from(inode.size).map_err(|_| Posix::TooLarge)?.max(end);
            held.resize(size, 0);
            held[start..end].copy_from_slice(&data);
            inode.content = Some(Content::Inline(held));
            tx.resize(&mut inode, size as u64);
            wrote(tx, ino, inode, kill)
        })
    }

    /// A write into a file that lies wholly in its home.
    fn write_home(&self, ino: u64, inode: &Inode, home: &Home, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let end = offset + data.len() as u64;
        if end <= inode.size {
            let hot = self.begin_overwrite(ino, home, inode.size, kill)?;
            return self.put_bytes(ino, &hot, offset, data);
        }
        if offset < inode.size {
            self.begin_overwrite(ino, home, 0, kill)?;
        }
        clear_tail(home, inode.size)?;
        home.file.write_at(data, offset)?;
        self.0.core.blobs.mark_dirty(home.id);
        let hot = Hot::new(home.id, home.file.clone(), end);
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            let size = inode.size.max(end);
            tx.resize(&mut inode, size);
            wrote(tx, ino, inode, kill)?;
            // In the order of commits: what replaces the file later finds it in the table.
            let (core, bucket) = (tx.core.clone(), tx.bucket.id);
            tx.txn.after_commit(Box::new(move || core.hot.insert(bucket, ino, hot)));
            Ok(())
        })
    }

    /// Raises the generation before bytes that can be seen change. Who looks through S3 from now on finds the file in
    /// the table, and waits for the inode's lock: nobody sees the new generation with the old bytes. `size` is how far
    /// the next writes may go without a transaction.
    pub(super) fn begin_overwrite(&self, ino: u64, home: &Home, size: u64, kill: bool) -> Result<Arc<Hot>> {
        let hot = Hot::new(home.id, home.file.clone(), size);
        self.0.core.hot.insert(self.0.bucket, ino, hot.clone());
        let raised = self.change(move |tx| {
            let inode = tx.own(ino)?;
            wrote(tx, ino, inode, kill)
        });
        if raised.is_err() {
            self.0.core.hot.remove(self.0.bucket, ino);
        }
        raised.map(|()| hot)
    }

    /// A write into a file that lies in extents: the bytes go to the home, and then belong to the file.
    fn write_extent(&self, ino: u64, home: &Home, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let (length, blob) = (data.len() as u64, home.id.0);
        let shown = self.reading(|tree| tree.extents(ino, offset, offset + length))?;
        if shown.iter().any(|placed| placed.extent.blob == blob) {
            self.begin_overwrite(ino, home, 0, kill)?;
        }
        home.file.write_at(data, offset)?;
        self.0.core.blobs.mark_dirty(home.id);
        let written = self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            tx.cut_extents(ino, offset, offset + length)?;
            tx.add_extent(ino, offset, Extent { blob, blob_offset: offset, length })?;
            let size = inode.size.max(offset + length);
            tx.resize(&mut inode, size);
            wrote(tx, ino, inode, kill)
        });
        self.0.core.hot.remove(self.0.bucket, ino);
        written
    }

    /// Refuses growth past the quota.
    pub(super) fn check_growth(&self, bytes: u64) -> Result<()> {
        let snapshot = self.0.core.meta.snapshot();
        let record = self.0.core.bucket_record(&*snapshot, &self.0.name)?;
        let Some(limit_bytes) = record.and_then(|bucket| bucket.quota_bytes).filter(|_| bytes > 0) else {
            return Ok(());
        };
        let used_bytes = self.used_bytes()?;
        if used_bytes.saturating_add(bytes) <= limit_bytes {
            return Ok(());
        }
        Err(Error::QuotaExceeded { bucket: self.0.name.to_string(), limit_bytes, used_bytes, asked_bytes: bytes })
    }

    /// Makes pending times of a file part of the store, and lets go of its home: for flush and release.
    pub fn flush(&self, ino: u64) -> Result<()> {
        if self.0.read_only || self.0.core.hot.get(self.0.bucket, ino).is_none() {
            return Ok(());
        }
        let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
        // The next write gets a new generation: somebody may look now.
        let hot = self.0.core.hot.remove(self.0.bucket, ino);
        match hot.and_then(|hot| hot.seen()) {
            Some(written) => self.change(move |tx| tx.record_write_time(ino, written)),
            None => Ok(()),
        }
    }

    /// Content, attributes and names of a file or directory on disk when it returns.
    pub fn sync(&self, ino: u64) -> Result<()> {
        if self.0.read_only {
            return Ok(());
        }
        self.flush(ino)?;
        let (_, inode) = self.reading(|tree| tree.live_inode(ino))?;
        if let Some(home) = inode.home() {
            self.0.core.blobs.sync_file(crate::blob::BlobId(home))?;
        }
        self.0.core.recent_syncs.note(self.0.bucket, ino, self.0.core.clock.now());
        self.0.core.meta.write(Durability::Synced, |_| Ok(())).wait()
    }

    /// All that this session and others wrote to the bucket on disk when it returns: before a mount ends.
    pub fn sync_volume(&self) -> Result<()> {
        if self.0.read_only {
            return Ok(());
        }
        for ino in self.0.core.hot.of_bucket(self.0.bucket) {
            match self.flush(ino) {
                // The inode, the bucket or the grant is gone: its time with it.
                Ok(()) | Err(Error::Posix(Posix::Stale) | Error::Denied { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.0.core.blobs.sync_dirty()?;
        self.0.core.meta.write(Durability::Synced, |_| Ok(())).wait()
    }
}

/// Marks content as changed by a mount, and saves the inode; what may not be changed so is refused.
pub(super) fn wrote(tx: &mut Tx<'_>, ino: u64, mut inode: Inode, kill: bool) -> Result<()> {
    tx.check_changeable(ino, &inode)?;
    inode.changed_by_mount(tx.now);
    if kill {
        inode.mode = without_privileges(inode.mode);
    }
    tx.save(ino, &inode);
    tx.tell(Change::Content { ino });
    Ok(())
}

/// Clears what a crash may have left in a home past the size, before the size grows over it.
pub(super) fn clear_tail(home: &Home, size: u64) -> Result<()> {
    let file: &Arc<dyn crate::disk::File> = &home.file;
    if file.len()? > size { file.set_len(size) } else { Ok(()) }
}
