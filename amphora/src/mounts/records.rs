//! Records of the administrator's mounts in the data folder, for mounts that no holder kept.
//!
//! - One file `DATA_DIR/mounts/NUMBER.json` for each, without secrets: of a key only its id. The CSI node has its own
//!   records.
//! - A record is written after the mount is made and before the request is answered, and removed after the unmount.
//! - An unreadable record is skipped with a warning.
//!
//! A crash after the mount and before its record leaves an unrecorded mount: the next server takes it over from the
//! holder and records it. Without a holder the mount is dead and stays unrecorded. A crash after the unmount and before
//! the removal leaves a record without a mount: the next server removes it, or mounts again if --keep was given.
//! Neither request was answered.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use csi::sealed::{boot_id, seal, unseal};
use objstore::disk::{Disk as _, RealDisk};
use objstore::name::BucketName;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::request::{Look, Origin, Request};

/// The record of a mount. New fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub dir: PathBuf,
    /// The boot in which it was made.
    pub boot_id: String,
    pub bucket: String,
    /// The bucket's id: a later bucket of the same name has another.
    pub bucket_id: u64,
    pub read_only: bool,
    pub prefix: String,
    pub account: Option<String>,
    pub access_key_id: Option<String>,
    pub look: Look,
    /// Mount again at the start of a server.
    pub keep: bool,
}

/// All records of a data folder.
pub(super) struct Records {
    folder: PathBuf,
    disk: RealDisk,
    boot_id: String,
    known: Mutex<BTreeMap<PathBuf, Filed>>,
    /// The highest file number, including unreadable files.
    last: AtomicU64,
}

/// A record and its file number.
struct Filed {
    number: u64,
    record: Record,
}

impl Records {
    /// Reads the records of a data folder. It writes nothing, so that a server can start on a full disk.
    pub fn open(data_dir: &Path) -> objstore::Result<Self> {
        let (folder, disk) = (data_dir.join("mounts"), RealDisk::new());
        let (known, last) = (Mutex::default(), AtomicU64::new(0));
        let records = Self { folder, disk, boot_id: boot_id()?, known, last };
        if records.disk.exists(&records.folder)? {
            records.disk.list(&records.folder)?.iter().for_each(|name| records.load(name));
        }
        Ok(records)
    }

    fn load(&self, name: &str) {
        let Some(number) = name.strip_suffix(".json").and_then(|number| number.parse().ok()) else { return };
        self.last.fetch_max(number, Ordering::Relaxed);
        let file = self.file(number);
        let content = self.disk.read_all(&file).map_err(|error| crate::failure::with_causes(&error));
        match content.and_then(|content| unseal::<Record>(&content)) {
            Ok(record) => drop(self.known.lock().insert(record.dir.clone(), Filed { number, record })),
            Err(why) => tracing::warn!(file = %file.display(), why, "cannot read the record of a mount; it is skipped"),
        }
    }

    /// All records, by directory.
    pub fn all(&self) -> Vec<Record> {
        self.known.lock().values().map(|filed| filed.record.clone()).collect()
    }

    /// The record of a directory.
    pub fn at(&self, dir: &Path) -> Option<Record> {
        self.known.lock().get(dir).map(|filed| filed.record.clone())
    }

    /// Whether a record belongs to the current boot.
    pub fn is_current(&self, record: &Record) -> bool {
        record.boot_id == self.boot_id
    }

    /// Records a mount, replacing the record of its directory. Durable when it returns.
    pub fn put(&self, dir: &Path, request: &Request, bucket_id: u64) -> objstore::Result<()> {
        let record = Record {
            dir: dir.to_owned(),
            boot_id: self.boot_id.clone(),
            bucket: request.bucket.to_string(),
            bucket_id,
            read_only: request.read_only,
            prefix: request.prefix.clone(),
            account: request.account.clone(),
            access_key_id: request.access_key_id.clone(),
            look: request.look.clone(),
            keep: request.keep,
        };
        let mut known = self.known.lock();
        if known.get(dir).is_some_and(|filed| filed.record == record) {
            return Ok(());
        }
        let next = || self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let number = known.get(dir).map_or_else(next, |filed| filed.number);
        if !self.disk.exists(&self.folder)? {
            self.disk.make_dir_all(&self.folder)?;
        }
        self.disk.write_atomic(&self.file(number), seal(&record)?.as_bytes(), 0o600)?;
        known.insert(dir.to_owned(), Filed { number, record });
        Ok(())
    }

