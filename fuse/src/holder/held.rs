//! A mount as a server finds it with the holder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::deposits::Deposit;
use super::record::Record;
use crate::attached::Attached;

/// A mount that a process before this one deposited.
#[derive(Debug)]
pub struct Held {
    pub(crate) deposit: Deposit,
    pub(crate) record: Record,
}

impl Held {
    /// Reads a deposit.
    ///
    /// # Errors
    /// Gives it back if it is no mount, or one of another version's: better left where it is.
    pub fn read(deposit: Deposit) -> Result<Self, Deposit> {
        match Record::decode(&deposit.record) {
            Some(record) if deposit.descriptors.len() == 2 => Ok(Self { deposit, record }),
            _ => Err(deposit),
        }
    }

    /// Its number, which is that of its session.
    pub fn id(&self) -> u64 {
        self.deposit.id
    }

    /// Where it was mounted.
    pub fn path(&self) -> &Path {
        &self.record.path
    }

    /// What its depositor wrote down.
    pub fn description(&self) -> &[u8] {
        &self.record.description
    }

    /// The deposit it was read from.
    pub fn into_deposit(self) -> Deposit {
        self.deposit
    }

    /// Whether the kernel is done with it: somebody unmounted it.
    pub fn is_dead(&self) -> bool {
        self.deposit.is_dead()
    }

    /// Ends it and takes it away from where it was mounted, if it still is there: programs inside get ENOTCONN.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn abandon(&self) -> crate::Result<()> {
        self.with_attached(Attached::abandon)
    }

    /// The same, unless programs use it.
    ///
    /// # Errors
    /// [`crate::Error::InUse`] if they do.
    pub fn abandon_idle(&self) -> crate::Result<()> {
        self.with_attached(Attached::abandon_idle)
    }

    fn with_attached(&self, end: impl FnOnce(&Attached) -> crate::Result<()>) -> crate::Result<()> {
        let attached = Attached::found(self.record.path.clone(), self.record.device.clone());
        let done = end(&attached);
        // What could not be ended stays as it is: a mount goes with its `Attached` otherwise.
        attached.is_gone();
        done
    }

    /// What a deposit of a mount consists of.
    pub(crate) fn deposit(id: u64, record: &Record, device: impl AsFd, memory: impl AsFd) -> std::io::Result<Deposit> {
        let descriptors = vec![device.as_fd().try_clone_to_owned()?, memory.as_fd().try_clone_to_owned()?];
        Ok(Deposit { id, record: record.encode(), descriptors })
    }

    /// Descriptors of its own: the device, and the shared memory.
    pub(crate) fn descriptors(&self) -> std::io::Result<(OwnedFd, OwnedFd)> {
        match self.deposit.descriptors.as_slice() {
            [device, memory] => Ok((device.try_clone()?, memory.try_clone()?)),
            _ => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }
}
