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
