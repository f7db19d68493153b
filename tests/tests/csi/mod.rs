//! CSI: the conformance suite against the real binary, and what it does not cover.

pub(crate) mod block;
mod crowd;
mod damaged;
mod filling;
mod fs_group;
mod groups;
pub(crate) mod inline;
mod lost;
mod mounts;
mod protocol;
mod ranges;
mod recovery;
mod remote;
mod sanity;
mod secrets;
mod unrecorded;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use proto::csi::v1::volume_content_source::{SnapshotSource, Type};
use proto::csi::v1::*;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::support::*;

/// A server with clients of its CSI socket, in the roles of a kubelet and the sidecars.
pub(crate) struct Driver {
    pub(crate) server: Server,
    controller: ControllerClient<Channel>,
    node: NodeClient<Channel>,
}

impl Driver {
    async fn start() -> Self {
        Self::of(Server::start()).await
    }

    pub(crate) async fn of(server: Server) -> Self {
        let (controller, node) = clients(&server).await;
        Self { server, controller, node }
    }

    /// Connects again after a restart of the server.
    pub(crate) async fn reconnect(&mut self) {
        (self.controller, self.node) = clients(&self.server).await;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.server.home().path().join(name)
    }

    /// Creates a volume of this size, or a clone of a snapshot.
    async fn create(&mut self, name: &str, size_bytes: i64, snapshot: Option<&str>) -> String {
        let source = snapshot
            .map(|id| VolumeContentSource { r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: id.into() })) });
        let request = CreateVolumeRequest {
            name: name.into(),
            capacity_range: Some(CapacityRange { required_bytes: size_bytes, limit_bytes: 0 }),
            volume_capabilities: vec![capability(Mode::MultiNodeMultiWriter)],
            volume_content_source: source,
            ..Default::default()
        };
        let made = self.controller.create_volume(request).await.expect("made").into_inner();
        made.volume.expect("in the answer").volume_id
    }

    async fn snapshot(&mut self, volume: &str, name: &str) -> String {
        let request =
            CreateSnapshotRequest { source_volume_id: volume.into(), name: name.into(), ..Default::default() };
        let made = self.controller.create_snapshot(request).await.expect("taken").into_inner().snapshot;
        made.expect("in the answer").snapshot_id
    }

    /// The staging path of a volume; the caller of CSI creates the folder.
    fn staging(&self, volume: &str) -> String {
        let dir = self.path("staging").join(volume);
        match std::fs::create_dir_all(&dir) {
            // A dead mount, which does not say that it is a directory.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.expect("made"),
        }
        text(&dir)
    }

    async fn stage(
        &mut self,
        volume: &str,
        secrets: &HashMap<String, String>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let request = NodeStageVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.staging(volume),
            volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
            secrets: secrets.clone(),
            ..Default::default()
        };
        self.node.node_stage_volume(request).await
    }

    async fn publish(
        &mut self,
        volume: &str,
        target: &str,
        readonly: bool,
        secrets: &HashMap<String, String>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let target = self.path("targets").join(target);
        std::fs::create_dir_all(target.parent().expect("a parent")).expect("made");
        let request = NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.staging(volume),
            target_path: text(&target),
            volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
            readonly,
            secrets: secrets.clone(),
            ..Default::default()
        };
        self.node.node_publish_volume(request).await
    }

    /// Stages and publishes a volume; returns the path where it is shown.
    async fn mounted(&mut self, volume: &str, secrets: &HashMap<String, String>) -> PathBuf {
        self.stage(volume, secrets).await.expect("staged");
        self.publish(volume, volume, false, &HashMap::new()).await.expect("published");
        self.path("targets").join(volume)
    }

    pub(crate) async fn unpublish(&mut self, volume: &str, target: &str) {
        let target_path = text(&self.path("targets").join(target));
        let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path };
        self.node.node_unpublish_volume(request).await.expect("unpublished");
    }

    pub(crate) async fn unstage(&mut self, volume: &str) {
        let staging_target_path = self.staging(volume);
        let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path };
        self.node.node_unstage_volume(request).await.expect("unstaged");
    }

    pub(crate) async fn delete(&mut self, volume: &str) {
        let request = DeleteVolumeRequest { volume_id: volume.into(), ..Default::default() };
        self.controller.delete_volume(request).await.expect("deleted");
    }
}

async fn clients(server: &Server) -> (ControllerClient<Channel>, NodeClient<Channel>) {
    let channel = grpc::channel(&server.ready().socket("csi")).await;
    (ControllerClient::new(channel.clone()), NodeClient::new(channel))
}

fn capability(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// The mounts in a server's folder.
fn mounts_below(driver: &Driver) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("the list of mounts");
    let home = text(driver.server.home().path());
    table.lines().filter(|line| line.contains(&home)).map(str::to_owned).collect()
}

fn text(path: &Path) -> String {
    path.to_str().expect("test folders are UTF-8").to_owned()
}

fn no_secrets() -> HashMap<String, String> {
    HashMap::new()
}

/// The error number of a refused call.
#[track_caller]
fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> Option<rustix::io::Errno> {
    rustix::io::Errno::from_io_error(&result.expect_err("it is refused"))
}
