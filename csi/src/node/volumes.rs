//! What the node service asks about volumes, wherever their store is.
//!
//! - [`Local`](super::local::Local) asks the store in this process, [`Remote`](super::remote::Remote) the sessions with a
//!   store on another machine.
//! - Unmounting asks nothing.

use std::collections::HashMap;

use objstore::name::BucketName;
use objstore::store::Account;
use proto::csi::v1::{VolumeUsage, volume_usage::Unit};
use tonic::Status;

use super::record::Stage;
use crate::capability::{Capability, Kind};
use crate::capacity::signed;
use crate::context::PublishContext;
use crate::credentials::Credentials;
use crate::mounter::MountOptions;

/// Disk space of a small file. Inodes are unlimited, so as many are reported as there is space for.
const INODE_BYTES: u64 = 1024;

/// A request to stage a volume.
pub(super) struct Request<'a> {
    pub(super) volume: &'a str,
    pub(super) kind: Kind,
    pub(super) context: &'a PublishContext,
    pub(super) secrets: &'a HashMap<String, String>,
}

/// How a volume is opened for a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Opened {
    /// The bucket's id; zero where the ticket names it.
    pub(super) bucket_id: u64,
    /// Whether it may only be read.
    pub(super) read_only: bool,
    /// The account of the key, where this process can look it up.
    pub(super) account: Option<Account>,
    /// What the session is opened with, at a store on another machine.
    pub(super) credentials: Option<Credentials>,
}

impl Opened {
    /// How a volume that is opened like this is mounted for a capability. `read_only`: whether the request says so.
    pub(super) fn mount_options(&self, capability: &Capability, read_only: bool) -> MountOptions {
        let flags = &capability.flags;
        // A device is one file, which its loop device alone has open.
        let node_locks = capability.kind == Kind::Block || !capability.mode.needs_common_locks();
        MountOptions {
            read_only: self.read_only || read_only || capability.mode.is_read_only() || flags.bind.read_only,
            uid: flags.uid,
            gid: flags.gid.or(capability.group),
            group_access: capability.group.is_some(),
            no_exec: false,
            context: flags.context.clone(),
            umask: flags.umask,
            prefix: flags.prefix.clone(),
            // A device is no cache of a file that other nodes write.
            direct: capability.kind == Kind::Block,
            node_locks: Some(flags.node_locks.unwrap_or(node_locks)),
            account_id: self.account.as_ref().map(|account| account.id),
            account: self.account.as_ref().map(|account| account.name.clone()),
            credentials: self.credentials.clone(),
        }
    }
}

/// Usage and health of a staged volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// The usage; empty while it is not known.
    pub(super) usage: Vec<VolumeUsage>,
    /// What is wrong with the store or its session, as a message for people.
    pub(super) fault: Option<String>,
}

/// Numbers of a volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) total_bytes: u64,
    pub(super) used_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) inodes: u64,
    /// Free bytes of the disk, which inodes are limited by.
    pub(super) disk_free_bytes: u64,
}

/// The volumes of a node.
pub(super) trait Volumes: Send + Sync {
    /// How a stage opens a volume; an error if it may not, or if the volume does not exist.
    fn open(&self, request: &Request<'_>) -> Result<Opened, Status>;

    /// NOT_FOUND if there can be no such volume, or the store in this process has none. A store on another machine is not
    /// asked.
    fn find(&self, volume: &str) -> Result<(), Status>;

    /// Whether the secrets of a publish allow reading only. Without secrets nothing is narrowed.
    fn narrow(&self, stage: &Stage, secrets: &HashMap<String, String>) -> Result<bool, Status>;

    /// Whether a stage of an earlier process may only read now. NOT_FOUND or PERMISSION_DENIED if its volume or its
    /// grant is gone.
    fn again(&self, stage: &Stage) -> Result<bool, Status>;

    /// Makes the bucket of an inline volume, or finds the one that the same request made.
    fn make_inline(&self, name: &BucketName, attributes: &HashMap<String, String>) -> Result<Opened, Status>;

    /// Deletes the bucket of an inline volume of this node; if there is none, it succeeds.
    fn remove_inline(&self, name: &str) -> Result<(), Status>;

    /// How an inline volume opens a bucket that its pod names, with the key in its secrets.
    fn open_named(&self, bucket: &BucketName, secrets: &HashMap<String, String>) -> Result<Opened, Status>;

    /// Usage and health of a stage. It does not wait for a mount.
    fn report(&self, stage: &Stage) -> Result<Report, Status>;

    /// The size of a volume, if it has one and it is known here.
    fn size(&self, volume: &str) -> Result<Option<u64>, Status>;
}

impl Figures {
    pub(super) fn usage(self) -> Vec<VolumeUsage> {
        let inodes_left = self.disk_free_bytes / INODE_BYTES;
        let of = |unit: Unit, total, used, available| VolumeUsage {
            unit: unit.into(),
            total: signed(total),
            used: signed(used),
            available: signed(available),
        };
        vec![
            of(Unit::Bytes, self.total_bytes, self.used_bytes, self.free_bytes),
            of(Unit::Inodes, self.inodes.saturating_add(inodes_left), self.inodes, inodes_left),
        ]
    }
}
