//! `amphora migrate`: moves a whole store from its data folder to PostgreSQL and S3, or back, while no server runs.
//!
//! - The records are copied as they are, with all ids; only what says where the content is differs.
//! - All content is compared with its checksums on the way, and reaches the other place before the records do.
//! - One transaction makes the target a store. Until then servers refuse it, and afterwards they refuse the source.
//! - A move that ended early is continued by the same command: what is there already is not copied again.
//! - Content that is damaged is named, and the rest is copied; the move ends only if nothing is damaged that is not
//!   quarantined.
//!
//! | module | job |
//! | --- | --- |
//! | `outward`, `inward` | the two moves, in order |
//! | `upload`, `download` | their content |
//! | `records` | making the records of one store those of another |
//! | `owner` | owning the log meanwhile |
//! | `blobs`, `workers` | the blobs of a store, and doing something with several at a time |
//!
//! A crash leaves a target that no server opens, and a source that is as it was.

mod blobs;
mod download;
mod inward;
mod outward;
mod owner;
mod records;
#[cfg(test)]
mod tests;
mod upload;
mod workers;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::Random;
use crate::disk::is_broken;
use crate::error::{Error, Result, with_source};
use crate::header;
use crate::meta::log::Log;
use crate::meta::{Durability, Meta, Read};
use crate::record::Header;
use crate::record::account::Account;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::remote::ContentBucket;
use crate::store::account::ROOT_ACCOUNT;

pub use inward::move_in;
pub use outward::move_out;

/// A move.
pub struct Options<'a> {
    /// The data folder: the source, or the target.
    pub dir: PathBuf,
    /// The log of the metadata in PostgreSQL.
    pub log: Arc<dyn Log>,
    /// The bucket of the content and of checkpoints.
    pub content: ContentBucket,
    /// A new folder for the metadata on its way; not needed for a move into a data folder.
    pub scratch: PathBuf,
    /// The file of the master key, if it is not kept with the store.
    pub master_key: Option<PathBuf>,
    /// This machine's name, for people.
    pub host: String,
    /// The source of random bytes.
    pub random: Arc<dyn Random>,
    /// Receives the progress, on any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// The progress of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// What is done: batches, blobs or records.
    pub done: u64,
    /// The total; 0 if it is unknown.
    pub total: u64,
    /// The bytes of content that were copied.
    pub bytes: u64,
}

/// The phases of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Fetching what the log has.
    Replay,
    /// Copying content: blobs.
    Content,
    /// Copying records.
    Records,
}

/// The result of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether the store is at its new place now.
    pub moved: bool,
    /// The store's blobs.
    pub blobs: u64,
    /// Bytes of content that were copied.
    pub copied_bytes: u64,
    /// Objects or files that an earlier run had copied.
    pub found: u64,
    /// Records that were written.
    pub records: u64,
    /// Damaged content, one line each: the move is not complete because of it.
    pub problems: Vec<String>,
    /// Number of problems beyond the listed ones.
    pub unlisted_problems: u64,
}

/// What a move has done so far.
struct Counts<'a> {
    progress: &'a (dyn Fn(Progress) + Sync),
    blobs: AtomicU64,
    total: u64,
    bytes: AtomicU64,
    found: AtomicU64,
    /// Blobs whose damage is known.
    quarantined: HashSet<u64>,
    /// Damaged blobs that are not quarantined, with the reasons.
    damage: Mutex<BTreeMap<u64, String>>,
}

impl<'a> Counts<'a> {
    /// Counts for the content of a store.
    fn of(source: &Meta, progress: &'a (dyn Fn(Progress) + Sync)) -> Result<Self> {
        let (total, quarantined) = (blobs::count(source.snapshot())?, blobs::quarantined(&*source.snapshot())?);
        let (blobs, bytes, found) = Default::default();
        Ok(Self { progress, blobs, total, bytes, found, quarantined, damage: Mutex::default() })
    }

    fn copied(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    fn found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    fn blob_done(&self) {
        self.blobs.fetch_add(1, Ordering::Relaxed);
        self.tell();
    }

    fn tell(&self) {
        let (done, bytes) = (self.blobs.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        (self.progress)(Progress { phase: Phase::Content, done, total: self.total, bytes });
    }

    /// Whether an error is damage of a blob that is quarantined.
    fn is_known(&self, blob: u64, error: &Error) -> bool {
        is_damage(error) && self.quarantined.contains(&blob)
    }

    /// Notes damage that is not known yet; other errors end the move.
    fn judge(&self, blob: u64, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if self.is_known(blob, &error) => Ok(()),
            Err(error) if is_damage(&error) => {
                self.damage.lock().insert(blob, with_source(&error));
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn report(self) -> (Report, BTreeMap<u64, String>) {
        let report = Report {
            blobs: self.total,
            copied_bytes: self.bytes.into_inner(),
            found: self.found.into_inner(),
            ..Report::default()
        };
        (report, self.damage.into_inner())
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. }) || is_broken(error)
}

/// Replaces the header, durably.
fn put_header(meta: &Meta, header: Header) -> Result<()> {
    let written = meta.write(Durability::Synced, move |txn| {
        header::put(txn, &header);
        Ok(())
    });
    written.wait()
}

/// When the root account was made, in nanoseconds since 1970: this tells stores from each other.
fn root_created(read: &dyn Read) -> Result<i64> {
    let value = read.get(&key::by_name(tag::ACCOUNT, ROOT_ACCOUNT))?;
    let value = value.ok_or_else(|| Error::corrupt("the store", "a root account", "none"))?;
    Ok(decode::<Account>("the root account", &value)?.created)
}
