//! The body of a fuzz target (`fuzz/`): calls of the controller as they arrive over the wire.
//!
//! - The first byte selects the call; the rest is its message.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use objstore::store::Options;
use prost::Message;
use proto::csi::v1::controller_server::Controller as Rpc;
use proto::csi::v1::group_controller_server::GroupController as GroupRpc;
use proto::csi::v1::snapshot_metadata_server::SnapshotMetadata as MetadataRpc;
use tokio::runtime::Runtime;
use tonic::{Code, Request, Response, Status};

use super::Service;
use crate::Config;

/// A controller on its own store.
pub struct Calls {
    service: Service,
    runtime: Runtime,
    _dir: tempfile::TempDir,
}

impl Calls {
    /// Creates one on an empty store.
    ///
    /// # Panics
    /// If the store cannot be created.
    #[must_use]
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let store = objstore::open(Options::new(dir.path())).expect("a store");
        let config = Config {
            driver_name: "csi.amphora.dev".into(),
            vendor_version: "0".into(),
            node_id: "node".into(),
            nodes: crate::Nodes::Any,
            authority: None,
            max_volumes: 0,
            topology: "zone=z1".parse().expect("segments"),
            state_dir: PathBuf::new(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        Self { service: Service::new(store, Arc::new(config)), runtime, _dir: dir }
    }

    /// Makes a call.
    ///
    /// # Panics
    /// If the controller reports an internal error.
    pub fn call(&self, bytes: &[u8]) {
        let Some((call, message)) = bytes.split_first() else { return };
        if let Some(refusal) = self.runtime.block_on(self.ask(*call, message)) {
            let failed = matches!(refusal.code(), Code::Internal | Code::Unknown | Code::DataLoss | Code::Unavailable);
            assert!(!failed, "the controller failed: {refusal}");
        }
    }

    /// The refusal of a call; `None` if it succeeded.
    async fn ask(&self, call: u8, message: &[u8]) -> Option<Status> {
        let service = &self.service;
        match call % 20 {
            0 => refusal(message, |request| service.create_volume(request)).await,
            1 => refusal(message, |request| service.delete_volume(request)).await,
            2 => refusal(message, |request| service.controller_publish_volume(request)).await,
            3 => refusal(message, |request| service.controller_unpublish_volume(request)).await,
            4 => refusal(message, |request| service.validate_volume_capabilities(request)).await,
            5 => refusal(message, |request| service.list_volumes(request)).await,
            6 => refusal(message, |request| service.get_capacity(request)).await,
            7 => refusal(message, |request| service.controller_get_capabilities(request)).await,
            8 => refusal(message, |request| service.create_snapshot(request)).await,
            9 => refusal(message, |request| service.delete_snapshot(request)).await,
            10 => refusal(message, |request| service.list_snapshots(request)).await,
            11 => refusal(message, |request| service.get_snapshot(request)).await,
            12 => refusal(message, |request| service.controller_expand_volume(request)).await,
            13 => refusal(message, |request| service.controller_get_volume(request)).await,
            14 => refusal(message, |request| service.controller_modify_volume(request)).await,
            15 => refusal(message, |request| service.create_volume_group_snapshot(request)).await,
            16 => refusal(message, |request| service.delete_volume_group_snapshot(request)).await,
            17 => refusal(message, |request| service.get_volume_group_snapshot(request)).await,
            18 => refusal(message, |request| service.get_metadata_allocated(request)).await,
            _ => refusal(message, |request| service.get_metadata_delta(request)).await,
        }
    }
}

async fn refusal<Q, A, F>(message: &[u8], call: impl FnOnce(Request<Q>) -> F) -> Option<Status>
where
    Q: Message + Default,
    F: Future<Output = Result<Response<A>, Status>>,
{
    call(Request::new(Q::decode(message).ok()?)).await.err()
}
