//! A mount that a server finds with the fd holder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::{Deposit, Record};
use crate::kernel_mount::KernelMount;

/// A mount that an earlier server deposited.
#[derive(Debug)]
pub struct Held {
    pub(crate) deposit: Deposit,
    pub(crate) record: Record,
}

impl Held {
    /// Reads a deposit.
    ///
    /// # Errors
    /// Returns the deposit if it is not a mount, or has another version's format: it is left with the holder then.
    pub fn read(deposit: Deposit) -> Result<Self, Deposit> {
        match Record::decode(&deposit.record) {
            Some(record) if deposit.descriptors.len() == 2 => Ok(Self { deposit, record }),
            _ => Err(deposit),
        }
    }

    /// The deposit's id, which is also its session's id.
    pub fn id(&self) -> u64 {
        self.deposit.id
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.record.path
    }

    /// The depositor's description of the mount.
    pub fn description(&self) -> &[u8] {
        &self.record.description
    }

    /// The deposit that this was read from.
    pub fn into_deposit(self) -> Deposit {
        self.deposit
    }

    /// Whether the mount is gone: a program unmounted it.
    pub fn is_dead(&self) -> bool {
        self.deposit.is_dead()
    }

    /// Ends the FUSE connection and unmounts the mount if it is still mounted. Programs that use it get ENOTCONN.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn abandon(&self) -> crate::Result<()> {
        self.with_attached(KernelMount::abandon)
    }

    /// Unmounts the mount and ends its FUSE connection, unless programs use it.
    ///
    /// # Errors
    /// [`crate::Error::InUse`] if programs use it.
    pub fn abandon_idle(&self) -> crate::Result<()> {
        self.with_attached(KernelMount::abandon_idle)
    }

    fn with_attached(&self, end: impl FnOnce(&KernelMount) -> crate::Result<()>) -> crate::Result<()> {
        let kernel_mount = KernelMount::found(self.record.path.clone(), self.record.device.clone());
        let done = end(&kernel_mount);
        // After a failure the mount has to stay: dropping `KernelMount` would unmount it.
        kernel_mount.is_gone();
        done
    }

    /// Makes the deposit of a mount.
    pub(crate) fn deposit(id: u64, record: &Record, device: impl AsFd, memory: impl AsFd) -> std::io::Result<Deposit> {
        let descriptors = vec![device.as_fd().try_clone_to_owned()?, memory.as_fd().try_clone_to_owned()?];
        Ok(Deposit { id, record: record.encode(), descriptors })
    }

    /// Duplicates of the device and of the shared memory.
    pub(crate) fn descriptors(&self) -> std::io::Result<(OwnedFd, OwnedFd)> {
        match self.deposit.descriptors.as_slice() {
            [device, memory] => Ok((device.try_clone()?, memory.try_clone()?)),
            _ => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }
}
