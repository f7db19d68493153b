//! Creates files and folders under new names, and syncs them or their folder.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, linkat, openat};

use super::{Program, Promises, sync_path};
use crate::support::Rng;

/// What a sync has promised of a name.
enum Promise {
    /// A file with this content.
    Whole(Vec<u8>),
    /// A file whose content was never synced.
    There,
    /// A folder.
    Folder,
    /// A symbolic link to this target.
    Link(String),
    /// No file any more.
    Gone,
}

/// The names that were promised since the last power cut.
#[derive(Default)]
pub struct CreatedFiles {
    last: u64,
    promised: Vec<(String, Promise)>,
}

impl CreatedFiles {
    fn make(&mut self, dir: &Path, rng: &mut Rng) -> Result<Promise> {
        let path = dir.join(self.last.to_string());
        let longest = *rng.pick(&[100, 12_000, 300_000]);
        let len = 1 + rng.below(longest);
        let content = rng.bytes(len);
        match rng.below(6) {
            0..2 => {
                let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
                file.write_all(&content)?;
                fsync(&file)?;
                Ok(Promise::Whole(content))
            }
            2 => {
                std::fs::write(&path, &content)?;
                sync_path(dir)?;
                Ok(Promise::There)
            }
            3 => {
                std::fs::create_dir(&path)?;
                sync_path(if rng.chance(50) { dir } else { &path })?;
                Ok(Promise::Folder)
            }
            4 => {
                std::os::unix::fs::symlink("somewhere", &path)?;
                sync_path(dir)?;
                Ok(Promise::Link("somewhere".to_owned()))
            }
            _ => {
                let made =
                    openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
                let mut file = File::from(made);
                file.write_all(&content)?;
                let open = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                linkat(CWD, open, CWD, &path, AtFlags::SYMLINK_FOLLOW)?;
                fsync(&file)?;
                Ok(Promise::Whole(content))
            }
        }
    }

    /// Deletes one of the files that were promised.
    fn delete(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        let at = rng.below(self.promised.len());
        if let (name, promise @ (Promise::Whole(_) | Promise::There)) = &mut self.promised[at] {
            // Until the sync the name may exist or not.
            let (name, before) = (name.clone(), std::mem::replace(promise, Promise::Gone));
            drop(before);
            let name_path = dir.join(name);
            let removed =
                std::fs::remove_file(&name_path).and_then(|()| sync_path(dir)).and_then(|()| promises.count());
            return removed.inspect_err(|_| drop(self.promised.remove(at)));
        }
        Ok(())
    }
}

impl Program for CreatedFiles {
    fn name(&self) -> &'static str {
        "made"
    }

    fn begin(&mut self, dir: &Path) -> Result<()> {
        sync_path(dir)
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        loop {
            self.last += 1;
            let promise = self.make(dir, rng)?;
            promises.count()?;
            self.promised.push((self.last.to_string(), promise));
            if rng.chance(20) {
                self.delete(dir, rng, promises)?;
            }
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        for (name, promise) in self.promised.drain(..) {
            let path = dir.join(&name);
            let kind = path.symlink_metadata().map(|found| found.file_type());
            let kept = match (&promise, &kind) {
                (Promise::Whole(content), Ok(kind)) => {
                    kind.is_file() && std::fs::read(&path).expect("the file is read") == *content
                }
                (Promise::There, Ok(kind)) => kind.is_file(),
                (Promise::Folder, Ok(kind)) => kind.is_dir(),
                (Promise::Link(target), Ok(_)) => std::fs::read_link(&path).is_ok_and(|seen| seen == Path::new(target)),
                (Promise::Gone, found) => found.is_err(),
                (_, Err(_)) => false,
            };
            let what = match promise {
                Promise::Whole(content) => format!("a file of {} bytes", content.len()),
                Promise::There => "a file".to_owned(),
                Promise::Folder => "a folder".to_owned(),
                Promise::Link(_) => "a link".to_owned(),
                Promise::Gone => "nothing".to_owned(),
            };
            assert!(kept, "cycle {cycle}: {name} was promised to be {what}, and is {kind:?}");
        }
        // All names were compared, or were not promised. The next cycle begins with an empty folder.
        for entry in std::fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let removed = if path.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) };
            removed.expect("removed");
        }
    }
}
