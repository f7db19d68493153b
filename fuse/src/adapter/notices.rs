//! The kernel's side of a mount: sends it cache invalidations, and registers backing files for passthrough.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use crate::invalidate::Kernel;
use crate::notifier::{Notifier, Notifiers};
use crate::opened::{Backing, BackingId};
use crate::wire::{self, Notice, notify};

/// A sender of notices to the kernel of one mount.
#[derive(Clone)]
pub(crate) struct Notices {
    device: wire::Device,
    /// The separate process that waits for the kernel in place of this one.
    notifier: Option<Notifier>,
    /// Further ones, for names whose directories are locked.
    beside: Option<Notifiers>,
}

impl Notices {
    pub(super) fn new(device: wire::Device) -> Self {
        Self { device, notifier: None, beside: None }
    }

    /// Sends notices that can wait for locks through a separate process, `program`.
    pub fn apart(self, program: &Path) -> io::Result<Self> {
        let notifier = Some(Notifier::start(program, self.device.as_fd())?);
        let beside = Some(Notifiers::new(program, self.device.as_fd())?);
        Ok(Self { notifier, beside, ..self })
    }

    fn give(&self, notice: Notice<'_>) -> io::Result<bool> {
        let apart = self.notifier.as_ref().and_then(|notifier| notifier.give(&wire::message(notice)));
        apart.map_or_else(|| notify(&self.device, notice), wire::told)
    }

    fn give_beside(&self, notice: Notice<'_>) -> io::Result<()> {
        let beside = self.beside.as_ref().and_then(|notifiers| notifiers.give(&wire::message(notice)));
        beside.map_or_else(|| notify(&self.device, notice), wire::told).map(drop)
    }

    /// Asks the kernel to resend all requests that an earlier server read and did not answer.
    pub fn resend(&self) -> io::Result<()> {
        notify(&self.device, Notice::Resend).map(drop)
    }
}

impl Kernel for Notices {
    fn drop_entry(&self, parent: u64, name: &str) -> io::Result<()> {
        self.give(Notice::Entry(parent, OsStr::new(name))).map(drop)
    }

    fn drop_entry_beside(&self, parent: u64, name: &str) -> io::Result<()> {
        self.give_beside(Notice::Entry(parent, OsStr::new(name)))
    }

    fn drop_content_beside(&self, node: u64) -> io::Result<()> {
        self.give_beside(Notice::Content(node))
    }

    fn drop_content(&self, node: u64) -> io::Result<()> {
        self.give(Notice::Content(node)).map(drop)
    }

    fn drop_attributes(&self, node: u64) -> io::Result<()> {
        self.give(Notice::Attributes(node)).map(drop)
    }

    /// As a side effect the kernel drops the node's attributes.
    fn probe(&self, node: u64) -> io::Result<bool> {
        self.give(Notice::Attributes(node))
    }
}

impl Backing for Notices {
    fn open(&self, file: BorrowedFd<'_>) -> io::Result<BackingId> {
        wire::open_backing(&self.device, file).map(BackingId::from_number)
    }

    fn close(&self, id: BackingId) -> io::Result<()> {
        wire::close_backing(&self.device, id.number())
    }
}
