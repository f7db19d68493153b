//! The Node service: mounting volumes on this machine. CSI v1.12, Node Service RPC.
//!
//! - A volume is mounted once, at its staging path, and shown at each target path by a bind mount. A target for another group
//!   has a mount of its own; see `group.rs`.
//! - A block volume is mounted, too, and a loop device over its file is shown; see `block.rs`.
//! - A mount is recorded before it is made, and the record is removed after it is unmounted, so that a restarted
//!   process knows which mounts to rebuild; see `record.rs` and `recover.rs`.
//! - Unmounting never asks the store, so it works though the volume is gone.
//! - The store is in this process or on another machine: `volumes.rs` has what is asked of it.
//! - This file only unpacks requests; each operation is in the file of its name.

mod block;
mod group;
mod inline;
mod local;
mod publish;
mod record;
mod recover;
mod remote;
mod stage;
mod stats;
mod volumes;

use std::path::Path;
use std::sync::Arc;

use objstore::disk::{Disk, RealDisk};
use objstore::{Error, Result, Store};
use proto::csi::v1::node_server::Node as Rpc;
use proto::csi::v1::node_service_capability::{Rpc as RpcCapability, Type, rpc};
use proto::csi::v1::*;
use tonic::{Request, Response, Status};

use crate::Config;
use crate::bind::{Binder, Kernel};
use crate::locks::Locks;
use crate::loop_device::{Devices, LoopKernel};
use crate::mounter::Mounter;
use crate::rpc::{answer, answer_blocking};
use crate::status;
use local::Local;
use record::Records;
use remote::Remote;
use volumes::Volumes;

pub use recover::Recovered;
pub use remote::{Sessions, Standing};

/// All capabilities that work.
const CAPABILITIES: [rpc::Type; 6] = [
    rpc::Type::StageUnstageVolume,
    rpc::Type::GetVolumeStats,
    rpc::Type::ExpandVolume,
    rpc::Type::VolumeCondition,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::VolumeMountGroup,
];

/// The node part of the driver: a cheap handle.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    volumes: Box<dyn Volumes>,
    config: Config,
    mounter: Arc<dyn Mounter>,
    binder: Arc<dyn Binder>,
    devices: Arc<dyn Devices>,
    records: Records,
    volume_locks: Locks,
    target_locks: Locks,
}

/// Where the store of a node is.
pub(crate) enum Place {
    /// In this process.
    Store(Store),
    /// On another machine.
    Sessions(Arc<dyn Sessions>),
}

/// The machine, as a node uses it.
pub(crate) struct Machine {
    pub(crate) mounter: Arc<dyn Mounter>,
    pub(crate) binder: Arc<dyn Binder>,
    pub(crate) devices: Arc<dyn Devices>,
    pub(crate) disk: Arc<dyn Disk>,
}

impl Machine {
    /// The running machine, with mounts through `mounter`.
    fn real(mounter: Arc<dyn Mounter>) -> Self {
        Self { mounter, binder: Arc::new(Kernel), devices: Arc::new(LoopKernel), disk: Arc::new(RealDisk::new()) }
    }
}

impl Node {
    /// A node on the machine of its store, that mounts through `mounter`, with the mounts recorded in
    /// `config.state_dir`.
    ///
    /// Call [`Node::recover`] before the first request.
    ///
    /// # Errors
    /// If the names in `config` are not allowed, or the records cannot be read.
    pub fn new(store: Store, config: Config, mounter: Arc<dyn Mounter>) -> Result<Self> {
        Self::with(Place::Store(store), config, Machine::real(mounter))
    }

    /// A node on any machine: it opens volumes by the tickets of their publications, and `mounter` connects to the store
    /// with [`MountOptions::credentials`](crate::MountOptions::credentials).
    ///
    /// Call [`Node::recover`] before the first request.
    ///
    /// # Errors
    /// If the names in `config` are not allowed, or the records cannot be read.
    pub fn remote(sessions: Arc<dyn Sessions>, config: Config, mounter: Arc<dyn Mounter>) -> Result<Self> {
        Self::with(Place::Sessions(sessions), config, Machine::real(mounter))
    }

    pub(crate) fn with(place: Place, config: Config, machine: Machine) -> Result<Self> {
        config.check()?;
        let Machine { mounter, binder, devices, disk } = machine;
        let records = Records::open(&config.state_dir, disk, crate::sealed::boot_id()?)?;
        let volumes: Box<dyn Volumes> = match place {
            Place::Store(store) => {
                Box::new(Local { store, driver_name: config.driver_name.clone(), node_id: config.node_id.clone() })
            }
            Place::Sessions(sessions) => Box::new(Remote(sessions)),
        };
        let (volume_locks, target_locks) = (Locks::default(), Locks::default());
        Ok(Self(Arc::new(Inner { volumes, config, mounter, binder, devices, records, volume_locks, target_locks })))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }
}

impl Inner {
    fn mounted(&self, path: &Path) -> Result<Option<objstore::disk::MountEntry>, Status> {
        self.binder.mounted(path).map_err(|error| status::of(Error::io("reading the list of mounts", error)))
    }
}

/// The gRPC service.
pub(crate) struct Service(Node);

impl Service {
    pub(crate) fn new(node: Node) -> Self {
        Self(node)
    }
}

#[tonic::async_trait]
impl Rpc for Service {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let node = self.0.0.clone();
        answer_blocking("NodeStageVolume", request, move |request| node.stage(&request)).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let node = self.0.0.clone();
        answer_blocking("NodeUnstageVolume", request, move |request| node.unstage(&request)).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let node = self.0.0.clone();
        answer_blocking("NodePublishVolume", request, move |request| node.publish(&request)).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let node = self.0.0.clone();
        answer_blocking("NodeUnpublishVolume", request, move |request| node.unpublish(&request)).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let node = self.0.0.clone();
        answer_blocking("NodeGetVolumeStats", request, move |request| node.stats(&request)).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let node = self.0.0.clone();
        answer_blocking("NodeExpandVolume", request, move |request| node.expand(&request)).await
    }

    async fn node_get_capabilities(
        &self,
        request: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let capability = |capability: rpc::Type| NodeServiceCapability {
            r#type: Some(Type::Rpc(RpcCapability { r#type: capability.into() })),
        };
        let response = NodeGetCapabilitiesResponse { capabilities: CAPABILITIES.map(capability).into() };
        answer("NodeGetCapabilities", request, |_| async { Ok(response) }).await
    }

    async fn node_get_info(
        &self,
        request: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let config = self.0.config();
        let info = NodeGetInfoResponse {
            node_id: config.node_id.clone(),
            max_volumes_per_node: config.max_volumes.into(),
            accessible_topology: config.topology.wire(),
        };
        answer("NodeGetInfo", request, |_| async { Ok(info) }).await
    }
}
