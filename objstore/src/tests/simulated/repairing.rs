//! `amphora check --repair` on a disk left by a crash, and on one that was damaged afterwards.
//!
//! - A crash leaves a consistent store: a repair has nothing to do there, and may itself be killed.
//! - On a damaged disk, everything that could be read before can be read after, and every name exists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use objstore_testing::simulated::{Amount, Death, SimulatedDisk};

use super::content::End;
use super::process::{Machine, Process, check_on};
use crate::check;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::store::*;
use crate::tests::random::Choices;
use crate::tests::test_store::key;

/// A process that repairs the store, and perhaps dies of it; the disk it leaves, and how it ended.
pub(super) fn after_crash(
    disk: &SimulatedDisk,
    choices: &mut Choices,
) -> std::result::Result<(SimulatedDisk, End), String> {
    disk.dies_at(choices.once_in(2).then(|| death(choices, 8)));
    let options = check::Options { repair: true, ..check::Options::default() };
    match check_on(disk, &options) {
        _ if disk.is_dead() => {}
        Err(Error::Unusable { .. }) => {}
        Err(error) => return Err(format!("it cannot be repaired: {error}")),
        Ok(report) if !report.repaired.is_empty() => {
            return Err(format!("a crash left what a repair mends: {}", report.repaired.join("; ")));
        }
        Ok(report) if !report.clean() => return Err(format!("a repair leaves: {}", report.problems.join("; "))),
        Ok(_) => {}
    }
    disk.dies();
    match choices.once_in(2) {
        true => Ok((disk.after_kill(), End::Kill)),
        false => Ok((disk.after_power_cut(choices), End::PowerCut)),
    }
}

/// Damages a file of a store that is closed, repairs the store, and compares all that was whole.
pub(super) fn after_damage(
    machine: &Machine,
    disk: &SimulatedDisk,
    choices: &mut Choices,
) -> std::result::Result<(), String> {
    let (whole, hurt) = (disk.after_kill(), disk.after_kill());
    let Some(file) = damage(&hurt, choices).map_err(|error| error.to_string())? else { return Ok(()) };
    let read = |disk: SimulatedDisk| readable(Process::open(machine.clone(), disk)?);
    let named = read(whole).map_err(|error| error.to_string())?;
    // A store that does not open shows nothing; all its names are to be there after the repair.
    let before = read(hurt.after_kill()).unwrap_or_else(|_| named.keys().map(|of| (of.clone(), None)).collect());
    let (hurt, report) = repaired(hurt, choices).map_err(|error| format!("{file}: it cannot be repaired: {error}"))?;
    if !report.clean() && report.repaired.is_empty() && report.problems.is_empty() {
        return Err(format!("{file}: it is neither clean nor repaired, and no problem is reported"));
    }
    let after = read(hurt.after_kill()).map_err(|error| format!("{file}: it does not open after a repair: {error}"))?;
    if !after.keys().eq(named.keys()) {
        return Err(format!("{file}: a repair leaves {:?} of {:?}", after.keys(), named.keys()));
    }
    let lost = before.iter().find(|(of, bytes)| bytes.is_some() && after[*of] != **bytes);
    lost.map_or(Ok(()), |(of, _)| Err(format!("{file}: a repair loses {of:?}, which was whole")))
}

/// Repairs a store by processes of which all but the last die of it.
fn repaired(mut hurt: SimulatedDisk, choices: &mut Choices) -> Result<(SimulatedDisk, check::Report)> {
    let options = check::Options { repair: true, ..check::Options::default() };
    loop {
        hurt.dies_at(choices.once_in(2).then(|| death(choices, 40)));
        let report = check_on(&hurt, &options);
        if !hurt.is_dead() {
            return report.map(|report| (hurt, report));
        }
        hurt = if choices.once_in(3) { hurt.after_kill() } else { hurt.after_power_cut(choices) };
    }
}

/// A death within so many calls.
fn death(choices: &mut Choices, calls: u64) -> Death {
    Death { call: 1 + choices.below_u64(calls), done: *choices.of(&[Amount::None, Amount::Some, Amount::All]) }
}

/// Flips a byte of a file of content, cuts it or removes it; which.
fn damage(disk: &SimulatedDisk, choices: &mut Choices) -> Result<Option<String>> {
    let mut files = Vec::new();
    for folder in ["/store/content/segments", "/store/content/blobs"] {
        below(disk, Path::new(folder), &mut files)?;
    }
    if files.is_empty() {
        return Ok(None);
    }
    let path = choices.of(&files).clone();
    let file = disk.open(&path)?;
    let len = file.len()?;
    let how = match choices.below(3) {
        0 => {
            drop(file);
            disk.remove(&path)?;
            "removed".to_owned()
        }
        1 if len > 0 => {
            let at = choices.below_u64(len);
            file.set_len(at)?;
            format!("cut at {at} of {len}")
        }
        _ if len > 0 => {
            let (at, mut byte) = (choices.below_u64(len), [0]);
            file.read_at(&mut byte, at)?;
            file.write_at(&[byte[0] ^ 0x10], at)?;
            format!("flipped at {at} of {len}")
        }
        _ => return Ok(None),
    };
    // A power cut while it is repaired does not take the damage back.
    disk.sync_everything(Path::new("/store"))?;
    Ok(Some(format!("{} {how}", path.display())))
}

fn below(disk: &SimulatedDisk, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !disk.exists(folder)? {
        return Ok(());
    }
    for name in disk.list(folder)? {
        let path = folder.join(name);
        if disk.open(&path).is_ok() { files.push(path) } else { below(disk, &path, files)? }
    }
    Ok(())
}

/// Bucket, key and version, with the content if that can be read; of a delete marker nothing.
pub(super) type Readable = BTreeMap<(String, String, String), Option<Vec<u8>>>;

/// All there is, and what of it can be read; the process ends.
pub(super) fn readable(process: Process) -> Result<Readable> {
    let (store, all) = (process.store.clone(), List { limit: usize::MAX, ..List::default() });
    let buckets = store.buckets(None, usize::MAX)?.into_iter().map(|bucket| bucket.name);
    let snapshots = store.snapshots(None, None, usize::MAX)?.into_iter().map(|snapshot| snapshot.name.parse());
    let mut found = Readable::new();
    for bucket in buckets.map(Ok).chain(snapshots) {
        let bucket = bucket?;
        let request = ListVersions { list: all.clone(), after_version: None };
        for VersionInfo { object, .. } in store.list_versions(&bucket, &request)?.versions {
            let (id, of) = (object.version.clone(), key(&object.key));
            let bytes = store
                .open_object(&bucket, &of, id.as_deref())
                .and_then(|(info, reader)| reader.read(0, info.size as usize).map(|bytes| bytes.to_vec()));
            found.insert((bucket.to_string(), object.key, id.unwrap_or_default()), bytes.ok());
        }
    }
    process.close();
    Ok(found)
}
