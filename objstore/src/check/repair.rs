//! `amphora check --repair`: rewrites what follows from other records, and quarantines the rest.
//!
//! - Counts, usage and numbers follow from other records. What is unreadable or does not match its checksum does not:
//!   it is quarantined and listed, and its owner deletes or uploads it again. Nothing is guessed and nothing dropped.
//! - Each step is one transaction that checks again whether it is needed, so an interrupted repair can be run again.
//! - Names and inodes come first, then counts, then content, because each follows from the one before. After each round
//!   everything is checked again, until nothing is left to do. Finally the owners of quarantined content are recorded
//!   with it.
//!
//! A crash leaves whole steps, and possibly a copy of a segment in `quarantine/` that is written again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prost::Message;

use super::fix::{Fix, Seat};
use super::tree_repair::{TreeRepair, put_stub};
use super::{Checked, Options, Phase, Progress, Report, affected};
use crate::blob::{BlobId, Blobs};
use crate::clock::Timestamp;
use crate::content::{move_packed, release};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::meta::{Durability, Meta, Txn};
use crate::record::blob::{Blob, PackedAt};
use crate::record::bucket::Usage;
use crate::record::damage::Damaged;
use crate::record::decode;
use crate::record::key::{self, tag};

/// The most rounds; problems left after them are only listed.
const ROUNDS_MAX: usize = 16;
/// The folder for damaged segments.
pub(super) const QUARANTINE: &str = "quarantine";

/// A repair in progress.
pub(super) struct Repair<'a> {
    pub(super) meta: &'a Meta,
    pub(super) blobs: &'a Blobs,
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) dir: &'a Path,
    pub(super) now: Timestamp,
    options: &'a Options<'a>,
    done: Report,
    /// The positions of packed blobs, read when first needed.
    packed: Option<HashMap<u64, (PackedAt, u64)>>,
}

/// Checks and repairs a store; the report describes its state afterwards.
pub(super) fn run(
    meta: &Meta,
    blobs: &Blobs,
    (disk, dir): (&Arc<dyn Disk>, &Path),
    now: Timestamp,
    options: &Options<'_>,
) -> Result<Report> {
    meta.sync().wait()?;
    blobs.set_synced_batch(Arc::new(AtomicU64::new(meta.synced_batch())));
    let mut repair = Repair { meta, blobs, disk, dir, now, options, done: Report::default(), packed: None };
    repair.rounds()?;
    let mut verified = None;
    if options.content {
        let checked = repair.checked();
        let mut found = Report::default();
        checked.check(&mut found)?;
        checked.fixes.take();
        checked.check_content(true, &mut found)?;
        verified = Some(found);
        if repair.apply(&checked)? {
            repair.rounds()?;
        }
    }
    repair.name_owners()?;
    meta.sync().wait()?;
    let checked = repair.checked();
    let mut report = Report::default();
    checked.check(&mut report)?;
    checked.check_seals(disk, options.key_place(dir), &mut report)?;
    checked.check_content(false, &mut report)?;
    if let Some(found) = verified {
        (report.verified_bytes, report.unnamed_files) = (found.verified_bytes, found.unnamed_files);
    }
    (report.repaired, report.unlisted_repairs) = (repair.done.repaired, repair.done.unlisted_repairs);
    Ok(report)
}

