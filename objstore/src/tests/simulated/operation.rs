//! Applying the operations of a schedule, and what is on disk when each is answered.

use std::sync::Arc;

use super::model::State;
use crate::store::{Mode, Versioning};
use crate::volume::Allocate;

/// A path in a bucket.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) bucket: String,
    pub(super) path: String,
}

/// A lifecycle rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) prefix: &'static str,
    /// Days after which current objects expire.
    pub(super) expire: Option<u64>,
    /// Days after which noncurrent versions go, and how many are kept.
    pub(super) noncurrent: Option<(u64, usize)>,
    /// Whether delete markers go that hide nothing.
    pub(super) markers: bool,
    /// Days after which uploads are aborted.
    pub(super) uploads: Option<u64>,
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    CreateBucket {
        bucket: String,
        quota: Option<u64>,
        versioning: Versioning,
        /// With object lock.
        locking: bool,
    },
    DeleteBucket {
        bucket: String,
    },
    SetQuota {
        bucket: String,
        quota: Option<u64>,
    },
    SetVersioning {
        bucket: String,
        versioning: Versioning,
    },
    /// A day of default retention, by compliance or not; or none.
    SetRetention {
        bucket: String,
        compliance: Option<bool>,
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
        /// Retained, by compliance, to the end of this day.
        until: Option<u64>,
    },
    /// The object `x/`.
    PutFolder {
        at: At,
    },
    DeleteFolder {
        at: At,
    },
    Delete {
        at: At,
    },
    DeleteMany {
        bucket: String,
        keys: Vec<String>,
    },
    /// The oldest has the index 0; the current one follows the others.
    DeleteVersion {
        at: At,
        index: usize,
        bypass: bool,
    },
    /// Retains a version to the end of a day, or sets another end.
    Retain {
        at: At,
        index: usize,
        until: u64,
        compliance: bool,
        bypass: bool,
    },
    /// A legal hold on a version, or off.
    Hold {
        at: At,
        index: usize,
        on: bool,
    },
    SetRule {
        bucket: String,
        rule: Option<Rule>,
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
        stamp: u64,
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
    /// Makes a file and opens it for writing.
    Create {
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
    /// The same for a day.
    Day,
    /// Lifecycle rules, until nothing is due.
    Expire,
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

impl Operation {
    /// Whether a mount makes it.
    pub(super) fn is_of_mount(&self) -> bool {
        (self.answered() == Answered::InStore && !matches!(self, Self::Expire | Self::Close { .. }))
            || matches!(self, Self::Fsync { .. } | Self::SyncVolume { .. } | Self::Open { .. })
    }

    /// The files that a mount looks up for it.
    pub(super) fn looked_up(&self) -> Vec<At> {
        match self {
            Self::SetMode { at, .. } | Self::SetXattr { at, .. } | Self::Link { at, .. } => vec![at.clone()],
            Self::Unlink { at, hold: true } | Self::Fsync { at, .. } | Self::Open { at } => vec![at.clone()],
            Self::CopyRange { at, .. } => vec![at.clone()].into_iter().chain(self.written()).collect(),
            _ => self.written().into_iter().collect(),
        }
    }

    /// The file whose content it changes through a mount.
    pub(super) fn written(&self) -> Option<At> {
        match self {
            Self::Write { at, .. }
            | Self::Append { at, .. }
            | Self::Truncate { at, .. }
            | Self::Allocate { at, .. } => Some(at.clone()),
            Self::CopyRange { at, to, .. } => Some(At { bucket: at.bucket.clone(), path: to.clone() }),
            _ => None,
        }
    }

    /// Whether a kernel asks for it again that got no answer.
    pub(super) fn is_asked_again(&self) -> bool {
        self.answered() == Answered::InStore && self.is_of_mount()
    }

    /// Whether what it is about is there: for those that scripts have.
    pub(super) fn can_be(&self, state: &State) -> bool {
        let bucket = |at: &At| state.buckets.get(&at.bucket);
        match self {
            Self::Put { at, .. } | Self::Make { at } | Self::Create { at } => bucket(at).is_some(),
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
            Self::Make { .. } | Self::Create { .. } | Self::MakeFolder { .. } => Answered::InStore,
            Self::RemoveFolder { .. } | Self::Symlink { .. } => Answered::InStore,
            Self::Link { .. } | Self::Rename { .. } | Self::Unlink { .. } | Self::SetMode { .. } => Answered::InStore,
            Self::SetXattr { .. } | Self::Write { .. } | Self::Append { .. } | Self::Truncate { .. } => {
                Answered::InStore
            }
            Self::Allocate { .. } | Self::CopyRange { .. } => Answered::InStore,
            // What was written is retained from then on.
            Self::Close { .. } => Answered::InStore,
            Self::Expire => Answered::InStore,
            Self::Look { .. } | Self::Open { .. } | Self::Unmount { .. } | Self::Collect => Answered::Nothing,
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