    /// Removes the record of a directory, if there is one.
    pub fn remove(&self, dir: &Path) {
        let mut known = self.known.lock();
        let Some(filed) = known.remove(dir) else { return };
        let removed = self.disk.remove(&self.file(filed.number)).and_then(|()| self.disk.sync_dir(&self.folder));
        if let Err(error) = removed {
            let error = crate::failure::with_causes(&error);
            tracing::error!(dir = %dir.display(), error, "cannot remove the record of an ended mount");
        }
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.json"))
    }
}

impl Record {
    /// The request that makes the mount again. `fixed_read_only` is the grant's current state.
    pub fn request(&self, bucket: BucketName, fixed_read_only: bool) -> Request {
        Request {
            bucket,
            read_only: self.read_only,
            fixed_read_only,
            prefix: self.prefix.clone(),
            look: self.look.clone(),
            account: self.account.clone(),
            access_key_id: self.access_key_id.clone(),
            origin: Origin::Admin,
            keep: self.keep,
            remote: None,
        }
    }

    /// The command that makes the mount again.
    pub fn command(&self) -> String {
        let mut options = self.look.options();
        options.extend(self.read_only.then(|| "ro".to_owned()));
        options.extend((!self.prefix.is_empty()).then(|| format!("prefix={}", self.prefix)));
        let mut words = vec!["amphora".to_owned(), "mount".to_owned(), self.bucket.clone(), quoted(&self.dir)];
        if !options.is_empty() {
            words.extend(["-o".to_owned(), quoted(Path::new(&options.join(",")))]);
        }
        if let Some(key) = &self.access_key_id {
            words.push(format!("--credentials FILE-WITH-{key}"));
        }
        words.extend(self.keep.then(|| "--keep".to_owned()));
        words.join(" ")
    }
}

/// A path quoted for a shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:=,@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(keep: bool) -> Request {
        let record = Record {
            dir: PathBuf::new(),
            boot_id: String::new(),
            bucket: "b-1".into(),
            bucket_id: 7,
            read_only: true,
            prefix: "a b".into(),
            account: Some("alice".into()),
            access_key_id: Some("AKEXAMPLE".into()),
            look: Look { uid: Some(5), umask: 0o27, uncached: true, ..Look::default() },
            keep,
        };
        record.request("b-1".parse().expect("a name"), false)
    }

    #[test]
    fn records_are_there_after_a_restart_until_they_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (Path::new("/mnt/one"), Path::new("/mnt/two"));
        let records = Records::open(folder.path()).expect("opened");
        records.put(one, &request(false), 7).expect("written");
        records.put(two, &request(true), 7).expect("written");
        records.put(one, &request(true), 8).expect("replaced");
        let again = Records::open(folder.path()).expect("opened");
        assert_eq!(again.all(), records.all());
        let found = again.at(one).expect("there");
        assert!(found.keep && found.bucket_id == 8 && again.is_current(&found));
        again.remove(one);
        again.remove(one);
        let last = Records::open(folder.path()).expect("opened").all();
        assert_eq!(last.iter().map(|record| record.dir.as_path()).collect::<Vec<_>>(), [two]);
        for file in std::fs::read_dir(folder.path().join("mounts")).expect("listed").flatten() {
            use std::os::unix::fs::MetadataExt as _;
            assert_eq!(file.metadata().expect("there").mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_record_shows_nothing_and_harms_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::open(folder.path()).expect("opened");
        records.put(Path::new("/mnt/one"), &request(true), 7).expect("written");
        records.put(Path::new("/mnt/two"), &request(true), 7).expect("written");
        let file = folder.path().join("mounts/1.json");
        let damaged = std::fs::read_to_string(&file).expect("read").replace("/mnt/one", "/mnt/etc");
        std::fs::write(&file, &damaged).expect("damaged");
        std::fs::write(folder.path().join("mounts/note"), "not a record").expect("written");
        let again = Records::open(folder.path()).expect("opened");
        assert_eq!(again.all().len(), 1);
        again.put(Path::new("/mnt/three"), &request(true), 7).expect("written");
        assert_eq!(
            std::fs::read_to_string(&file).expect("read"),
            damaged,
            "the unreadable file is kept for examination"
        );
    }

    #[test]
    fn the_command_that_makes_a_mount_again_can_be_pasted() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::open(folder.path()).expect("opened");
        records.put(Path::new("/mnt/it's"), &request(true), 7).expect("written");
        let command = records.all()[0].command();
        let expected = r"amphora mount b-1 '/mnt/it'\''s' -o 'uid=5,umask=27,cache=off,ro,prefix=a b' \
            --credentials FILE-WITH-AKEXAMPLE --keep";
        assert_eq!(command, expected.replace("\\\n            ", ""));
    }
}
