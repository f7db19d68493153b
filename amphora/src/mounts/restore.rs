//! Recorded mounts that no process kept: those with --keep are made again, the others are reported as lost.
//!
//! - A mount is lost if its server and its holder ended together: its programs get ENOTCONN. A missing mount was
//!   unmounted while no server ran, or ended with the machine: its record is removed.
//! - A restored mount has no more access than before: its key still has to exist, with a grant, and the bucket has to
//!   be the same, not another of that name.
//! - A failure here never keeps the server from starting.

use std::path::PathBuf;

use fuse::MountpointState;
use objstore::name::BucketName;

use super::records::Record;
use super::{Access, Error, Table};

/// A recorded mount that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostMount {
    /// The bucket it showed.
    pub bucket: String,
    /// Its mount point.
    pub dir: PathBuf,
    /// Why it is missing.
    pub why: String,
    /// The command that makes it again.
    pub command: String,
}

impl Table {
    /// Makes the mounts with --keep again, and finds the lost ones. Called once, after [`Table::adopt`]. Blocking.
    pub fn restore(&self) {
        for record in self.records.all() {
            let dir = &record.dir;
            if self.at(dir).is_some() || self.is_unserved(dir) || self.state().lost.contains_key(dir) {
                continue;
            }
            let why =
                if record.keep { self.make_again(&record).err().map(|error| text(&error)) } else { lost(&record) };
            let current = self.records.is_current(&record);
            match why {
                Some(why) if record.keep || current => {
                    tracing::error!(
                        dir = %dir.display(),
                        bucket = record.bucket,
                        why,
                        "a mount was lost: mount it again, or end it with `amphora umount`"
                    );
                    self.state().lost.insert(dir.clone(), why);
                }
                None if record.keep => {}
                _ => self.records.remove(dir),
            }
        }
    }

    /// The recorded mounts that are missing.
    #[must_use]
    pub fn lost(&self) -> Vec<LostMount> {
        let lost = self.state().lost.clone();
        let told = |(dir, why): (PathBuf, String)| {
            let record = self.records.at(&dir)?;
            Some(LostMount { command: record.command(), bucket: record.bucket, dir, why })
        };
        lost.into_iter().filter_map(told).collect()
    }

    fn make_again(&self, record: &Record) -> Result<(), Error> {
        let bucket: BucketName = record.bucket.parse()?;
        let access = match (&record.access_key_id, &record.account) {
            (Some(key), Some(account)) => Access::again(self.source.store()?, key, account, &bucket)?,
            _ => Access::default(),
        };
        self.mount_checked(record.request(bucket, access.read_only), &record.dir, |mount| {
            if mount.bucket_id() == record.bucket_id {
                return Ok(());
            }
            Err(Error::Changed { bucket: record.bucket.clone() })
        })
    }
}

fn text(error: &Error) -> String {
    crate::failure::with_causes(error)
}

/// Why a mount without --keep is missing; `None` if no program can have it open.
fn lost(record: &Record) -> Option<String> {
    let why = match fuse::mountpoint_state(&record.dir) {
        MountpointState::Stale => "the server and its holder ended together",
        MountpointState::Silent => "no server answers its programs; its holder may be at another --holder-endpoint",
        MountpointState::NotMounted | MountpointState::Amphora | MountpointState::Other => return None,
    };
    Some(why.to_owned())
}
