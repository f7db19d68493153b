//! The configuration of each endpoint and worker, derived from the settings.

use std::net::SocketAddr;
use std::sync::Arc;

use objstore::Store;
use objstore::lifecycle::{Day, Worker};
use tokio::net::TcpListener;

use super::End;
use crate::config::{Settings, Sockets, VolumeListener};
use crate::endpoints::{DRAIN_LIMIT, OpenListeners, blocking};
use crate::failure::{Failure, with_causes};
use crate::holder::Missing;
use crate::mounts::{Ending, Holding, Inheritance, Source, Table};
use crate::volumes::{Certificate, Keeper, Volumes};

/// Checks whether a server could start with the settings, as far as that is possible without changing anything.
pub(super) async fn check(settings: &Settings) -> Result<(), Failure> {
    csi(settings)?;
    folder(settings)?;
    tls(settings).await.map(drop)
}

/// Refuses an unusable data folder.
pub(super) fn folder(settings: &Settings) -> Result<(), Failure> {
    let checked = objstore::store::check_folder(&settings.data_dir);
    checked.map_err(|error| Failure::failed(format!("--data-dir: {}", with_causes(&error))))
}

/// The options of the store, except the sessions that continue.
pub(super) fn store(settings: &Settings) -> objstore::Options {
    let mut options = objstore::Options::new(&settings.data_dir);
    options.reserve = true;
    options.bucket.clone_from(&settings.content);
    options.master_key.clone_from(&settings.master_key);
    options.master_key_in_bucket = settings.metadata.is_some() && settings.master_key.is_none();
    options.root_key = settings.root_key.clone().map(|key| (key.access_key_id, key.secret));
    options
}

/// COSI, with the URL of S3 for its Secrets.
pub(super) fn cosi(settings: &Settings, s3_url: &str) -> Result<cosi::Config, Failure> {
    let config = cosi::Config {
        driver_name: settings.cosi_driver_name.clone(),
        s3_endpoint_url: settings.s3_endpoint_url.clone().unwrap_or_else(|| s3_url.to_owned()),
        region: settings.region.clone(),
        issuer: settings.cluster_issuer.clone(),
        answer_delay: settings.cosi_answer_delay,
    };
    config.check().map_err(|error| Failure::usage(format!("{error} (--cosi-driver-name)")))?;
    Ok(config)
}

/// The certificate of S3, if TLS is configured.
pub(super) async fn tls(settings: &Settings) -> Result<Option<s3::Tls>, Failure> {
    let Some(files) = settings.tls.clone() else { return Ok(None) };
    let loaded = blocking("reading the TLS certificate", move || s3::Tls::load(files.certificate, files.key)).await?;
    let loaded = loaded.map_err(|error| Failure::failed(format!("--tls-cert, --tls-key: {}", with_causes(&error))));
    loaded.map(Some)
}

/// The S3 endpoint.
pub(super) fn s3(
    settings: &Settings,
    store: &Store,
    metrics: s3::Metrics,
    auditor: s3::Auditor,
    tls: Option<s3::Tls>,
) -> Result<s3::Server, Failure> {
    let issuers = s3::Issuers::new(settings.oidc.clone());
    let issuers = issuers.map_err(|error| Failure::usage(format!("--oidc-issuer: {error}")))?;
    let config = s3::Config {
        issuers,
        drain: DRAIN_LIMIT,
        block_public_access: settings.s3_block_public_access,
        presigned_v2: settings.s3_presigned_v2,
        access_log_delay: settings.s3_access_log_delay,
        domains: settings.s3_domains.clone(),
        website_domains: settings.website_domains.clone(),
        tls,
        auditor,
        limits: limits(settings),
        ..s3::Config::new(&settings.region, metrics)
    };
    s3::Server::new(store.clone(), config).map_err(|error| Failure::usage(format!("--region: {error}")))
}

/// Open files reserved for content, mounts and the store.
const OTHER_FILES: u64 = 4096;

/// The limits for S3 clients. Connections get the open files that others do not need, or half.
fn limits(settings: &Settings) -> s3::Limits {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let room = files.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES).max(files / 2).max(1));
    let connections = settings.s3_max_connections.min(usize::try_from(room).unwrap_or(usize::MAX));
    if connections < settings.s3_max_connections {
        let asked = settings.s3_max_connections;
        tracing::warn!(
            connections,
            asked,
            "the limit of open files allows fewer S3 connections than configured: raise it (LimitNOFILE, ulimit -n)"
        );
    }
    s3::Limits {
        connections,
        requests: settings.s3_max_requests,
        body_memory_bytes: settings.s3_body_memory,
        answer_memory_bytes: settings.s3_answer_memory,
        idle: settings.s3_idle_time,
        body_stall: settings.s3_upload_stall,
        answer_stall: settings.s3_download_stall,
        ..s3::Limits::default()
    }
}

