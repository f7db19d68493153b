//! Errors of mounting and unmounting.

use std::path::PathBuf;

/// Why a mount could not be made or ended. `Display` never prints its source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another request is mounting or unmounting there.
    #[error("{} is being mounted or unmounted: try again", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// A bucket is mounted there already.
    #[error("{} already shows \"{bucket}\": unmount it first, or use another directory", dir.display())]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// The bucket that is mounted there.
        bucket: String,
    },
    /// The limit of mounts is reached.
    #[error("the limit of {limit} mounts is reached: unmount one, or raise --max-mounts")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// No mount of this server is at the directory.
    #[error("{} is not a mount of this server: `amphora status` lists them", dir.display())]
    NotMounted {
        /// The directory.
        dir: PathBuf,
    },
    /// The path is not a directory that can be a mount point.
    #[error("{} is not a directory: make it first, or name another", dir.display())]
    NoDirectory {
        /// The path as given.
        dir: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Another server serves the mount.
    #[error("{} is served by another server: name its socket with --admin-endpoint", dir.display())]
    Served {
        /// The directory.
        dir: PathBuf,
    },
    /// Kubernetes manages the mount.
    #[error("{} is a volume that Kubernetes staged: delete the pods that use it, or drain the node", dir.display())]
    Staged {
        /// The directory.
        dir: PathBuf,
    },
    /// The store refuses changes through the mount, so a remount cannot allow them.
    #[error("{} cannot be remounted read-write: it shows a snapshot, or its key had only a read grant when it was mounted", dir.display())]
    FixedReadOnly {
        /// The directory.
        dir: PathBuf,
    },
    /// A remount cannot change the option.
    #[error("{} is not mounted with this {option}, and a remount changes only ro and rw: unmount it and mount it again", dir.display())]
    Fixed {
        /// The directory.
        dir: PathBuf,
        /// The option's name.
        option: &'static str,
    },
    /// The bucket of the mount was deleted, and another has its name.
    #[error("bucket \"{bucket}\" was deleted, and another bucket has its name now")]
    Changed {
        /// The name.
        bucket: String,
    },
    /// The holder cannot be reached.
    #[error("the holder cannot be reached")]
    Holder {
        /// The cause.
        #[source]
        source: fuse::holder::Error,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] objstore::Error),
    /// An error of mounting.
    #[error(transparent)]
    Fuse(#[from] fuse::Error),
}
