//! Writing.
//!
//! - Up to 4 KiB a file lies in its record: a write is one transaction.
//! - Larger files have a home. The first write in it is a transaction, by which the file is live; what follows goes to
//!   the home alone (`live`), as long as all of the content lies there.
//! - What makes a home puts the old bytes and the new in it first, and then commits it with all it means. So does a
//!   write to a file whose content lies in extents: its bytes go to the home, and then belong to the file.
//! - A crash between the two leaves a file nobody refers to, or bytes in a home where no extent shows them.

use bytes::Bytes;

use super::home::{Found, Home};
use super::session::Volume;
use super::types::Change;
use crate::content::INLINE_MAX;
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::record::inode::{Content, Extent, Inode, InodeKind};
use crate::tree::Tx;

/// The largest file, in bytes.
const SIZE_MAX: u64 = i64::MAX as u64;

impl Volume {
    /// Writes at `offset`: in the store when it returns; `kill_privileges` as in [`super::SetAttr`]. Gives whether it
    /// took setuid or setgid away.
    pub fn write(&self, ino: u64, offset: u64, data: &[u8], kill_privileges: bool) -> Result<bool> {
        self.refuse_write()?;
        if data.is_empty() {
            return Ok(false);
        }
        self.changing(ino, || {
            let _gate = self.0.core.gates.write_in_place(self.0.bucket);
            let lost = self.disarm(ino, kill_privileges)?;
            if self.write_live(ino, offset, data)? {
                return Ok(lost);
            }
            let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
            Ok(self.write_cold(ino, offset, data, kill_privileges)? || lost)
        })
    }

    /// Takes from a live file what a write of it takes.
    fn disarm(&self, ino: u64, kill: bool) -> Result<bool> {
        match self.live(ino) {
            Some(live) if live.takes_privileges(kill) => self.lose_privileges(ino, kill),
            _ => Ok(false),
        }
    }

    /// Appends at the end of the file: no other write can come between. Gives where the file ends then.
    pub fn append(&self, ino: u64, data: &[u8]) -> Result<u64> {
        self.refuse_write()?;
        if data.is_empty() {
            return Ok(self.look(ino)?.size);
        }
        self.changing(ino, || {
            let _gate = self.0.core.gates.write_in_place(self.0.bucket);
            let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
            let write = |offset: u64| {
                if offset.checked_add(data.len() as u64).is_none_or(|end| end > SIZE_MAX) {
                    return Err(Posix::TooLarge.into());
                }
                match self.live(ino).filter(|live| !live.takes_privileges(false)) {
                    Some(live) if self.extend_live(ino, &live, offset, data)? => Ok(()),
                    _ => self.write_cold(ino, offset, data, false).map(drop),
                }
            };
            self.append_once(ino, self.look(ino)?.size, data.len() as u64, write)
        })
    }

