//! The log in an S3 store, by conditional writes: an object for each batch, and one record for the owner.
//!
//! - The record is changed by compare-and-swap (`If-Match`), and raises the epoch with each takeover. Each epoch has keys
//!   of its own, so batches of two owners never overlap. A batch is created once (`If-None-Match: *`).
//! - A takeover first raises the epoch, then *seals* the earlier one: it creates an object at the first number that the
//!   epoch has no batch for. From then on the former owner finds that number taken. What it may still write behind it is
//!   never read: the reader of an epoch follows its batches one by one, and stops at the seal.
//! - A seal is never removed: without it a server that was stopped for long would find its number free.
//! - Leases need no common clock: a server counts how long it sees the same revision of the record, by its own clock. The
//!   owner counts from before it sent the renewal, so its lease ends first (decision 0143).
//! - Listings are hints: they name what may be read ahead and what to remove, and never decide what the log has.
//!
//! | module | job |
//! | --- | --- |
//! | `owner`, `record` | taking the log over, renewing, releasing; the record |
//! | `append`, `stored`, `keys` | appending; the bytes and names of objects |
//! | `read`, `walk` | following the batches of epochs |
//! | `trim` | removing what is below the log's beginning |
//! | `standing` | announcements of followers |
//! | `probe` | whether the store honours conditions |
//! | `objects`, `simulated` | the S3 store, and one in memory that fails by choice |
//!
//! A crash of the owner leaves batches up to the first that is missing, and perhaps up to three behind it, which nobody
//! reads. A crash amid a takeover leaves a record whose epoch has no segment yet; the next takeover seals the same epoch.

mod append;
mod keys;
mod objects;
mod owner;
mod probe;
mod read;
mod record;
pub mod simulated;
mod standing;
mod stored;
#[cfg(test)]
mod tests;
mod trim;
mod walk;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use objstore_bucket::{Bucket, Location, Options, Patience};
use parking_lot::Mutex;

use self::append::Own;
use self::owner::{Cached, Seen};
use self::standing::Announced;
use self::walk::Known;
use crate::batch::{Batch, Entry, Limit};
use crate::clock::since_boot;
use crate::error::{Error, Result};
use crate::log::{Done, Log};
use crate::owner::{Claim, Epoch, Tail, Tenure};
use crate::standing::Standing;

pub use self::objects::{Objects, Then};

/// A clock that never goes back.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How long a renewal and any other change of the record may take: a small part of a lease.
const RECORD_PATIENCE: Patience = Patience {
    connect: Duration::from_secs(1),
    attempt: Duration::from_millis(1500),
    call: Duration::from_secs(3),
    attempts: 4,
};

/// How long the other requests may take.
const BATCH_PATIENCE: Patience = Patience {
    connect: Duration::from_secs(3),
    attempt: Duration::from_secs(10),
    call: Duration::from_secs(20),
    attempts: 6,
};

/// A client of a log in an S3 store.
pub struct S3 {
    /// Where the log is, for errors.
    place: String,
    /// The requests for the record, which wait for no others.
    records: Arc<dyn Objects>,
    /// All other requests.
    data: Arc<dyn Objects>,
    clock: Clock,
    /// The record as it was read or written last. Held while it is changed.
    cached: Mutex<Option<Cached>>,
    /// Since when this client sees the same revision.
    seen: Mutex<Option<Seen>>,
    own: Arc<Mutex<Option<Own>>>,
    known: Mutex<Option<Known>>,
    /// The announcements that this client saw or made, by server.
    announced: Mutex<HashMap<String, Announced>>,
}

/// The settings of the client: the bucket and how to reach it. The times of [`Options`] are replaced by those of a log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The bucket and prefix, which the log has to itself.
    pub bucket: Options,
}

impl Settings {
    /// The bucket and prefix.
    pub fn location(&self) -> &Location {
        &self.bucket.location
    }
}

impl S3 {
    /// Makes the client, and the log if there is none; makes sure that the store honours conditions.
    ///
    /// # Errors
    /// - [`Error::Unavailable`]: the store does not answer.
    /// - [`Error::Unusable`]: it refuses, ignores conditions, or the prefix has something else or a log of a newer format.
    pub fn open(settings: &Settings) -> Result<Self> {
        let opened = Self::connect(settings)?;
        opened.prepare()?;
        Ok(opened)
    }

