//! The part of the admin service that is about mounts: of a server, and of a node, which has no store.

use std::sync::Arc;
use std::time::Instant;

use objstore::Store;
use proto::amphora::admin::v1 as api;
use proto::amphora::admin::v1::mounts_server::{Mounts, MountsServer};
use tonic::service::Routes;
use tonic::{Request, Response};

use super::{Answer, mount};
use crate::mounts::Table;

/// The state that requests about mounts use.
#[derive(Clone)]
pub struct MountService {
    /// The mounts of this process.
    pub mounts: Arc<Table>,
    /// The store of this process, if it has one.
    pub store: Option<Store>,
    /// The name of this machine.
    pub node: String,
    /// The folder of the process: the data folder of a server, the state folder of a node.
    pub folder: String,
    /// When the process started.
    pub started: Instant,
}

/// The routes of the service.
pub fn mount_routes(service: MountService) -> Routes {
    Routes::new(MountsServer::new(service))
}

#[tonic::async_trait]
impl Mounts for MountService {
    async fn mount(&self, r: Request<api::MountRequest>) -> Answer<api::MountResponse> {
        mount::mount(self, r.into_inner()).await.map(Response::new)
    }

    async fn unmount(&self, r: Request<api::UnmountRequest>) -> Answer<api::UnmountResponse> {
        mount::unmount(self, r.into_inner()).await.map(Response::new)
    }

    async fn remount(&self, r: Request<api::RemountRequest>) -> Answer<api::RemountResponse> {
        mount::remount(self, r.into_inner()).await.map(Response::new)
    }

    async fn mount_stats(&self, r: Request<api::MountStatsRequest>) -> Answer<api::MountStatsResponse> {
        mount::stats(self, &r.into_inner()).map(Response::new)
    }

    type WatchMountStream = mount::Watched;

    async fn watch_mount(&self, r: Request<api::WatchMountRequest>) -> Answer<mount::Watched> {
        mount::watch(self, &r.into_inner()).map(Response::new)
    }

    async fn get_node_status(&self, _: Request<api::NodeStatusRequest>) -> Answer<api::NodeStatusResponse> {
        Ok(Response::new(api::NodeStatusResponse {
            version: env!("CARGO_PKG_VERSION").into(),
            node: self.node.clone(),
            state_dir: self.folder.clone(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            mounts: self.mounts.list().iter().map(mount::shown).collect(),
            unserved_mounts: self.mounts.unserved().into_iter().map(mount::unserved).collect(),
        }))
    }
}