impl<'a> Repair<'a> {
    fn checked(&self) -> Checked<'a> {
        Checked::new(self.meta.snapshot(), self.blobs.clone(), self.options.progress)
    }

    /// Repairs records until nothing is left to do.
    fn rounds(&mut self) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            let checked = self.checked();
            checked.check(&mut Report::default())?;
            checked.check_seals(self.disk, self.options.key_place(self.dir), &mut Report::default())?;
            if !self.apply(&checked)? {
                break;
            }
        }
        Ok(())
    }

    /// Carries out the fixes of a check. Returns whether anything was changed.
    fn apply(&mut self, checked: &Checked<'_>) -> Result<bool> {
        let (first, then): (Vec<Fix>, Vec<Fix>) = checked.fixes.take().into_iter().partition(Fix::is_structural);
        Ok(self.carry_out_all(first)? || self.carry_out_all(then)?)
    }

    fn carry_out_all(&mut self, fixes: Vec<Fix>) -> Result<bool> {
        let (mut changed, total) = (false, fixes.len() as u64);
        for (done, fix) in (0..).zip(fixes) {
            (self.options.progress)(Progress { phase: Phase::Repair, done, total });
            if let Some(line) = self.carry_out(fix)? {
                self.done.repaired(line);
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Carries out one fix. Returns what was done, if it was necessary.
    fn carry_out(&mut self, fix: Fix) -> Result<Option<String>> {
        match fix {
            Fix::Record { key, value, done } => self.record(key, value, done),
            Fix::References { blob, refs } => self.references(blob, refs),
            Fix::MissingBlob { blob, refs } => self.missing_blob(blob, refs),
            Fix::Orphan { blob } => self.orphan(blob),
            Fix::Usage { tree, held, uploads } => self.usage(tree, held, uploads),
            Fix::Counts { tree, ino, counts } => {
                let line = format!("{}: inode {ino}: counts corrected", tree.what);
                self.repair(tree, line, move |repair| repair.recount(ino, counts))
            }
            Fix::Reach { tree, ino, length } => {
                let line = format!("{}: inode {ino} has a bound of the paths below it again", tree.what);
                self.repair(tree, line, move |repair| repair.reach_to(ino, length))
            }
            Fix::Shown { tree, ino } => {
                let line = format!("{}: inode {ino}: its attributes in listings were corrected", tree.what);
                self.repair(tree, line, move |repair| repair.hide(ino))
            }
            Fix::Unreadable { key, tree, ino, why } => {
                let line = format!("{}: inode {ino} cannot be read", tree.what);
                self.stand_in(tree, &line, Some(key), ino, why)
            }
            Fix::NoInode { tree, ino } => {
                let line = format!("{}: inode {ino} is missing", tree.what);
                let why = format!("inode {ino} is missing");
                self.stand_in(tree, &line, None, ino, why)
            }
            Fix::NoName { tree, ino } => {
                let line = format!("{}: inode {ino} without a name is \"lost+found/{ino}\" now", tree.what);
                self.repair(tree, line, move |repair| repair.find_again(ino))
            }
            Fix::Aside { key, was, value, done } => self.quarantine_record(key, &was, value, &done),
            Fix::Name { key, tree, parent, sort_name } => {
                let why = "the record of its name cannot be read";
                self.relink(tree, key, move |repair, key| repair.name_again(key, parent, &sort_name, why))
            }
            Fix::Version { key, tree, name, order } => {
                let why = "the record of the version cannot be read";
                self.relink(tree, key, move |repair, key| repair.version_again(key, &name, order, why))
            }
            Fix::Extent { key, why } => self.extent(key, why),
            Fix::Unseen { key, why } => self.unseen(key, why),
            Fix::Found(found) => self.found(found),
            Fix::Content { blob, why } => self.quarantine(blob, why),
            Fix::Segment { segment, why } => self.segment(segment, &why),
        }
    }

    /// Relinks a name or version whose record is unreadable; the record is first copied to a file.
    fn relink(
        &self,
        tree: Seat,
        at: Vec<u8>,
        change: impl FnOnce(&mut TreeRepair<'_>, &[u8]) -> Result<Option<String>> + Send + 'static,
    ) -> Result<Option<String>> {
        let Some(was) = self.meta.snapshot().get(&at)? else { return Ok(None) };
        let (blobs, now, what) = (self.blobs.clone(), self.now, tree.what.clone());
        let file = self.keep(&at, &was)?;
        let done = self.write(move |txn| change(&mut TreeRepair::begin(txn, &blobs, now, &tree)?, &at))?;
        Ok(done.map(|done| format!("{what}: {done}; the record is {file} now")))
    }

    fn repair(
        &self,
        tree: Seat,
        line: String,
        change: impl FnOnce(&mut TreeRepair<'_>) -> Result<bool> + Send + 'static,
    ) -> Result<Option<String>> {
        let (blobs, now) = (self.blobs.clone(), self.now);
        let done = self.write(move |txn| change(&mut TreeRepair::begin(txn, &blobs, now, &tree)?))?;
        Ok(done.then_some(line))
    }

    fn stand_in(
        &self,
        tree: Seat,
        line: &str,
        unreadable: Option<Vec<u8>>,
        ino: u64,
        why: String,
    ) -> Result<Option<String>> {
        let (blobs, now) = (self.blobs.clone(), self.now);
        let done = self
            .write(move |txn| TreeRepair::begin(txn, &blobs, now, &tree)?.stand_in(unreadable.as_deref(), ino, &why))?;
        Ok(done.map(|done| format!("{line}: {done}")))
    }

    pub(super) fn write<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.meta.write(Durability::Buffered, f).wait()
    }

    fn record(&self, key: Vec<u8>, value: Option<Vec<u8>>, done: String) -> Result<Option<String>> {
        let changed = self.write(move |txn| {
            if txn.get(&key)?.as_deref() == value.as_deref() {
                return Ok(false);
            }
            match value {
                Some(value) => txn.put(key, value),
                None => txn.delete(key),
            }
            Ok(true)
        })?;
        Ok(changed.then_some(done))
    }

    fn references(&self, id: u64, refs: u32) -> Result<Option<String>> {
        self.write(move |txn| {
            let blob = Blob { refs, ..crate::content::blob_record(&*txn, id)? };
            txn.put(key::by_id(tag::BLOB, id), blob.encode_to_vec());
            Ok(Some(format!("blob {id:016x}: it counts {refs} references")))
        })
    }

    fn orphan(&self, id: u64) -> Result<Option<String>> {
        self.write(move |txn| {
            let blob = Blob { refs: 1, ..crate::content::blob_record(&*txn, id)? };
            txn.put(key::by_id(tag::BLOB, id), blob.encode_to_vec());
            release(txn, id)?;
            Ok(Some(format!("blob {id:016x}: unreferenced, its space is freed")))
        })
    }

    fn usage(&self, tree: Seat, held: Option<Usage>, uploads: Option<u64>) -> Result<Option<String>> {
        self.write(move |txn| {
            let at = key::of_branch(tag::USAGE, tree.clone_group, tree.branch);
            let value = txn.get(&at)?;
            let usage = value.and_then(|value| decode::<Usage>("usage", &value).ok());
            let mut usage = usage.unwrap_or(Usage::EMPTY);
            if let Some(held) = held {
                usage = Usage { upload_bytes: usage.upload_bytes, ..held };
            }
            usage.upload_bytes = uploads.unwrap_or(usage.upload_bytes);
            txn.put(at, usage.encode_to_vec());
            let Usage { bytes, inodes, upload_bytes, objects, hidden, .. } = usage;
            let what = tree.what;
            Ok(Some(format!(
                "{what}: usage set to {bytes} bytes in {inodes} inodes, {objects} objects of which mounts hide {hidden}, and {upload_bytes} bytes of uploads"
            )))
        })
    }

    /// Finds the content of a blob without a record: its file or its position in a segment. If there is neither,
    /// creates a stub.
    fn missing_blob(&mut self, id: u64, refs: u32) -> Result<Option<String>> {
        let found = self.find_blob(id)?;
        let now = self.now;
        self.write(move |txn| {
            Ok(Some(match found {
                Some(blob) => {
                    txn.put(key::by_id(tag::BLOB, id), Blob { refs, ..blob }.encode_to_vec());
                    format!("blob {id:016x}: its record was created again")
                }
                None => {
                    put_stub(txn, id, refs, "its content is missing", (now, Vec::new()));
                    format!("blob {id:016x}: its content is missing, and its references were quarantined")
                }
            }))
        })
    }

    fn find_blob(&mut self, id: u64) -> Result<Option<Blob>> {
        match self.blobs.file(BlobId(id)) {
            // It counts as having checksums even if some are missing: reading those parts is an error.
            Ok(file) if self.has_sums(id)? => Ok(Some(Blob { refs: 0, length: file.len()?, packed: None, sums: true })),
            Ok(_) => Ok(Some(Blob { refs: 0, length: 0, packed: None, sums: false })),
            Err(Error::Corrupt { .. }) => {
                let packed = self.packed()?.get(&id);
                Ok(packed.map(|(at, length)| Blob { refs: 0, length: *length, packed: Some(*at), sums: false }))
            }
            Err(error) => Err(error),
        }
    }

    fn has_sums(&self, id: u64) -> Result<bool> {
        let prefix = key::sums_of(id);
        Ok(!self.meta.snapshot().scan(&prefix, &key::after_prefix(&prefix), 1)?.is_empty())
    }

    /// The positions of all packed blobs; the last position of each, if it was moved.
    fn packed(&mut self) -> Result<&HashMap<u64, (PackedAt, u64)>> {
        if self.packed.is_none() {
            let mut all = HashMap::new();
            for info in self.blobs.segments()? {
                let Ok(records) = self.blobs.scan_segment(info.id) else { continue };
                for record in records {
                    let at = PackedAt { segment: info.id, offset: record.offset };
                    all.insert(record.id.0, (at, record.length));
                }
            }
            self.packed = Some(all);
        }
        Ok(self.packed.get_or_insert_default())
    }

    /// Records that a blob is damaged. Its bytes stay, and reading it answers an error.
    fn quarantine(&self, id: u64, why: String) -> Result<Option<String>> {
        let found = self.now.0;
        self.write(move |txn| {
            let at = key::by_id(tag::DAMAGED, id);
            if txn.get(&at)?.is_some() {
                return Ok(None);
            }
            let line = format!("blob {id:016x}: quarantined ({why})");
            txn.put(at, Damaged { found, why, quarantine: Vec::new(), who: Vec::new() }.encode_to_vec());
            Ok(Some(line))
        })
    }

    /// Records the owners of quarantined content: a server that opens the store later lists them.
    fn name_owners(&self) -> Result<()> {
        for (id, who) in affected::unnamed(&self.checked())? {
            self.write(move |txn| {
                let at = key::by_id(tag::DAMAGED, id);
                let Some(value) = txn.get(&at)? else { return Ok(()) };
                let damaged: Damaged = decode("quarantined content", &value)?;
                txn.put(at, Damaged { who, ..damaged }.encode_to_vec());
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Moves the intact blobs of a damaged segment to another, and the segment to the quarantine.
    fn segment(&mut self, segment: u64, why: &str) -> Result<Option<String>> {
        let (mut moved, mut lost) = (0_u64, 0_u64);
        for (id, blob, at) in self.simulated_in(segment)? {
            match self.blobs.read_packed(BlobId(id), at.segment, at.offset, blob.length) {
                Ok(data) => {
                    let there = self.blobs.append(BlobId(id), data).wait()?;
                    let there = PackedAt { segment: there.segment, offset: there.offset };
                    self.write(move |txn| move_packed(txn, id, &blob, there))?;
                    moved += 1;
                }
                Err(error @ Error::Corrupt { .. }) => {
                    self.quarantine(id, error.to_string())?;
                    lost += 1;
                }
                Err(error) => return Err(error),
            }
        }
        self.meta.sync().wait()?;
        let quarantine = self.move_to_quarantine(segment)?;
        if lost == 0 {
            self.write(move |txn| {
                txn.delete(key::by_id(tag::SEGMENT, segment));
                Ok(())
            })?;
        }
        Ok(Some(format!(
            "{why}: {moved} blobs moved to another segment, {lost} quarantined; the file is {quarantine} now"
        )))
    }

    fn simulated_in(&self, segment: u64) -> Result<Vec<(u64, Blob, PackedAt)>> {
        let mut simulated = Vec::new();
        self.checked().each(&[tag::BLOB], |pair| {
            let blob: Blob = decode("a blob", &pair.value)?;
            if let Some((id, at)) = key::u64_at(&pair.key, 1).zip(blob.packed)
                && at.segment == segment
            {
                simulated.push((id, blob, at));
            }
            Ok(())
        })?;
        Ok(simulated)
    }

    /// The copy is on disk before the segment is removed.
    fn move_to_quarantine(&self, segment: u64) -> Result<String> {
        let name = format!("{segment:016x}.seg");
        let quarantine = self.dir.join(QUARANTINE);
        self.disk.make_dir_all(&quarantine)?;
        let content = self.disk.read_all(&self.dir.join("content").join("segments").join(&name))?;
        self.disk.write_atomic(&quarantine.join(&name), &content, 0o600)?;
        self.blobs.remove_segment(segment)?;
        Ok(format!("{QUARANTINE}/{name}"))
    }
}
