//! Open files of the simulated disk.

use std::os::fd::BorrowedFd;
use std::time::SystemTime;

use bytes::Bytes;
use objstore_base::error::Result;
use objstore_disk::{Allocate, File};

use super::SimulatedDisk;
use super::crash::Change;
use super::image::{Image, PAGE, SECTOR};
use super::world::{Amount, Inode};

/// An open file of the simulated disk.
pub(super) struct SimulatedFile {
    pub(super) disk: SimulatedDisk,
    pub(super) inode: u64,
}

impl SimulatedFile {
    fn look<T>(&self, look: impl FnOnce(&Inode) -> T) -> Result<T> {
        let world = self.disk.world.lock();
        world.alive()?;
        Ok(look(world.inodes.get(&self.inode).unwrap_or(&Inode::default())))
    }

    fn change(&self, what: &[u8], change: Change) -> Result<()> {
        let now = self.disk.clock.now();
        self.disk.act(what, self.inode, |world| {
            world.change(self.inode, change, now);
            Ok(())
        })
    }

    fn sync_now(&self, what: &[u8], with_time: bool) -> Result<()> {
        self.disk.act(what, self.inode, |world| {
            world.sync_file(self.inode, with_time);
            Ok(())
        })
    }
}

impl File for SimulatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.look(|inode| inode.now.read(buf, offset))
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        let now = self.disk.clock.now();
        let mut world = self.disk.world.lock();
        let amount =
            world.count(b"write", self.inode ^ offset.rotate_left(20) ^ (data.len() as u64).rotate_left(40))?;
        let done = match amount {
            Amount::None => 0,
            // A killed process can leave part of a write, but only whole pages.
            Amount::Some => ((offset + data.len() as u64 / 2) / PAGE * PAGE).saturating_sub(offset) as usize,
            Amount::All => data.len(),
        };
        if done > 0 {
            world.change(self.inode, Change::Write { offset, data: Bytes::copy_from_slice(&data[..done]) }, now);
        }
        world.alive()
    }

    fn write_direct(&self, data: &[u8], offset: u64) -> Result<()> {
        self.write_at(data, offset)
    }

    fn len(&self) -> Result<u64> {
        self.look(|inode| inode.now.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.change(b"set_len", Change::SetLen(len))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.change(b"punch", Change::Punch { offset, len })
    }

    fn allocate(&self, offset: u64, len: u64, size: Allocate) -> Result<()> {
        match size {
            Allocate::Extend => self.change(b"allocate", Change::Extend(offset + len)),
            Allocate::KeepSize => self.change(b"reserve", Change::Reserve(offset + len)),
        }
    }

    fn sync(&self) -> Result<()> {
        self.sync_now(b"sync", false)
    }

    fn sync_with_time(&self) -> Result<()> {
        self.sync_now(b"sync_with_time", true)
    }

    fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.look(|inode| inode.now.data(offset))
    }

    fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.look(|inode| inode.now.hole(offset))
    }

    fn reflink_from(&self, source: &dyn File) -> Result<bool> {
        if !self.disk.world.lock().reflinks {
            return Ok(false);
        }
        let mut bytes = vec![0; usize::try_from(source.len()?).unwrap()];
        source.read_at(&mut bytes, 0)?;
        let mut image = Image::default();
        image.write(&bytes, 0);
        self.change(b"reflink", Change::Become(image)).map(|()| true)
    }

    fn raw(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Every second file counts as open in another process, or mapped.
    fn is_lone(&self) -> bool {
        self.inode.is_multiple_of(2)
    }

    fn blocks(&self) -> Result<u64> {
        self.look(|inode| inode.now.page_count() * PAGE / SECTOR)
    }

    fn modified(&self) -> Result<SystemTime> {
        self.look(|inode| inode.modified.into())
    }
}
