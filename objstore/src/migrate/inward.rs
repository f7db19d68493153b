//! From PostgreSQL and S3 to a data folder.
//!
//! 1. The log is claimed, on a copy in the data folder: no server can take the store meanwhile.
//! 2. All content and the master key are fetched into the folder, and synced.
//! 3. One transaction marks the store in PostgreSQL as moved: no server opens it any more.
//! 4. The copy becomes a store without a log; the records that say where content is in the bucket are removed, with the
//!    header of a valid store last.
//!
//! A crash before 3 leaves the store where it was. A crash after it leaves a folder that no server opens, and the next run
//! continues with 4.

use std::path::Path;
use std::sync::Arc;

use super::download::Download;
use super::{Counts, Options, Report, owner, put_header, records, root_created};
use crate::blob::{self, Blobs};
use crate::bucket::Bucket;
use crate::check;
use crate::disk::{Disk, Poison, RealDisk};
use crate::error::{Error, Result};
use crate::grant::KeyCopies;
use crate::header;
use crate::meta::{Durability, Meta, fjall_engine};
use crate::moved;
use crate::record::key;
use crate::record::{FORMAT, Header, MOVED, Moved, key::tag};
use crate::remote::{BucketVault, open_blobs_reading, open_reading};
use crate::store::check_folder;

/// The folder for content that was read, below the data folder.
const READ: &str = "migration";

/// Moves the store.
///
/// # Errors
/// [`Error::Unusable`]: a server runs, there is no store, or the folder has another one. Errors of writing, PostgreSQL and
/// S3 end the move; the next run continues it.
pub fn move_in(options: &Options<'_>) -> Result<Report> {
    let (disk, dir): (Arc<dyn Disk>, &Path) = (Arc::new(RealDisk::new()), &options.dir);
    check_folder(dir)?;
    moved::refuse(&*disk, dir)?;
    disk.make_dir_all(dir)?;
    let _lock = disk.lock(&dir.join("lock"))?;
    let mut report = Report::default();
    if !is_marked(&*disk, dir)? {
        let meta = owner::open(options, &dir.join("meta"))?;
        let fetched = fetch(options, &disk, &meta);
        // Everything that the copy has is also in the log.
        meta.close();
        drop(meta);
        report = fetched?;
        if !report.problems.is_empty() {
            return Ok(report);
        }
        disk.sync_everything(dir)?;
        fjall_engine::detach(&dir.join("meta"), fjall_engine::Options::default())?;
    }
    finish(options, &*disk, dir)?;
    report.moved = true;
    Ok(report)
}

/// Whether the folder has a store without a log that is not complete.
///
/// # Errors
/// [`Error::Unusable`] if it is complete: there is nothing to move.
fn is_marked(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    let folder = dir.join("meta");
    if !disk.exists(&folder.join("version"))? {
        return Ok(false);
    }
    let meta = match fjall_engine::open(&folder, fjall_engine::Options::default()) {
        // A copy with a log.
        Err(Error::Unusable { .. }) => return Ok(false),
        opened => Meta::new(opened?),
    };
    let header = header::read(&*meta.snapshot())?;
    meta.close();
    match header {
        Some(header) if header.format == MOVED => Ok(true),
        Some(_) => {
            let why = format!("{} has a store already: name an empty folder, or one that is absent", dir.display());
            Err(Error::Unusable { why })
        }
        None => Ok(false),
    }
}

/// Fetches all content, and marks the store in the log as moved.
fn fetch(options: &Options<'_>, disk: &Arc<dyn Disk>, meta: &Meta) -> Result<Report> {
    let snapshot = meta.snapshot();
    let empty = || Error::Unusable { why: "the database has no store: no server has opened one there".into() };
    let head = header::read(&*snapshot)?.ok_or_else(empty)?;
    let here = format!("{} on {}", options.dir.display(), options.host);
    let marked = head.format == MOVED && head.moved.as_ref().is_some_and(|moved| moved.place == here);
    if !marked {
        header::check_format(&head)?;
    }
    let bucket = open_reading(&*snapshot, options.content.clone())?;
    let report = copy(options, disk, meta, &bucket)?;
    if !report.problems.is_empty() || marked {
        return Ok(report);
    }
    if options.master_key.is_none() {
        let copies = KeyCopies::new(Arc::new(BucketVault::of_keys(bucket)));
        let files = ["master.key", "master.key.next"].map(|name| options.dir.join(name));
        copies.fetch(&**disk, (&files[0], &files[1]), || None)?;
    }
    // Nothing may be missing here once the store is no longer valid there.
    disk.sync_everything(&options.dir)?;
    let moved = Some(Moved { place: here, root_created: root_created(&*snapshot)? });
    put_header(meta, Header { format: MOVED, moved, ..head }).map(|()| report)
}

/// Fetches all content.
fn copy(options: &Options<'_>, disk: &Arc<dyn Disk>, meta: &Meta, bucket: &Bucket) -> Result<Report> {
    let read = options.dir.join(READ);
    remove_read(&read)?;
    let snapshot = meta.snapshot();
    let epoch = header::next_epoch(&*snapshot)?;
    let remote = open_blobs_reading(meta, disk, &read, bucket, options.content.cache_bytes)?;
    let content = options.dir.join("content");
    let local = Blobs::open(disk.clone(), &content, epoch, Poison::default(), blob::Options::default())?;
    let download = Download { meta, remote: &remote, local: &local, counts: Counts::of(meta, options.progress)? };
    let (mut report, damage) = download.run()?.report();
    local.sync_dirty()?;
    if !damage.is_empty() {
        (report.problems, report.unlisted_problems) = check::name_damage(snapshot, local, damage)?;
    }
    drop(remote);
    remove_read(&read)?;
    Ok(report)
}

fn remove_read(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("removing {}", folder.display()), error))
        }
        _ => Ok(()),
    }
}

/// Makes the folder a store of its own.
fn finish(options: &Options<'_>, disk: &dyn Disk, dir: &Path) -> Result<()> {
    let meta = Meta::new(fjall_engine::open(&dir.join("meta"), fjall_engine::Options::default())?);
    records::remove_all(&meta, tag::PLACED)?;
    let place = options.content.bucket.location.to_string();
    let written = meta.write(Durability::Synced, move |txn| {
        let header = header::read(&*txn)?.unwrap_or_default();
        let moved = header.moved.map(|moved| Moved { place, ..moved });
        header::put(txn, &Header { format: FORMAT, opening: Vec::new(), moved, ..header });
        txn.delete(key::content());
        Ok(())
    });
    let written = written.wait();
    meta.close();
    written?;
    disk.sync_everything(dir)
}
