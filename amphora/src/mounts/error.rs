//! Why a mount could not be made or ended.

use std::path::PathBuf;

/// Why a mount could not be made or ended. `Display` never prints its source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another request mounts or unmounts there.
    #[error("{} is being mounted or unmounted: try again", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// Something is mounted there.
    #[error("{} shows \"{bucket}\" already: unmount it first, or use another directory", dir.display())]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// What it shows.
        bucket: String,
    },
    /// There are as many mounts as there may be.
    #[error("there are {limit} mounts, as many as may be: unmount one, or raise --max-mounts")]
    TooMany {
        /// How many.
        limit: usize,
    },
    /// Nothing of this server is mounted there.
    #[error("{} is no mount of this server: `amphora status` lists them", dir.display())]
    NotMounted {
        /// The directory.
        dir: PathBuf,
    },
    /// The path does not lead to a directory that can be mounted at.
    #[error("{} is no directory to mount at: make it first, or name another", dir.display())]
    NoDirectory {
        /// The path as given.
        dir: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A server serves it, though not the one that was asked.
    #[error("{} is served by another server: name its socket with --admin-endpoint", dir.display())]
    Served {
        /// The directory.
        dir: PathBuf,
    },
    /// It is Kubernetes' to unmount.
    #[error("{} is a volume that Kubernetes staged: delete the pods that use it, or drain the node", dir.display())]
    Staged {
        /// The directory.
        dir: PathBuf,
    },
    /// The mount cannot take changes, whatever the kernel is told.
    #[error("{} cannot be remounted read-write: it shows a snapshot, or its key's grant was for reading when it was mounted", dir.display())]
    FixedReadOnly {
        /// The directory.
        dir: PathBuf,
    },
    /// An option cannot be changed by a remount.
    #[error("{} is not mounted with this {option}, and a remount changes ro and rw alone: unmount it and mount it again", dir.display())]
    Fixed {
        /// The directory.
        dir: PathBuf,
        /// The option's name.
        option: &'static str,
    },
    /// The bucket that a mount showed is gone, and another has its name.
    #[error("another bucket is called \"{bucket}\" now")]
    Changed {
        /// The name.
        bucket: String,
    },
    /// The holder cannot be asked.
    #[error("the holder cannot be asked")]
    Holder {
        /// Why.
        #[source]
        source: fuse::holder::Error,
    },
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] objstore::Error),
    /// The system refuses.
    #[error(transparent)]
    Fuse(#[from] fuse::Error),
}
