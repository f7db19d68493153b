//! The command `amphora node`: mounts of buckets whose stores are on other machines. It has no store.
//!
//! - Its folder has its sockets and the number of its last process. What mounts of the command line need to connect again is kept by the
//!   holder in memory.
//! - Mounts of an earlier process are taken over before an endpoint opens; their sessions at the store go on.
//! - With `--csi-node-endpoint` it is the node half of the CSI driver (`csi`), whose records lie in its folder, too.
//! - On SIGTERM or SIGINT the mounts stay with the holder for the next process.
//! - A node that `amphora mount --server` started for one mount ends with that mount (`own`).
//!
//! A crash leaves the mounts to the holder and the sessions to their leases: a next process within a lease resumes them.

mod csi;
mod flags;
pub mod own;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_session::Incarnation;
use objstore::disk::{Disk as _, RealDisk, read_named};
use tonic::service::Routes;

pub use flags::{NodeFlags, STATE_DIR};

use crate::admin::{MountService, mount_routes};
use crate::config::{Env, SocketPath, default_socket, tls};
use crate::endpoints::{DRAIN_LIMIT, OpenListeners, Signals, Sockets, blocking, http};
use crate::failure::{Failure, with_causes};
use crate::holder::Missing;
use crate::mounts::{Ending, Holding, Inheritance, Node, Source, Table};
use crate::process::{Notify, PassedSockets};
use crate::tls_pair::FileContent;

/// The most threads that serve requests of the command line.
const BLOCKING_THREADS: usize = 64;
/// How often a node that ends with its mounts looks whether there are any.
const LOOK: Duration = Duration::from_millis(500);
/// How long such a node waits for its first mount.
const FIRST_MOUNT: Duration = Duration::from_secs(60);
/// The largest file of an authority.
const CA_BYTES_MAX: u64 = 1 << 20;
/// The folder for what mounts have answered before their stores have made it.
const JOURNALS: &str = "journals";
/// The file with the number of the last process.
const INCARNATION: &str = "incarnation";

/// Runs a node until it is stopped.
///
/// # Errors
/// [`Failure::Usage`] for invalid settings, [`Failure::Failed`] for a failed start or a failed endpoint.
pub fn run(flags: NodeFlags, admin: Option<SocketPath>, env: Env<'_>) -> Result<(), Failure> {
    if flags.detached {
        return own::supervise(&flags.state_dir, flags.again);
    }
    crate::memory::set_up();
    crate::logs::start(&flags.log_level, flags.log_format, None)?;
    if !flags.core_dumps {
        crate::process::forbid_core_dumps();
    }
    crate::process::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)))
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("no async runtime: {error}")))?;
    let result = runtime.block_on(serve(flags, admin, &Notify::new(env)));
    // Neither waited for nor shut down: a call that waits for a store out of reach must not keep the process, and its
    // failure must not be answered. The kernel resends it to the next process, which sends the call again.
    std::mem::forget(runtime);
    result
}

async fn serve(flags: NodeFlags, admin: Option<SocketPath>, notify: &Notify) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let (state_dir, name) = (flags.state_dir()?, flags.node_id.clone().unwrap_or_else(crate::config::host_name));
    let admin = admin.map_or_else(|| default_socket(&state_dir, "admin"), Ok)?;
    let opened_dir = state_dir.clone();
    let incarnation = blocking("the state folder", move || next_incarnation(&opened_dir)).await??;
    let (holding, inheritance) = holding(&flags, &state_dir).await?;
    let journals = if holding.is_some() { Some(journals(&state_dir)?) } else { None };
    let node = Node { name: name.clone(), incarnation, runtime: tokio::runtime::Handle::current(), journals };
    let authority = flags.ca.as_deref().map(authority).transpose()?;
    let identity = tls(("--cert", flags.cert.clone()), ("--key", flags.key.clone()))?;
    let checked = identity.as_ref().map(FileContent::load).transpose();
    checked.map_err(|why| Failure::failed(format!("--cert, --key: {why}")))?;
    let table = Table::new(Source::Node(node.clone()), holding, &state_dir, flags.max_mounts);
    let table = table.map_err(|error| Failure::failed(format!("{}: {}", state_dir.display(), with_causes(&error))))?;
    let mounts = Arc::new(table);
    let adopting = mounts.clone();
    blocking("taking mounts over", move || adopting.adopt(inheritance)).await?;

    let (mut listeners, mut sockets, mut passed) = (OpenListeners::new(), Sockets::default(), PassedSockets::default());
    let listener = sockets.open("admin", &admin, &mut passed)?;
    let service = MountService {
        mounts: mounts.clone(),
        store: None,
        node: name,
        folder: state_dir.display().to_string(),
        started: Instant::now(),
    };
    let (registry, audit) = crate::metrics::of_node(&mounts);
    if let Some(endpoint) = &flags.csi_node_endpoint {
        let no_server =
            || Failure::usage("--csi-node-endpoint is set and --server is not: name the store of the volumes");
        let server = flags.server.clone().ok_or_else(no_server)?;
        let volumes = csi::Volumes { mounts: mounts.clone(), node, server, authority, identity };
        let routes = csi_routes(&flags, volumes, &state_dir).await?;
        listeners.open_grpc("CSI node", sockets.open("csi-node", endpoint, &mut passed)?, routes, &audit);
    }
    if let Some(address) = flags.http_listen {
        let bound = tokio::net::TcpListener::bind(address).await;
        let bound = bound.map_err(|error| Failure::failed(format!("--http-listen {address}: {error}")))?;
        let source = http::Source::new(None, registry, listeners.stopping());
        listeners.open("HTTP", http::serve(bound, source, listeners.stopped()));
    }
    listeners.open_grpc("admin", listener, mount_routes(service), &audit);
    notify.ready();
    tracing::info!(%admin, "the node is ready");
    let ended = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "stopping; a second signal ends the process at once");
            Ok(())
        }
        () = unneeded(&mounts), if flags.while_needed => Ok(()),
        failure = listeners.broken() => Err(failure),
    };
    signals.exit_at_next();
    notify.stopping();
    drop((sockets, passed));
    listeners.close(DRAIN_LIMIT).await;
    let ending =
        Ending::Stop { unmount: flags.unmount_at_exit, command: format!("amphora --admin-endpoint {admin} umount") };
    let leaves = blocking("leaving the mounts", move || mounts.end_all(&ending)).await?;
    match ended {
        Ok(()) if flags.while_needed && leaves => {
            Err(Failure::Left("the holder keeps the mount for the next process".into()))
        }
        ended => ended,
    }
}

