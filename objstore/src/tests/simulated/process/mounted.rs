//! Operations of mounts on a process.

use super::Process;
use crate::error::Result;
use crate::tests::simulated::operation::{At, Operation, bytes};
use crate::tests::test_store::by_root;
use crate::volume::{Make, Rename, RenameMode, SetAttr, Spot, XattrMode};

/// So many files are open by passthrough at a time.
const PAST: usize = 3;

impl Process {
    pub(super) fn act_mounted(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Make { at } => self.make(at, Make::File),
            Operation::Create { at } => {
                let (volume, parent, last) = self.parent(&at.bucket, &at.path)?;
                let made = volume.create(parent, &last, by_root(0o644))?;
                self.machine.kernel.opens(&at.bucket, self.second, made.ino);
                Ok(())
            }
            Operation::MakeFolder { at } => self.make(at, Make::Directory),
            Operation::Symlink { at, target } => self.make(at, Make::Symlink(target.clone())),
            Operation::RemoveFolder { at } => {
                let (volume, parent, last) = self.parent(&at.bucket, &at.path)?;
                volume.remove_dir(parent, &last)
            }
            Operation::Link { at, to } => {
                let (_, ino) = self.mounted(at)?;
                let (volume, parent, last) = self.parent(&at.bucket, to)?;
                volume.link(ino, parent, &last)?;
                volume.forget(ino, 1);
                Ok(())
            }
            Operation::Rename { at, to } => {
                let (_, from_parent, from_name) = self.parent(&at.bucket, &at.path)?;
                let (volume, to_parent, to_name) = self.parent(&at.bucket, to)?;
                volume.rename(Rename { from_parent, from_name, to_parent, to_name, mode: RenameMode::Replace })
            }
            Operation::Unlink { at, hold } => {
                let (volume, parent, last) = self.parent(&at.bucket, &at.path)?;
                // Who asks again knows it no more by its name.
                if !*hold || self.served.again {
                    return volume.unlink(parent, &last);
                }
                let (_, ino) = self.mounted(at)?;
                volume.pin(ino)?;
                volume.unlink(parent, &last)?;
                self.machine.kernel.unlinked((at.bucket.clone(), self.second), &volume, ino)
            }
            Operation::SetMode { at, mode } => {
                let (volume, ino) = self.mounted(at)?;
                volume.set_attr(ino, SetAttr { mode: Some(*mode), ..SetAttr::default() }).map(drop)
            }
            Operation::SetXattr { at, value } => {
                let (volume, ino) = self.mounted(at)?;
                volume.set_xattr(ino, "user.k", value, XattrMode::Any)
            }
            _ => self.act_written(operation),
        }
    }

    /// Opens some files by passthrough, and maps some of those; only a few are open so at a time.
    pub(super) fn read_past(&mut self, at: &At) -> Result<()> {
        let Ok((volume, ino)) = self.mounted(at) else { return Ok(()) };
        if ino.is_multiple_of(3) && volume.back(ino, 1)?.is_ok() {
            if ino.is_multiple_of(2) {
                volume.expose(ino)?;
            }
            self.past.push_back(((at.bucket.clone(), self.second), ino));
        }
        if self.past.len() > PAST
            && let Some((mounted, ino)) = self.past.pop_front()
            && let Some(volume) = self.volumes.get(&mounted)
        {
            volume.release_backing(ino);
        }
        Ok(())
    }

    fn make(&mut self, at: &At, what: Make) -> Result<()> {
        let (volume, parent, last) = self.parent(&at.bucket, &at.path)?;
        let made = volume.make(parent, &last, what, by_root(0o644))?;
        volume.forget(made.ino, 1);
        Ok(())
    }

    fn act_written(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Write { at, offset, size, stamp } => {
                let (volume, ino) = self.mounted(at)?;
                volume.write(ino, *offset as u64, &bytes(*stamp, *size), false)
            }
            Operation::Append { at, size, stamp } => {
                let (volume, ino) = self.mounted(at)?;
                volume.append(ino, &bytes(*stamp, *size)).map(drop)
            }
            Operation::Truncate { at, size } => {
                let (volume, ino) = self.mounted(at)?;
                volume.set_attr(ino, SetAttr { size: Some(*size as u64), ..SetAttr::default() }).map(drop)
            }
            Operation::Allocate { at, how, offset, size } => {
                let (volume, ino) = self.mounted(at)?;
                volume.allocate(ino, *how, *offset as u64, *size as u64)
            }
            Operation::CopyRange { at, to, size } => {
                let (_, from) = self.mounted(at)?;
                let (volume, to) = self.mounted(&At { bucket: at.bucket.clone(), path: to.clone() })?;
                let mut done = 0;
                // A call copies what it likes, as the system call does.
                while done < *size as u64 {
                    let spot = |ino| Spot { ino, offset: done };
                    match volume.copy_range(spot(from), spot(to), *size as u64 - done)? {
                        0 => break,
                        copied => done += copied,
                    }
                }
                Ok(())
            }
            Operation::Fsync { at, data_only } => {
                let (volume, ino) = self.mounted(at)?;
                if *data_only { volume.sync_without_time(ino) } else { volume.sync(ino) }
            }
            Operation::SyncVolume { bucket } => self.volume(bucket)?.sync_volume(),
            Operation::Open { at } => {
                let (volume, ino) = self.mounted(at)?;
                volume.pin(ino)?;
                volume.open_writer(ino)?;
                self.machine.kernel.opens(&at.bucket, self.second, ino);
                Ok(())
            }
            _ => unreachable!("{operation:?}"),
        }
    }
}
