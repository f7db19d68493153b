//! Inline volumes of pods: made when they are published, and gone when they are unpublished. CSI v1.12, NodePublishVolume;
//! Kubernetes, "CSI ephemeral volumes".
//!
//! - The volume is a bucket of its own, with the quota that the pod asks for; or a bucket that the pod names, opened with
//!   the key in its Secret, which is never deleted.
//! - It is mounted at the target path itself. Its record is that of a stage, under the name of the bucket that the
//!   volume's id would have.
//! - Only the node service beside the store has inline volumes: a ticket opens volumes and makes none.
//!
//! A crash leaves a bucket without a record, which a repeated publish takes and an unpublish deletes by its name, or a record
//! whose mount is missing. So does a reboot.

use std::collections::HashMap;
use std::path::Path;

use objstore::name::BucketName;
use proto::csi::v1::{NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeResponse};
use serde::{Deserialize, Serialize};
use tonic::Status;
use tracing::warn;

use super::Inner;
use super::record::Stage;
use crate::capability::{Capability, Kind};
use crate::mounter::MountOptions;
use crate::{path, status, volume_id};

/// The prefix of keys that Kubernetes adds to the attributes of a volume.
const KUBERNETES: &str = "csi.storage.k8s.io/";
/// The key with which Kubernetes marks inline volumes.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// The attribute that names a bucket.
const BUCKET: &str = "bucket";

/// What an inline volume shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Inline {
    /// The bucket's name.
    pub(super) bucket: String,
    /// Whether the bucket is deleted with the volume.
    pub(super) owned: bool,
}

/// Whether a publish is of an inline volume.
pub(super) fn is_inline(request: &NodePublishVolumeRequest) -> bool {
    request.volume_context.get(EPHEMERAL).is_some_and(|value| value == "true")
}

/// The attributes that the author of the pod wrote.
fn attributes(request: &NodePublishVolumeRequest) -> HashMap<String, String> {
    let given = request.volume_context.iter().filter(|(key, _)| !key.starts_with(KUBERNETES));
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Inner {
    /// Publishes an inline volume. The caller holds the target's lock.
    pub(super) fn publish_inline(
        &self,
        request: &NodePublishVolumeRequest,
        path: &Path,
        capability: &Capability,
    ) -> Result<NodePublishVolumeResponse, Status> {
        if capability.kind == Kind::Block {
            return Err(Status::invalid_argument(
                "an inline volume is mounted; for a device use a claim with volumeMode Block",
            ));
        }
        let name = volume_id::for_volume(&request.volume_id)?;
        let _guard = self.volume_locks.hold(name.as_str())?;
        if self.records.target(path).is_some()
            || self.records.staged_at(path).is_some_and(|at| at.volume != name.as_str())
        {
            return Err(Status::failed_precondition(format!("another volume is published at \"{}\"", path.display())));
        }
        let Some(known) = self.records.stage(name.as_str()) else {
            self.show_inline(request, &name, path, capability)?;
            return Ok(NodePublishVolumeResponse {});
        };
        let stage = self.inline_stage(request, &name, path, capability)?;
        if known != stage {
            let place = known.path.display();
            let why = format!("the volume is published at \"{place}\" already, or with other attributes");
            return Err(Status::already_exists(why));
        }
        self.revive(&stage).map(|()| NodePublishVolumeResponse {})
    }

    /// Makes or opens the bucket, and says how it is mounted.
    fn inline_stage(
        &self,
        request: &NodePublishVolumeRequest,
        name: &BucketName,
        path: &Path,
        capability: &Capability,
    ) -> Result<Stage, Status> {
        let attributes = attributes(request);
        let (bucket, opened) = match attributes.get(BUCKET) {
            None => (name.clone(), self.volumes.make_inline(name, &attributes)?),
            Some(_) if attributes.len() > 1 => {
                return Err(Status::invalid_argument(
                    "an inline volume with the attribute bucket has no other attributes",
                ));
            }
            Some(bucket) => {
                let bucket: BucketName = bucket.parse().map_err(status::of)?;
                let opened = self.volumes.open_named(&bucket, &request.secrets)?;
                (bucket, opened)
            }
        };
        let (flags, owned) = (&capability.flags, bucket == *name);
        let options = MountOptions {
            no_exec: flags.bind.no_exec,
            // A bucket of its own has one pod; a named one may have several, on this node and on others.
            node_locks: Some(flags.node_locks.unwrap_or(owned)),
            ..opened.mount_options(capability, request.readonly)
        };
        let inline = Inline { owned, bucket: bucket.to_string() };
        Ok(Stage {
            volume: name.to_string(),
            bucket_id: opened.bucket_id,
            path: path.to_owned(),
            mode: capability.mode,
            kind: Kind::Mount,
            inline: Some(inline),
            options,
        })
    }

    /// Makes and mounts a new inline volume; a failure leaves nothing of it.
    fn show_inline(
        &self,
        request: &NodePublishVolumeRequest,
        name: &BucketName,
        path: &Path,
        capability: &Capability,
    ) -> Result<(), Status> {
        self.refuse_unrecorded(path)?;
        let made = path::make_target_dir(path)?;
        let stage = self.inline_stage(request, name, path, capability).inspect_err(|_| {
            if made {
                // If it cannot be removed now, the unpublish removes it.
                let _ = path::remove_target_dir(path);
            }
        })?;
        let shown = self.records.put_stage(&stage).map_err(status::of).and_then(|()| self.mount(&stage));
        if shown.is_err()
            && let Err(status) = self.end_inline(&stage)
        {
            // The unpublish, which follows a failed publish, tries again.
            warn!(volume = stage.volume, reason = status.message(), "a failed inline volume is left");
        }
        shown
    }

    /// Unmounts an inline volume, and deletes its bucket if it is its own.
    fn end_inline(&self, stage: &Stage) -> Result<(), Status> {
        self.unmount_stage(stage)?;
        path::remove_target_dir(&stage.path)?;
        if stage.inline.as_ref().is_some_and(|inline| inline.owned) {
            self.volumes.remove_inline(&stage.volume)?;
        }
        self.records.forget_stage(&stage.volume).map_err(status::of)
    }

    /// Unpublishes a volume that has no record of a target: an inline volume, or one that is not published here.
    pub(super) fn unpublish_inline(&self, volume: &str, path: &Path) -> Result<NodeUnpublishVolumeResponse, Status> {
        let done = Ok(NodeUnpublishVolumeResponse {});
        let Ok(name) = volume_id::for_volume(volume) else { return done };
        let is_other = |stage: &Stage| stage.inline.is_none() || stage.path != path;
        if self.records.stage(name.as_str()).is_some_and(|stage| is_other(&stage)) {
            // Another mount at the path is not the volume that the caller names.
            return done;
        }
        let _guard = self.volume_locks.hold(name.as_str())?;
        match self.records.stage(name.as_str()).filter(|stage| !is_other(stage)) {
            Some(stage) => self.end_inline(&stage)?,
            // Its record is gone with an earlier boot, or it was never written.
            None => self.volumes.remove_inline(name.as_str())?,
        }
        done
    }
}