/// Opens the volume listener, if there is one; and its part of the ready line.
pub(super) async fn volumes(
    settings: &Settings,
    store: &Store,
    port: Option<(TcpListener, SocketAddr)>,
    listeners: &mut OpenListeners,
) -> Result<(Option<Volumes>, String), Failure> {
    let Some((VolumeListener { tls, client_ca, lease, .. }, (listener, address))) = settings.volumes.clone().zip(port)
    else {
        return Ok(Default::default());
    };
    let data_dir = settings.data_dir.clone();
    let keeper = match settings.metadata {
        Some(_) => Keeper::Metadata(store.clone(), data_dir),
        None => Keeper::Folder(data_dir),
    };
    let opened = blocking("the certificate of the volume listener", move || {
        Certificate::open((tls, client_ca), &keeper, address)
    });
    let certificate = opened.await??;
    let volumes = Volumes::new(store, lease)?;
    listeners.open("volume", volumes.clone().serve(listener, certificate.acceptor(), listeners.stopped()));
    tokio::spawn(certificate.keep_current());
    Ok((Some(volumes), format!(" volume={address}")))
}

/// The authority of the volume listener's certificate, if it is the store's own, which [`volumes`] makes.
pub(super) async fn authority(settings: &Settings) -> Result<Option<String>, Failure> {
    if settings.volumes.as_ref().is_none_or(|volumes| volumes.tls.is_some()) {
        return Ok(None);
    }
    let file = settings.data_dir.join(node_certificate::CERTIFICATE_FILE);
    let read = blocking("the authority of the volume listener", move || std::fs::read_to_string(file)).await?;
    read.map(Some).map_err(|error| Failure::failed(format!("--volume-listen: the authority cannot be read: {error}")))
}

/// The lifecycle worker.
pub(super) fn lifecycle(settings: &Settings, store: &Store) -> Result<Arc<Worker>, Failure> {
    let worker = Worker::start(store, Day::new(settings.lifecycle_day));
    worker.map(Arc::new).map_err(|error| Failure::failed(with_causes(&error)))
}

/// The scrub worker.
pub(super) fn scrub(settings: &Settings, store: &Store) -> Result<Arc<objstore::scrub::Worker>, Failure> {
    let worker = objstore::scrub::Worker::start(store, settings.scrub);
    worker.map(Arc::new).map_err(|error| Failure::failed(with_causes(&error)))
}

/// CSI, with the names that its specification allows.
pub(super) fn csi(settings: &Settings) -> Result<csi::Config, Failure> {
    let config = csi::Config {
        driver_name: settings.csi_driver_name.clone(),
        vendor_version: env!("CARGO_PKG_VERSION").into(),
        node_id: settings.node_id.clone(),
        nodes: if settings.volumes.is_some() { csi::Nodes::Any } else { csi::Nodes::Own },
        authority: None,
        max_volumes: u32::try_from(settings.csi_max_volumes).unwrap_or(u32::MAX),
        topology: settings.csi_topology.clone(),
        state_dir: settings.data_dir.join("csi-node"),
    };
    config.check().map_err(|error| Failure::usage(format!("{error} (--csi-driver-name, --node-id)")))?;
    Ok(config)
}

/// The connection to the fd holder, and the mounts it keeps for the store; none without a holder.
pub(super) async fn holding(settings: &Settings) -> Result<(Option<Holding>, Inheritance), Failure> {
    let data_dir = settings.data_dir.clone();
    let Some(socket) = settings.sockets.holder.clone() else {
        if let Some(former) = settings.sockets.former_holder.clone() {
            blocking("asking the holder", move || Holding::end_left(&former, &data_dir)).await?;
        }
        return Ok(Default::default());
    };
    let missing = if settings.sockets.start_holder { Missing::Start } else { Missing::Await };
    let found = blocking("asking the holder", move || Holding::find(&socket, missing, &data_dir)).await?;
    found.map(|(holding, inheritance)| (Some(holding), inheritance)).map_err(Failure::failed)
}

/// The table of mounts, with the records in the data folder.
pub(super) fn mounts(settings: &Settings, store: &Store, holding: Option<Holding>) -> Result<Table, Failure> {
    let table = Table::new(Source::Store(store.clone()), holding, &settings.data_dir, settings.max_mounts);
    table.map_err(|error| Failure::failed(format!("reading the records of mounts: {}", with_causes(&error))))
}

/// How mounts are treated when the server ends.
pub(super) fn ending(settings: &Settings, served: &Result<End, Failure>) -> Ending {
    if matches!(served, Ok(End::Upgrade(_))) {
        return Ending::Upgrade;
    }
    let Sockets { admin, holder, .. } = &settings.sockets;
    let mut command = format!("amphora --admin-endpoint {admin} umount");
    // The command finds a holder beside the admin socket by itself.
    if let Some(holder) = holder.as_ref().filter(|holder| **holder != admin.holder_beside()) {
        command.push_str(&format!(" --holder-endpoint {holder}"));
    }
    Ending::Stop { unmount: settings.unmount_at_exit, command }
}

/// The CSI node of this machine, with the mounts of an earlier process rebuilt.
pub(super) async fn csi_node(config: csi::Config, store: &Store, mounts: &Arc<Table>) -> Result<csi::Node, Failure> {
    let (store, mounts) = (store.clone(), mounts.clone());
    let node = blocking("opening the CSI node", move || csi::Node::new(store, config, mounts)).await?;
    let node = node.map_err(|error| Failure::failed(format!("the CSI node: {}", with_causes(&error))))?;
    // A volume that cannot be rebuilt is logged and fails its own calls; the others are served.
    node.recover().await;
    Ok(node)
}
