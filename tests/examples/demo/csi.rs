//! The gRPC calls that the CSI sidecars and kubelet make.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use proto::csi::v1::volume_content_source::{SnapshotSource, Type};
use proto::csi::v1::{
    CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
    VolumeContentSource,
};
use tonic::transport::{Channel, Endpoint};

use crate::Failure;

/// A connection to the CSI socket.
pub struct Csi {
    controller: ControllerClient<Channel>,
    node: NodeClient<Channel>,
}

/// The paths of a volume on this machine: the staging path, and the target path that a pod would see.
pub struct Published {
    volume: String,
    staging: PathBuf,
    /// The target path.
    pub target: PathBuf,
}

impl Csi {
    pub async fn connect(socket: &Path) -> Result<Self, Failure> {
        let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))?.connect().await?;
        Ok(Self { controller: ControllerClient::new(channel.clone()), node: NodeClient::new(channel) })
    }

    /// Takes a snapshot and returns its id.
    pub async fn snapshot(&mut self, volume: &str, name: &str) -> Result<String, Failure> {
        let (source_volume_id, name) = (volume.into(), name.into());
        let request = CreateSnapshotRequest { source_volume_id, name, ..Default::default() };
        let made = self.controller.create_snapshot(request).await?.into_inner();
        Ok(made.snapshot.ok_or("no snapshot in the answer")?.snapshot_id)
    }

    /// Creates a volume from a snapshot and returns its id.
    pub async fn clone_of(&mut self, snapshot: &str, name: &str) -> Result<String, Failure> {
        let source = Type::Snapshot(SnapshotSource { snapshot_id: snapshot.into() });
        let request = CreateVolumeRequest {
            name: name.into(),
            volume_capabilities: vec![capability()],
            volume_content_source: Some(VolumeContentSource { r#type: Some(source) }),
            ..Default::default()
        };
        let made = self.controller.create_volume(request).await?.into_inner();
        Ok(made.volume.ok_or("no volume in the answer")?.volume_id)
    }

    pub async fn delete_volume(&mut self, volume: &str) -> Result<(), Failure> {
        let request = DeleteVolumeRequest { volume_id: volume.into(), ..Default::default() };
        self.controller.delete_volume(request).await?;
        Ok(())
    }

    pub async fn delete_snapshot(&mut self, snapshot: &str) -> Result<(), Failure> {
        let request = DeleteSnapshotRequest { snapshot_id: snapshot.into(), ..Default::default() };
        self.controller.delete_snapshot(request).await?;
        Ok(())
    }

    /// Stages and publishes a volume below `dir` as kubelet does, which creates the staging folder; the driver creates
    /// the target.
    pub async fn publish(
        &mut self,
        volume: &str,
        dir: &Path,
        secrets: HashMap<String, String>,
    ) -> Result<Published, Failure> {
        let (staging, target) = (dir.join("staging"), dir.join("pod"));
        std::fs::create_dir_all(&staging)?;
        let (staging_path, target_path) = (staging.display().to_string(), target.display().to_string());
        let stage = NodeStageVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: staging_path.clone(),
            volume_capability: Some(capability()),
            secrets: secrets.clone(),
            ..Default::default()
        };
        self.node.node_stage_volume(stage).await?;
        let publish = NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: staging_path,
            target_path,
            volume_capability: Some(capability()),
            secrets,
            ..Default::default()
        };
        self.node.node_publish_volume(publish).await?;
        Ok(Published { volume: volume.into(), staging, target })
    }

    pub async fn unpublish(&mut self, published: Published) -> Result<(), Failure> {
        let (volume_id, target_path) = (published.volume.clone(), published.target.display().to_string());
        self.node.node_unpublish_volume(NodeUnpublishVolumeRequest { volume_id, target_path }).await?;
        let (volume_id, staging_target_path) = (published.volume, published.staging.display().to_string());
        self.node.node_unstage_volume(NodeUnstageVolumeRequest { volume_id, staging_target_path }).await?;
        Ok(())
    }
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}
