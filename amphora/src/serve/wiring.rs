//! What each door is told, from the settings.

use std::sync::Arc;

use objstore::Store;
use objstore::lifecycle::{Day, Worker};

use super::blocking;
use crate::config::Settings;
use crate::failure::{Failure, with_causes};
use crate::mounts::{Holding, Inheritance, Table};

/// COSI, with the URL of S3 that its Secrets carry.
pub(super) fn cosi(settings: &Settings, s3_url: &str) -> cosi::Config {
    cosi::Config {
        driver_name: settings.cosi_driver_name.clone(),
        s3_endpoint_url: settings.s3_endpoint_url.clone().unwrap_or_else(|| s3_url.to_owned()),
        region: settings.region.clone(),
    }
}

/// The certificate of S3, where TLS is asked for.
pub(super) async fn tls(settings: &Settings) -> Result<Option<s3::Tls>, Failure> {
    let Some(files) = settings.tls.clone() else { return Ok(None) };
    let loaded = blocking("reading the TLS certificate", move || s3::Tls::load(files.certificate, files.key)).await?;
    let loaded = loaded.map_err(|error| Failure::failed(format!("--tls-cert, --tls-key: {}", with_causes(&error))));
    loaded.map(Some)
}

/// S3.
pub(super) fn s3(
    settings: &Settings,
    store: &Store,
    metrics: s3::Metrics,
    tls: Option<s3::Tls>,
) -> Result<s3::Server, Failure> {
    let config = s3::Config {
        drain: super::DRAIN_LIMIT,
        block_public_access: settings.s3_block_public_access,
        domains: settings.s3_domains.clone(),
        tls,
        limits: s3::Limits { connections: settings.s3_max_connections, ..s3::Limits::default() },
        ..s3::Config::new(&settings.region, metrics)
    };
    s3::Server::new(store.clone(), config).map_err(|error| Failure::usage(format!("--region: {error}")))
}

/// The worker of lifecycle rules.
pub(super) fn lifecycle(settings: &Settings, store: &Store) -> Result<Arc<Worker>, Failure> {
    let worker = Worker::start(store, Day::new(settings.lifecycle_day));
    worker.map(Arc::new).map_err(|error| Failure::failed(with_causes(&error)))
}

/// CSI, as its specification allows.
pub(super) fn csi(settings: &Settings) -> Result<csi::Config, Failure> {
    let config = csi::Config {
        driver_name: settings.csi_driver_name.clone(),
        vendor_version: env!("CARGO_PKG_VERSION").into(),
        node_id: settings.node_id.clone(),
        max_volumes: 0,
        state_dir: settings.data_dir.join("csi-node"),
    };
    config.check().map_err(|error| Failure::usage(format!("{error} (--csi-driver-name, --node-id)")))?;
    Ok(config)
}

/// The holder, and what it keeps for the store: nothing without one.
pub(super) async fn holding(settings: &Settings) -> Result<(Option<Holding>, Inheritance), Failure> {
    let Some(socket) = settings.sockets.holder.clone() else { return Ok(Default::default()) };
    let data_dir = settings.data_dir.clone();
    let found = blocking("asking the holder", move || Holding::find(&socket, &data_dir)).await?;
    found.map(|(holding, inheritance)| (Some(holding), inheritance)).map_err(Failure::failed)
}

/// The CSI node of this machine, with the mounts of a former process rebuilt.
pub(super) async fn csi_node(config: csi::Config, store: &Store, mounts: &Arc<Table>) -> Result<csi::Node, Failure> {
    let (store, mounts) = (store.clone(), mounts.clone());
    let node = blocking("opening the CSI node", move || csi::Node::new(store, config, mounts)).await?;
    let node = node.map_err(|error| Failure::failed(format!("the CSI node: {}", with_causes(&error))))?;
    // A volume that cannot be rebuilt is told in the log and fails its own calls; the others are served.
    node.recover().await;
    Ok(node)
}