/// The CSI node service, with the volumes of an earlier process mounted.
async fn csi_routes(flags: &NodeFlags, volumes: csi::Volumes, state_dir: &Path) -> Result<Routes, Failure> {
    let config = ::csi::Config {
        driver_name: flags.csi_driver_name.clone(),
        vendor_version: env!("CARGO_PKG_VERSION").into(),
        node_id: volumes.node.name.clone(),
        nodes: ::csi::Nodes::Own,
        authority: None,
        max_volumes: u32::try_from(flags.csi_max_volumes.unwrap_or(flags.max_mounts)).unwrap_or(u32::MAX),
        topology: flags.csi_topology.clone(),
        state_dir: state_dir.join("csi-node"),
    };
    config.check().map_err(|error| Failure::usage(format!("{error} (--csi-driver-name, --node-id)")))?;
    let volumes = Arc::new(volumes);
    let node = blocking("opening the CSI node", move || ::csi::Node::remote(volumes.clone(), config, volumes)).await?;
    let node = node.map_err(|error| Failure::failed(format!("the CSI node: {}", with_causes(&error))))?;
    // A volume that cannot be mounted is logged and fails its own calls; the others are served.
    node.recover().await;
    Ok(::csi::node_routes(node))
}

/// The certificates of `--ca`.
fn authority(file: &Path) -> Result<String, Failure> {
    let failed = |why: String| Failure::failed(format!("--ca {}: {why}", file.display()));
    let (bytes, _) = read_named(file, CA_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| failed("it is not PEM".to_owned()))
}

/// Completes when nothing is mounted any more.
async fn unneeded(mounts: &Arc<Table>) {
    let (mut was_needed, started) = (false, Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let looking = mounts.clone();
        let is_empty = tokio::task::spawn_blocking(move || looking.is_empty()).await.unwrap_or(false);
        was_needed |= !is_empty;
        if is_empty && (was_needed || mounts.is_used() || started.elapsed() > FIRST_MOUNT) {
            return;
        }
    }
}

/// The folder for what mounts answer ahead of their stores in this boot. Those of earlier boots are of mounts that ended with
/// them.
fn journals(state_dir: &Path) -> Result<PathBuf, Failure> {
    let folder = state_dir.join(JOURNALS);
    let boot = ::csi::sealed::boot_id().map_err(|error| Failure::failed(with_causes(&error)))?;
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        if entry.file_name() != boot.as_str()
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, folder = %entry.path().display(), "what mounts of an earlier boot left is not removed");
        }
    }
    Ok(folder.join(boot))
}

/// The number of this process: higher than that of each earlier one with this folder.
fn next_incarnation(state_dir: &Path) -> Result<Incarnation, Failure> {
    let disk = RealDisk::new();
    let file = state_dir.join(INCARNATION);
    let failed = |error: objstore::Error| Failure::failed(with_causes(&error));
    disk.make_dir_all(state_dir).map_err(failed)?;
    let known = disk.exists(&file).map_err(failed)?.then(|| disk.read_all(&file)).transpose().map_err(failed)?;
    let last = known.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse::<u64>().ok()).unwrap_or(0);
    let next = last + 1;
    disk.write_atomic(&file, format!("{next}\n").as_bytes(), 0o600).map_err(failed)?;
    Ok(Incarnation(next))
}

async fn holding(flags: &NodeFlags, state_dir: &Path) -> Result<(Option<Holding>, Inheritance), Failure> {
    if flags.no_holder {
        return Ok(Default::default());
    }
    let socket = flags.holder_endpoint.clone().map_or_else(|| default_socket(state_dir, "holder"), Ok)?;
    let missing = match (flags.start_holder, flags.while_needed) {
        (false, _) => Missing::Await,
        (true, true) => Missing::StartWithNode(state_dir.to_owned()),
        (true, false) => Missing::Start,
    };
    let state_dir = state_dir.to_owned();
    let found = blocking("asking the holder", move || Holding::find(&socket, missing, &state_dir)).await?;
    found.map(|(holding, inheritance)| (Some(holding), inheritance)).map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_higher_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("state");
        assert_eq!(next_incarnation(&dir).expect("the first"), Incarnation(1));
        assert_eq!(next_incarnation(&dir).expect("the second"), Incarnation(2));
        std::fs::write(dir.join(INCARNATION), "damaged").expect("written");
        assert!(next_incarnation(&dir).is_ok());
    }
}
