//! A store whose metadata is in a log on other machines, until this server owns the log.
//!
//! - The data folder is a copy: it may be deleted while no server runs on it. What it holds beside the copy of the
//!   metadata is of this server alone.
//! - The server's name is random and lies in the folder, so that the same server takes its log over at once after a
//!   restart, and another one waits for the end of the lease.
//!
//! A crash leaves the copy at one of the log's batches. After the loss of the folder the server has another name.

use std::sync::Arc;
use std::time::Duration;

use crate::disk::Lock;
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::meta::fjall_engine::{self, Checkpoints, Claimed, Followed, Lost, Place};
use crate::meta::log::{Claim, Log};
use crate::store::{Options, Store};

/// The file with the server's id, in the data folder.
const ID_FILE: &str = "server-id";
/// Only the owner reads it.
const MODE: u32 = 0o600;

/// The log of a store, and how this server owns it.
pub struct Ownership {
    /// The log.
    pub log: Arc<dyn Log>,
    /// A name for people, which need not be unique.
    pub host: String,
    /// How long other servers are kept out after each renewal.
    pub lease: Duration,
    /// What happens when the log is lost.
    pub lost: Lost,
    /// How long answers are withheld after that, so that the process can be replaced without an error to any caller.
    pub withheld: Duration,
    /// Where checkpoints go; `None`: the log is never trimmed.
    pub checkpoints: Option<Checkpoints>,
}

/// A copy that follows the log. Its methods block.
pub struct Standby {
    copy: fjall_engine::Standby,
    lock: Lock,
}

impl Standby {
    /// Opens the copy in the data folder, which may be absent.
    ///
    /// # Errors
    /// - [`Error::Busy`]: the log cannot be reached at the moment.
    /// - [`Error::Unusable`]: another server has the folder open, or it belongs to another store.
    pub fn open(options: &Options, ownership: Ownership) -> Result<Self> {
        let (lock, copy) = super::open::with_folder(options, |folder, engine| {
            let Ownership { log, host, lease, lost, withheld, checkpoints } = ownership;
            let claim = Claim { server: format!("{host} ({})", id(options)?), lease };
            fjall_engine::Standby::open(folder, engine, Place { withheld, checkpoints, ..Place::new(log, claim, lost) })
        })?;
        Ok(Self { copy, lock })
    }

    /// Replays the next page of the log.
    ///
    /// # Errors
    /// - [`Error::Busy`]: the log cannot be reached at the moment.
    /// - [`Error::Unusable`], [`Error::Corrupt`]: the copy and the log do not fit, or an entry is damaged.
    pub fn follow(&mut self) -> Result<Followed> {
        self.copy.follow()
    }

    /// Notes in the log that this server follows it, and how far it is.
    ///
    /// # Errors
    /// Those of [`Standby::follow`].
    pub fn announce(&self) -> Result<()> {
        self.copy.announce()
    }

    /// Claims the log for this server, if its owner's lease has ended.
    ///
    /// # Errors
    /// Those of [`Standby::follow`].
    pub fn claim(&mut self) -> Result<Claimed> {
        self.copy.claim()
    }

    /// Opens the store, once the log is this server's, with the options that the copy was opened with.
    ///
    /// # Errors
    /// Those of [`Standby::follow`] and of [`open`](crate::open()).
    pub fn into_store(self, options: Options) -> Result<Store> {
        let meta = Meta::new(self.copy.into_engine()?);
        super::open::open_on(meta, self.lock, options, crate::blob::Options::default())
    }
}

/// The id in the folder; made if there is none.
fn id(options: &Options) -> Result<String> {
    let (disk, file) = (&options.disk, options.dir.join(ID_FILE));
    if disk.exists(&file)? {
        let read = String::from_utf8(disk.read_all(&file)?).unwrap_or_default();
        if read.len() == 16 && read.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(read);
        }
        let why =
            format!("{} does not hold the id of a server: remove it, and the server gets another", file.display());
        return Err(Error::Unusable { why });
    }
    let mut bytes = [0; 8];
    options.random.fill(&mut bytes);
    let made: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    disk.write_atomic(&file, made.as_bytes(), MODE)?;
    Ok(made)
}