    /// A write that needs a transaction; whether it took setuid or setgid away. The caller holds the bucket's gate shared
    /// and the inode's lock alone.
    fn write_cold(&self, ino: u64, offset: u64, data: &[u8], kill: bool) -> Result<bool> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= SIZE_MAX).ok_or(Posix::TooLarge)?;
        self.0.core.writable()?;
        self.leave_retired(ino)?;
        self.begin_version(ino)?;
        let inode = self.look(ino)?;
        if inode.kind() != InodeKind::File {
            return Err(Posix::Invalid.into());
        }
        let loses = kill && inode.may_lose_setuid();
        if matches!(inode.content, None | Some(Content::Inline(_))) && end.max(inode.size) <= INLINE_MAX as u64 {
            return self.write_inline(ino, offset, data, kill).map(|()| loses);
        }
        // What does not fit is refused before any byte is written.
        self.check_growth(end.saturating_sub(inode.size))?;
        match self.find_home(ino)? {
            Found::Fresh(fresh) => {
                fresh.file().write_at(data, offset)?;
                self.move_in(ino, &inode, fresh, end, kill)?;
            }
            Found::Home(home) if home.whole => self.write_home(ino, &inode, &home, offset, data, kill)?,
            Found::Home(home) => self.write_extent(ino, &inode, &home, offset, data, kill)?,
        }
        Ok(loses)
    }

    /// Settles a file that is in the table of live ones and may not be written through it.
    pub(super) fn leave_retired(&self, ino: u64) -> Result<()> {
        match self.0.core.live.get(self.0.bucket, ino) {
            Some(live) if live.is_retired() => self.settle(ino),
            _ => Ok(()),
        }
    }

    fn write_inline(&self, ino: u64, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let data = data.to_vec();
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            let held = match inode.content.take() {
                Some(Content::Inline(held)) => held,
                _ => Bytes::new(),
            };
            let start = usize::try_from(offset).map_err(|_| Posix::TooLarge)?;
            let end = start + data.len();
            let size = usize::try_from(inode.size).map_err(|_| Posix::TooLarge)?.max(end);
            let mut bytes = Vec::with_capacity(size);
            bytes.extend_from_slice(&held);
            bytes.resize(size, 0);
            bytes[start..end].copy_from_slice(&data);
            inode.content = Some(Content::Inline(bytes.into()));
            tx.resize(&mut inode, size as u64);
            wrote(tx, ino, inode, kill)
        })
    }

    /// A write into a file that lies wholly in its home.
    fn write_home(&self, ino: u64, inode: &Inode, home: &Home, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let live = match self.live(ino) {
            Some(live) => live,
            None => self.go_live(ino, inode, home, kill)?,
        };
        if self.extend_live(ino, &live, offset, data)? { Ok(()) } else { Err(overtaken()) }
    }

    /// A write into a file that lies in extents: the bytes go to the home, and then belong to the file.
    fn write_extent(&self, ino: u64, inode: &Inode, home: &Home, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let (length, blob) = (data.len() as u64, home.id.0);
        let shown = self.reading(|tree| tree.extents(ino, offset, offset + length))?;
        let mut live = self.live(ino);
        if live.is_none() && shown.iter().any(|placed| placed.extent.blob == blob) {
            live = Some(self.go_live(ino, inode, home, kill)?);
        }
        if live.as_ref().is_some_and(|live| !live.begin()) {
            return Err(overtaken());
        }
        home.file.write_at(data, offset)?;
        self.0.core.blobs.mark_dirty(home.id);
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            tx.cut_extents(ino, offset, offset + length)?;
            tx.add_extent(ino, offset, Extent { blob, blob_offset: offset, length })?;
            let size = inode.size.max(offset + length);
            tx.resize(&mut inode, size);
            wrote(tx, ino, inode, kill)?;
            if let Some(live) = live {
                tx.txn.after_commit(Box::new(move || live.recorded(size)));
            }
            Ok(())
        })
    }

    /// Refuses growth past the quota.
    pub(super) fn check_growth(&self, bytes: u64) -> Result<()> {
        let record = self.0.core.bucket_known(&self.0.name)?;
        let Some(limit_bytes) = record.and_then(|bucket| bucket.quota_bytes).filter(|_| bytes > 0) else {
            return Ok(());
        };
        let used_bytes = self.used_bytes()?;
        if used_bytes.saturating_add(bytes) <= limit_bytes {
            return Ok(());
        }
        Err(Error::QuotaExceeded { bucket: self.0.name.to_string(), limit_bytes, used_bytes, asked_bytes: bytes })
    }

    /// A file or directory on disk when it returns (fsync(2)): content, attributes and names.
    ///
    /// The content of a file in its home is on disk by a sync of that, and so are size and time of a live file. The
    /// metadata is on disk already if nothing was committed since its last sync; if not, both syncs run side by side.
    pub fn sync(&self, ino: u64) -> Result<()> {
        self.sync_as(ino, false)
    }

    /// The same, but perhaps for the time of the last change (fdatasync(2)).
    pub fn sync_without_time(&self, ino: u64) -> Result<()> {
        self.sync_as(ino, true)
    }

    fn sync_as(&self, ino: u64, data_only: bool) -> Result<()> {
        if self.0.read_only {
            return Ok(());
        }
        let core = &self.0.core;
        // The home is not removed before it is synced, though the file be cut or replaced meanwhile.
        let _reading = core.readers.begin();
        let live = core.live.get(self.0.bucket, ino);
        let home = match &live {
            Some(live) => Some(live.blob),
            None => self.reading(|tree| tree.live_inode(ino))?.1.home().map(crate::blob::BlobId),
        };
        let Some(id) = home else {
            core.recent_syncs.note(self.0.bucket, ino, core.clock.now());
            return core.meta.sync_here();
        };
        if core.backed.is_exposed((self.0.bucket, ino)) {
            // Nobody said that a mapping wrote to it.
            core.blobs.mark_dirty(id);
        }
        // The writer's thread syncs it, beside the content.
        let metadata = (!core.meta.is_synced()).then(|| core.meta.sync());
        let content = match live {
            // The time of what is live is the home's, after a crash.
            Some(_) if !data_only => core.blobs.sync_file_and_times(id),
            _ => core.blobs.sync_file(id),
        };
        let metadata = metadata.map_or(Ok(()), crate::ticket::Ticket::wait);
        content.and(metadata)
    }

    /// All that this session and others wrote to the bucket on disk when it returns: before a mount ends. Of live files
    /// that is what their homes hold.
    pub fn sync_volume(&self) -> Result<()> {
        if self.0.read_only {
            return Ok(());
        }
        let core = &self.0.core;
        // Before the sync: what is written during it is not promised.
        core.recent_syncs.note_all(self.0.bucket, core.clock.now());
        core.blobs.sync_dirty()?;
        core.meta.sync_here()
    }
}

/// A file ceased to be live while it was written: the write is made again.
pub(super) fn overtaken() -> Error {
    Error::Busy { what: "a file that was replaced while it was open".into() }
}

/// Marks content as changed by a mount, and saves the inode; what may not be changed so is refused.
pub(super) fn wrote(tx: &mut Tx<'_>, ino: u64, mut inode: Inode, kill: bool) -> Result<()> {
    tx.check_changeable(ino, &inode)?;
    inode.changed_by_mount(tx.now);
    if kill {
        inode.lose_setuid(false);
    }
    inode.lose_capabilities();
    tx.save(ino, &inode);
    tx.tell(Change::Content { ino });
    Ok(())
}

/// Clears what a crash may have left in a home past the size, before the size grows over it or the file becomes live. On
/// disk: after another crash it would be taken for the file's.
pub(super) fn clear_tail(core: &Core, home: &Home, size: u64) -> Result<()> {
    if home.file.len()? <= size {
        return Ok(());
    }
    home.file.set_len(size)?;
    core.blobs.mark_dirty(home.id);
    core.blobs.sync_file(home.id)
}
