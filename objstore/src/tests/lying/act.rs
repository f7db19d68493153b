//! The operations of a schedule, and what is on disk when each is answered.

use std::sync::Arc;

use super::model::State;
use crate::store::Mode;
use crate::volume::Allocate;

/// A path in a bucket.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) bucket: String,
    pub(super) path: String,
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) enum Act {
    CreateBucket {
        bucket: String,
        quota: Option<u64>,
        versioned: bool,
    },
    DeleteBucket {
        bucket: String,
    },
    SetQuota {
        bucket: String,
        quota: Option<u64>,
    },
    Snapshot {
        bucket: String,
        name: String,
    },
    Clone {
        source: String,
        bucket: String,
    },
    DeleteSnapshot {
        name: String,
    },
    CreateAccount {
        account: String,
    },
    DeleteAccount {
        account: String,
    },
    RotateKey {
        account: String,
    },
    /// Seals all secrets under another master key.
    RotateMaster,
    Grant {
        bucket: String,
        account: String,
        mode: Mode,
    },
    Revoke {
        bucket: String,
        account: String,
    },
    Put {
        at: At,
        size: usize,
        stamp: u64,
    },
    Delete {
        at: At,
    },
    DeleteMany {
        bucket: String,
        keys: Vec<String>,
    },
    DeleteVersion {
        at: At,
        index: usize,
    },
    Copy {
        from: At,
        to: At,
    },
    BeginUpload {
        at: At,
    },
    PutPart {
        at: At,
        number: u32,
        size: usize,
        stamp: u64,
    },
    CopyPart {
        at: At,
        number: u32,
        from: At,
    },
    /// With the part of the highest number.
    Complete {
        at: At,
    },
    Abort {
        at: At,
    },
    /// S3 lists and reads what mounts write.
    Look {
        bucket: String,
    },
    Make {
        at: At,
    },
    MakeFolder {
        at: At,
    },
    RemoveFolder {
        at: At,
    },
    Symlink {
        at: At,
        target: String,
    },
    Link {
        at: At,
        to: String,
    },
    Rename {
        at: At,
        to: String,
    },
    /// `hold` keeps it open.
    Unlink {
        at: At,
        hold: bool,
    },
    SetMode {
        at: At,
        mode: u32,
    },
    SetXattr {
        at: At,
        value: Vec<u8>,
    },
    Write {
        at: At,
        offset: usize,
        size: usize,
        stamp: u64,
    },
    Append {
        at: At,
        size: usize,
        stamp: u64,
    },
    Truncate {
        at: At,
        size: usize,
    },
    Allocate {
        at: At,
        how: Allocate,
        offset: usize,
        size: usize,
    },
    /// From the beginning of a file to that of another.
    CopyRange {
        at: At,
        to: String,
        size: usize,
    },
    Fsync {
        at: At,
        data_only: bool,
    },
    SyncVolume {
        bucket: String,
    },
    /// For writing.
    Open {
        at: At,
    },
    /// The file that has been open longest.
    Close {
        bucket: String,
    },
    Unmount {
        bucket: String,
    },
    /// A round of the collector.
    Collect,
    /// Three seconds, with all that a store does behind its callers meanwhile.
    Pass,
    /// Closed in order, and opened again.
    Reopen,
}

/// What of an operation is on disk when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It, and all before it.
    OnDisk,
    /// It is handed to the system.
    InStore,
    /// Nothing changed.
    Nothing,
}

impl Act {
    /// Whether a mount makes it.
    pub(super) fn is_of_mount(&self) -> bool {
        self.answered() == Answered::InStore
            || matches!(self, Self::Fsync { .. } | Self::SyncVolume { .. } | Self::Open { .. })
    }

    /// Whether what it is about is there: for those that scripts have.
    pub(super) fn can_be(&self, state: &State) -> bool {
        let bucket = |at: &At| state.buckets.get(&at.bucket);
        match self {
            Self::Put { at, .. } | Self::Make { at } => bucket(at).is_some(),
            Self::Write { at, .. }
            | Self::Append { at, .. }
            | Self::Truncate { at, .. }
            | Self::Allocate { at, .. } => bucket(at).is_some_and(|bucket| bucket.file_at(&at.path).is_some()),
            _ => true,
        }
    }

    /// What is on disk when it is answered: the contract.
    pub(super) fn answered(&self) -> Answered {
        match self {
            Self::Make { .. } | Self::MakeFolder { .. } | Self::RemoveFolder { .. } | Self::Symlink { .. } => {
                Answered::InStore
            }
            Self::Link { .. } | Self::Rename { .. } | Self::Unlink { .. } | Self::SetMode { .. } => Answered::InStore,
            Self::SetXattr { .. } | Self::Write { .. } | Self::Append { .. } | Self::Truncate { .. } => {
                Answered::InStore
            }
            Self::Allocate { .. } | Self::CopyRange { .. } => Answered::InStore,
            Self::Look { .. } | Self::Open { .. } | Self::Close { .. } | Self::Unmount { .. } | Self::Collect => {
                Answered::Nothing
            }
            _ => Answered::OnDisk,
        }
    }
}

/// Bytes that tell which write they are of: none is zero, each sector has its own.
pub(super) fn bytes(stamp: u64, size: usize) -> Arc<Vec<u8>> {
    let mut bytes = vec![0; size];
    for (index, sector) in bytes.chunks_mut(512).enumerate() {
        sector.fill((stamp.wrapping_mul(37).wrapping_add(index as u64 * 11) % 255 + 1) as u8);
    }
    Arc::new(bytes)
}
