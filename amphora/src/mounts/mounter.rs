//! The implementation of `csi`'s mounter over the table of mounts.

use std::path::Path;

use csi::{MountOptions, MountState};
use fuse::MountpointState;
use objstore::name::BucketName;
use objstore::{Noun, Result};

use super::{Error, Look, Origin, Remote, Request, Table, Unmounting};

impl Request {
    /// A volume of CSI. `remote`: its store, if that is on another machine.
    pub fn of_volume(bucket: &BucketName, options: &MountOptions, remote: Option<Remote>) -> Self {
        Self {
            bucket: bucket.clone(),
            read_only: options.read_only,
            fixed_read_only: options.read_only,
            prefix: options.prefix.clone(),
            look: Look {
                uid: options.uid,
                gid: options.gid,
                group_access: options.group_access,
                umask: options.umask,
                uncached: options.direct,
                no_exec: options.no_exec,
                context: options.context.clone(),
                node_locks: options.node_locks.unwrap_or_default(),
                ..Look::default()
            },
            account: options.account.clone(),
            access_key_id: None,
            origin: Origin::Csi,
            // The CSI node's own records restore it.
            keep: false,
            remote,
        }
    }
}

impl Table {
    /// Mounts a volume of CSI.
    ///
    /// # Errors
    /// As [`Table::mount`], as an error of the store.
    pub fn mount_volume(&self, request: Request, at: &Path) -> Result<()> {
        self.mount(request, at).map_err(into_store)
    }
}

impl csi::Mounter for Table {
    fn mount(&self, bucket: &BucketName, at: &Path, options: &MountOptions) -> Result<()> {
        self.mount_volume(Request::of_volume(bucket, options, None), at)
    }

    fn unmount(&self, at: &Path) -> Result<()> {
        match Table::unmount(self, at, Unmounting::Lazily) {
            Err(Error::NotMounted { .. } | Error::NoDirectory { .. }) => Ok(()),
            done => done.map_err(into_store),
        }
    }

    fn state(&self, at: &Path) -> Result<MountState> {
        Ok(match (fuse::mountpoint_state(at), self.at(at)) {
            (MountpointState::Amphora | MountpointState::Silent, Some(point)) => match point.origin {
                Origin::Csi => MountState::Ours(point.bucket),
                Origin::Admin => MountState::Other,
            },
            (MountpointState::NotMounted, _) => MountState::NotMounted,
            // A mount that this server could not take over, or one that a deleted store left with the holder.
            (MountpointState::Stale | MountpointState::Silent, _) => MountState::Stale,
            (MountpointState::Amphora | MountpointState::Other, _) => MountState::Other,
        })
    }

    fn is_administrators(&self, at: &Path) -> bool {
        self.at(at).is_some_and(|point| point.origin == Origin::Admin)
    }
}

/// Converts an error of a mount to an error of the store, which `csi` maps to codes.
fn into_store(error: Error) -> objstore::Error {
    let text = crate::failure::with_causes(&error);
    match error {
        Error::Store(error) => error,
        Error::Busy { .. } => objstore::Error::Busy { what: "the mount".into() },
        Error::TooMany { limit } => objstore::Error::TooMany { what: "mounts", limit: limit as u64 },
        Error::Taken { dir, bucket } => objstore::Error::Exists {
            noun: Noun::Publication,
            name: dir.display().to_string(),
            why: format!("bucket \"{bucket}\" is mounted there"),
        },
        Error::Fuse(fuse::Error::Unsynced { source, .. }) => source,
        Error::Fuse(fuse::Error::Option { option, why }) => objstore::Error::invalid("mount option", option, why),
        Error::Fuse(fuse::Error::Io { what, path, source }) => {
            objstore::Error::io(format!("{what} {}", path.display()), source)
        }
        Error::Fuse(fuse::Error::InUse { .. }) => objstore::Error::Busy { what: text },
        Error::Fuse(fuse::Error::Unable { .. } | fuse::Error::Target { .. })
        | Error::NoDirectory { .. }
        | Error::NotMounted { .. }
        | Error::Served { .. }
        | Error::Staged { .. }
        | Error::FixedReadOnly { .. }
        | Error::Fixed { .. }
        | Error::Changed { .. }
        | Error::Holder { .. } => objstore::Error::Unusable { why: text },
    }
}
