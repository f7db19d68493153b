//! Checkpoints: copies of the whole store outside the log, from which a server opens it and replays only the log's end.
//!
//! - A checkpoint consists of immutable tables, uploaded once each under their checksum, and a manifest, which is written
//!   last and replaced by compare-and-swap.
//! - It ends with a batch that the log has acknowledged: what the log may never have is in no checkpoint.
//! - The log is trimmed behind the checkpoint *before* the newest: a standby that is a little behind finds its entries.
//! - Tables that neither the newest manifest nor the one before it names are removed, up to the owner's epoch.
//!
//! | module | job |
//! | --- | --- |
//! | `take` | makes a checkpoint, and trims |
//! | `restore` | makes a folder from the newest one |
//! | `manifest` | the bytes of a manifest |
//! | `worker` | the thread that decides when |
//!
//! A crash before the manifest leaves tables that no manifest names, which a later checkpoint removes; a crash behind it
//! leaves a log that is longer than necessary.

mod manifest;
mod restore;
mod take;
mod worker;

use std::path::{Path, PathBuf};

use objstore_base::error::Result;

pub(crate) use self::restore::restore;
pub(crate) use self::take::Taker;
pub(crate) use self::worker::Worker;

/// The files of a copy at one of its batches, linked or copied into a folder.
pub(crate) struct Linked {
    /// The last batch in them.
    pub batch: u64,
    /// Their paths below the folder, each with whether it is a table, which never changes.
    pub files: Vec<(PathBuf, bool)>,
}

/// An engine whose files can be linked while it is written to.
pub(crate) trait Link: Send {
    /// Links the files of the present version into the empty folder `target`.
    fn link(&self, target: &Path) -> Result<Linked>;
}
