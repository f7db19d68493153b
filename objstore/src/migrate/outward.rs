//! From a data folder to PostgreSQL and S3.
//!
//! 1. The store is opened and closed once, as by a server, so that nothing is left of the last server to recover.
//! 2. The log is claimed. Its header says that the store is not complete, and where it comes from.
//! 3. The bucket is claimed, and gets the master key and all content.
//! 4. The records follow.
//! 5. The data folder gets the note that the store was moved; then one transaction makes the store in PostgreSQL valid.
//!
//! A crash before 5 leaves the data folder as it was, and a store that no server opens. A crash within 5 leaves two that no
//! server opens. The next run continues in each case.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::upload::Upload;
use super::{Counts, Options, Phase, Progress, Report, owner, put_header, records, root_created};
use crate::blob::{self, Blobs};
use crate::check;
use crate::disk::{Disk, Lock, RealDisk};
use crate::error::{Error, Result};
use crate::grant::KeyCopies;
use crate::header;
use crate::meta::{Meta, fjall_engine};
use crate::moved;
use crate::record::{FORMAT, Header, MOVED, Moved, UNFINISHED};
use crate::remote::{self, Claimed};
use crate::store;

/// The store in a data folder.
struct Source {
    meta: Meta,
    blobs: Blobs,
    header: Header,
    root_created: i64,
    _lock: Lock,
}

/// Moves the store.
///
/// # Errors
/// [`Error::Unusable`]: a server runs, the folder has no store or one whose content is in a bucket, or the database or the
/// bucket belong to another store. Errors of reading, PostgreSQL and S3 end the move; the next run continues it.
pub fn move_out(options: &Options<'_>) -> Result<Report> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let place = options.content.bucket.location.to_string();
    let noted = moved::read(&*disk, &options.dir)?;
    match &noted {
        Some(other) if *other != place => moved::refuse(&*disk, &options.dir)?,
        Some(_) => {}
        None => settle(options, &disk)?,
    }
    let source = Source::open(options, &disk)?;
    let target = owner::open(options, &options.scratch.join("meta"))?;
    let moved = transfer(options, &disk, &source, &target);
    target.close();
    source.meta.close();
    moved
}

/// Opens and closes the store as a server does.
fn settle(options: &Options<'_>, disk: &Arc<dyn Disk>) -> Result<()> {
    let dir = &options.dir;
    if !disk.exists(&dir.join("meta/version"))? {
        return Err(Error::Unusable { why: format!("{} holds no store: name a data folder", dir.display()) });
    }
    {
        let _lock = disk.lock(&dir.join("lock"))?;
        let meta = Meta::new(fjall_engine::open(&dir.join("meta"), fjall_engine::Options::default())?);
        let place = remote::place(&*meta.snapshot())?;
        meta.close();
        if let Some(place) = place {
            let why = format!(
                "the content of this store is in {} already: only stores whose content is in their data folder can be moved",
                place.location
            );
            return Err(Error::Unusable { why });
        }
    }
    let mut opening = store::Options::new(dir);
    opening.master_key.clone_from(&options.master_key);
    let store = crate::open(opening)?;
    store.close();
    Ok(())
}

impl Source {
    fn open(options: &Options<'_>, disk: &Arc<dyn Disk>) -> Result<Self> {
        let dir = &options.dir;
        let _lock = disk.lock(&dir.join("lock"))?;
        let meta = Meta::new(fjall_engine::open(&dir.join("meta"), fjall_engine::Options::default())?);
        let snapshot = meta.snapshot();
        let header = header::read(&*snapshot)?;
        let header =
            header.ok_or_else(|| Error::Unusable { why: format!("{} holds an empty store", dir.display()) })?;
        header::check_format(&header)?;
        let epoch = header::next_epoch(&*snapshot)?;
        let content = dir.join("content");
        let blobs = Blobs::open(disk.clone(), &content, epoch, meta.poison(), blob::Options::default())?;
        Ok(Self { root_created: root_created(&*snapshot)?, header, meta, blobs, _lock })
    }
}