    /// Makes the client of a log that exists, and changes nothing: for reading alone.
    ///
    /// # Errors
    /// Those of [`S3::open`], and [`Error::Unusable`] where there is no log.
    pub fn open_existing(settings: &Settings) -> Result<Self> {
        let opened = Self::connect(settings)?;
        opened.record()?;
        Ok(opened)
    }

    fn connect(settings: &Settings) -> Result<Self> {
        let open = |patience| {
            let bucket = Bucket::open(Options { patience, ..settings.bucket.clone() });
            bucket.map(|bucket| -> Arc<dyn Objects> { Arc::new(bucket) }).map_err(unavailable)
        };
        let (records, data) = (open(RECORD_PATIENCE)?, open(BATCH_PATIENCE)?);
        Ok(Self::over(records, data, Arc::new(since_boot), settings.location().to_string()))
    }

    /// The client of a log in other objects than a bucket's, with a clock of the caller's, for tests. `place` names the
    /// objects in errors. Makes the log if there is none.
    ///
    /// # Errors
    /// Those of [`S3::open`].
    pub fn open_in(objects: Arc<dyn Objects>, clock: Clock, place: &str) -> Result<Self> {
        let opened = Self::over(Arc::clone(&objects), objects, clock, place.to_owned());
        opened.prepare()?;
        Ok(opened)
    }

    /// [`S3::open`] with another clock, for tests.
    ///
    /// # Errors
    /// Those of [`S3::open`].
    pub fn open_with(settings: &Settings, clock: Clock) -> Result<Self> {
        let opened = Self { clock, ..Self::connect(settings)? };
        opened.prepare()?;
        Ok(opened)
    }

    fn over(records: Arc<dyn Objects>, data: Arc<dyn Objects>, clock: Clock, place: String) -> Self {
        Self {
            place,
            records,
            data,
            clock,
            cached: Mutex::default(),
            seen: Mutex::default(),
            own: Arc::default(),
            known: Mutex::default(),
            announced: Mutex::default(),
        }
    }
}

/// The error of a call that changes nothing, or that may be made again.
#[expect(clippy::needless_pass_by_value, reason = "it is the argument of `map_err`")]
fn unavailable(error: objstore_bucket::Error) -> Error {
    use objstore_bucket::Error as Bucket;
    let why = error.to_string();
    match error {
        Bucket::Refused { .. } | Bucket::Foreign { .. } | Bucket::Invalid { .. } => Error::Unusable { why },
        Bucket::Missing { .. } | Bucket::Conflict { .. } | Bucket::Unavailable { .. } | Bucket::Damaged { .. } => {
            Error::Unavailable { why }
        }
    }
}

/// The error of a write: without an answer it is unknown whether it was made.
fn unknown(error: objstore_bucket::Error) -> Error {
    indeterminate(unavailable(error))
}

/// The error of several steps of which one may have been made.
fn indeterminate(error: Error) -> Error {
    match error {
        Error::Unavailable { why } => Error::Indeterminate { why },
        other => other,
    }
}

/// Random bytes: an id, or the name of a probe.
fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Unusable { why: format!("no random bytes: {error}") })?;
    Ok(bytes)
}

impl Log for S3 {
    fn fence(&self, claim: &Claim) -> Result<Tenure> {
        self.take_over(claim)
    }

    fn renew(&self, epoch: Epoch) -> Result<()> {
        let mark = self.next_of(epoch);
        self.change(epoch, |record| record.mark = record.mark.max(mark)).map(drop)
    }

    fn release(&self, epoch: Epoch) -> Result<()> {
        let mark = self.next_of(epoch);
        let released = self.change(epoch, |record| {
            record.mark = record.mark.max(mark);
            record.released = true;
        });
        released.map(drop)
    }

    fn append(&self, batch: Batch, done: Done) {
        match batch.check() {
            Ok(()) => self.create(&batch, done),
            Err(error) => done(Err(error)),
        }
    }

    fn read_from(&self, number: u64, limit: Limit) -> Result<Vec<Entry>> {
        self.entries(number, limit)
    }

    fn trim(&self, epoch: Epoch, below: u64) -> Result<()> {
        self.trim_below(epoch, below)
    }

    fn tail(&self) -> Result<Tail> {
        self.end()
    }

    fn announce(&self, server: &str, at: u64) -> Result<()> {
        self.announce_server(server, at)
    }

    fn standing(&self, within: Duration) -> Result<Standing> {
        self.standing_within(within)
    }

    fn drive(&self) -> bool {
        self.data.drive()
    }
}