fn transfer(options: &Options<'_>, disk: &Arc<dyn Disk>, source: &Source, target: &Meta) -> Result<Report> {
    let Some(resumed) = begin(options, disk, source, target)? else {
        return Ok(Report { moved: true, ..Report::default() });
    };
    let bucket = remote::claim(target, options.content.clone(), &*options.random)?;
    bring_key(options, &**disk, &bucket)?;
    let head = header::read(&*target.snapshot())?.unwrap_or_default();
    let counts = Counts::of(&source.meta, options.progress)?;
    let upload = Upload {
        meta: &source.meta,
        blobs: &source.blobs,
        target,
        bucket: bucket.bucket(),
        epoch: head.epoch,
        resumed,
        counts,
        in_parts: Mutex::default(),
    };
    let (mut report, damage) = upload.run()?.report();
    if !damage.is_empty() {
        let named = check::name_damage(source.meta.snapshot(), source.blobs.clone(), damage)?;
        (report.problems, report.unlisted_problems) = named;
        return Ok(report);
    }
    (options.progress)(Progress { phase: Phase::Records, done: 0, total: 0, bytes: 0 });
    report.records = records::copy(&source.meta, target, options.progress)?;
    moved::write(&**disk, &options.dir, &options.content.bucket.location.to_string())?;
    finish(source, target, head)?;
    report.moved = true;
    Ok(report)
}

/// Marks the target as not complete. Returns whether an earlier run had begun; `None` if one has ended.
fn begin(options: &Options<'_>, disk: &Arc<dyn Disk>, source: &Source, target: &Meta) -> Result<Option<bool>> {
    let snapshot = target.snapshot();
    let there = header::read(&*snapshot)?;
    let of_this_store =
        |header: &Header| header.moved.as_ref().is_some_and(|moved| moved.root_created == source.root_created);
    let why = match &there {
        None => return mark(options, source, target, 0).map(|()| Some(false)),
        Some(header) if header.format == UNFINISHED && of_this_store(header) => {
            return mark(options, source, target, header.epoch).map(|()| Some(true));
        }
        Some(header) if header.format == FORMAT && of_this_store(header) => {
            if moved::read(&**disk, &options.dir)?.is_some() {
                return Ok(None);
            }
            "the database has this store already, from an earlier move after which the old copy was taken up again"
        }
        Some(header) if header.format == UNFINISHED => "a move of another store into this database was begun",
        Some(header) if header.format == MOVED => "the database has a store that was moved elsewhere",
        Some(_) => "the database has a store already",
    };
    let why = format!("{why}: name an empty database, and an empty bucket or prefix");
    Err(Error::Unusable { why })
}

/// Writes the header of a store that is not complete. Its epoch is above those of all objects that were sent before.
fn mark(options: &Options<'_>, source: &Source, target: &Meta, before: u32) -> Result<()> {
    let epoch = header::next_epoch(&*source.meta.snapshot())?.max(before.saturating_add(1));
    let place = format!("{} on {}", options.dir.display(), options.host);
    let moved = Some(Moved { place, root_created: source.root_created });
    let header = Header { format: UNFINISHED, epoch, moved, opening: Vec::new(), ..source.header.clone() };
    put_header(target, header)
}

/// Makes the target a store.
fn finish(source: &Source, target: &Meta, head: Header) -> Result<()> {
    put_header(
        target,
        Header { format: FORMAT, epoch: head.epoch, moved: head.moved, opening: Vec::new(), ..source.header.clone() },
    )
}

/// Brings the master key to the bucket, unless a file elsewhere has it.
fn bring_key(options: &Options<'_>, disk: &dyn Disk, bucket: &Claimed) -> Result<()> {
    if options.master_key.is_some() {
        return Ok(());
    }
    let file: &Path = &options.dir.join("master.key");
    KeyCopies::new(Arc::new(bucket.keys())).bring(disk, file)
}
