//! The server: opens the store, binds every endpoint, announces itself, and shuts down in the reverse order.
//!
//! - A data folder that belongs to another user, or holds something else, is refused before anything is created or
//!   bound.
//! - TCP ports are bound before the store is opened, so that a second server with the same settings changes nothing.
//!   Unix sockets are bound after it, because the store's lock decides whose they are.
//! - The server is announced only when every endpoint is bound; one that cannot be bound ends the start, and its flag
//!   is named.
//! - Mounts of an earlier process are taken over before any endpoint opens, and missing mounts with --keep are made
//!   again.
//! - On SIGTERM or SIGINT the server accepts no new work, and requests in progress get [`DRAIN_LIMIT`]. Then it leaves
//!   the mounts to the holder, or ends them if there is none, and closes the store. A second signal ends the process at
//!   once.
//! - With metadata on other machines a server first waits until it owns the log (`standby`), and only its HTTP port is open.
//!   When it loses the log, the process starts its program again, as after a crash, and is a standby.
//! - A crash leaves the store to its own recovery, stale sockets to the next start, and mounts to the holder. Without a
//!   holder they are dead: those of CSI are rebuilt from their stage records, those of `amphora mount --keep` are made
//!   again, and the others are reported until they are mounted again or unmounted.

mod left;
mod ports;
mod root;
mod standby;
mod wiring;

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use objstore::clock::{Clock as _, SystemClock};
use objstore::lifecycle::Worker;
use objstore::{Standby, Store};

use crate::admin::{Handover, Upgrade};
use crate::backups::Backups;
use crate::config::{Env, Flags, Settings, SocketPath};
use crate::endpoints::{DRAIN_LIMIT, OpenListeners, Signals, Sockets, blocking, http};
use crate::failure::{Failure, with_causes};
use crate::metrics::{Metrics, Sources};
use crate::mounts::{Inheritance, Table};
use crate::process::{Notify, PassedSockets, Program};
use ports::Ports;
use standby::SteppingDown;

/// The number of threads for blocking work: enough to keep the disk busy, few enough for a small machine.
const BLOCKING_THREADS: usize = 128;

/// Runs a server until it is stopped.
///
/// # Errors
/// [`Failure::Usage`] for invalid settings, [`Failure::Failed`] for a failed start or a failed endpoint.
pub fn run(flags: Flags, admin: Option<SocketPath>, env: Env<'_>) -> Result<(), Failure> {
    crate::memory::set_up();
    let audit_log = flags.audit_log.as_deref().filter(|_| !flags.check_config);
    crate::logs::start(&flags.log_level, flags.log_format, audit_log)?;
    if !flags.core_dumps {
        crate::process::forbid_core_dumps();
    }
    // Recorded before anything is opened or replaced.
    let (passed, program) = (PassedSockets::take(env), Program::started(env));
    left::wait_for_children();
    crate::process::raise_open_files();
    let check = flags.check_config;
    let settings = Settings::new(flags, admin, env)?;
    let workers = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("no async runtime: {error}")))?;
    if check {
        return runtime.block_on(wiring::check(&settings));
    }
    let result = runtime.block_on(serve(settings, &Notify::new(env), program.clone(), passed));
    // A hanging blocking call, for instance on a dead disk, must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result? {
        End::Stopped => Ok(()),
        End::HandedOver => Err(program.replace(&PassedSockets::default())),
        End::Upgrade(passed) => Err(program.replace(&passed)),
    }
}

/// How a server ended.
enum End {
    /// It stopped.
    Stopped,
    /// It continues as the next program, with these sockets.
    Upgrade(PassedSockets),
    /// Another server has the store, and this one starts again as its standby.
    HandedOver,
}

async fn serve(
    settings: Settings,
    notify: &Notify,
    program: Program,
    mut passed: PassedSockets,
) -> Result<End, Failure> {
    let mut signals = Signals::new()?;
    wiring::folder(&settings)?;
    let csi_config = wiring::csi(&settings)?;
    let http = ports::http(&settings, &mut passed).await?;
    let stepping = SteppingDown::new(program.clone());
    let (standby, log) = match &settings.metadata {
        None => (None, None),
        Some(metadata) => {
            let owner = standby::wait(&settings, metadata, &http.0, stepping.lost(), &mut signals, notify).await?;
            let Some(standby::Owned { standby, log }) = owner else { return Ok(End::Stopped) };
            (Some(standby), Some(log))
        }
    };
    let ports = Ports::bind(&settings, http, &mut passed).await?;
    let (holding, inheritance) = wiring::holding(&settings).await?;
    let store = open(&settings, &inheritance, standby).await?;
    fuse::keep_processors_awake(settings.keep_awake);
    tokio::spawn(crate::memory::give_back_when_calm());
    let mounts = Arc::new(wiring::mounts(&settings, &store, holding)?);
    let adopting = mounts.clone();
    blocking("taking mounts over", move || {
        adopting.adopt(inheritance);
        adopting.restore();
    })
    .await?;
    let upgrade = Upgrade { program, wanted: Arc::default() };
    let http_address = ports.http_address.to_string();
    let handover = log.map(|log| Handover { log, wanted: Arc::default(), http_address });
    let ends = (upgrade, handover.clone());
    let served = match Server::start(&settings, csi_config, ports, &store, &mounts, ends, passed).await {
        Ok(server) => {
            // Endpoints stay open meanwhile, and programs in the mounts are served.
            store.mounts_told().await;
            server.until_stopped(signals, notify).await
        }
        Err(failure) => Err(failure),
    };
    let handed_over = handover.filter(|_| matches!(served, Ok(End::HandedOver)));
    // A loss of the log starts this program again, which is what follows a hand-over anyway.
    if handed_over.is_none() {
        stepping.end();
    }
    if matches!(served, Ok(End::Upgrade(_))) {
        store.leave();
    }
    // Also after a failed start: nothing may be answered from a closed store.
    let ending = wiring::ending(&settings, &served);
    if let Err(failure) = blocking("ending the mounts", move || mounts.end_all(&ending)).await {
        tracing::error!(%failure, "mounts could not be unmounted in time");
    }
    let closing = move || {
        let epoch = handed_over.as_ref().map(Handover::epoch);
        store.close();
        if let (Some(handover), Some(Ok(epoch))) = (handed_over, epoch) {
            handover.await_successor(epoch);
        }
    };
    let closed = blocking("closing the store", closing).await;
    served.and_then(|end| closed.map(|()| end))
}

async fn open(settings: &Settings, inheritance: &Inheritance, standby: Option<Standby>) -> Result<Store, Failure> {
    let mut options = wiring::store(settings);
    options.continued = inheritance.sessions();
    let opened = blocking("opening the store", move || match standby {
        Some(standby) => standby.into_store(options),
        None => objstore::open(options),
    });
    let opened = opened.await?;
    let store = opened.map_err(|error| Failure::failed(with_causes(&error)))?;
    // Set before any mount is opened or taken over: without these rules a policy closes every mount that a key opened.
    store.set_mount_policies(Arc::new(s3::MountRules));
    Ok(store)
}

/// A server with all endpoints open.
struct Server {
    listeners: OpenListeners,
    sockets: Sockets,
    lifecycle: Arc<Worker>,
    scrub: Arc<objstore::scrub::Worker>,
    upgrade: Upgrade,
    handover: Option<Handover>,
    store: Store,
    passed: PassedSockets,
    ready: String,
}

/// Why a server ends.
enum Ended {
    Signal,
    Upgrade,
    Handover,
}

impl Server {
    async fn start(
        settings: &Settings,
        mut csi_config: csi::Config,
        mut ports: Ports,
        store: &Store,
        mounts: &Arc<Table>,
        (upgrade, handover): (Upgrade, Option<Handover>),
        mut passed: PassedSockets,
    ) -> Result<Self, Failure> {
        let root = root::key(settings, store).await?;
        let (mut listeners, mut sockets) = (OpenListeners::new(), Sockets::default());
        let mut open = |name, path| sockets.open(name, path, &mut passed);
        let admin = open("admin", &settings.sockets.admin)?;
        let csi = open("csi", &settings.sockets.csi)?;
        let csi_node = settings.sockets.csi_node.as_ref().map(|path| open("csi-node", path)).transpose()?;
        let cosi = open("cosi", &settings.sockets.cosi)?;
        let node = match settings.sockets.serves_csi_node {
            true => Some(wiring::csi_node(csi_config.clone(), store, mounts).await?),
            false => None,
        };

        let (s3_url, http_url) = (ports.s3_url(), format!("http://{}", ports.http_address));
        let website_url = ports.website_url();
        let lifecycle = wiring::lifecycle(settings, store)?;
        let scrub = wiring::scrub(settings, store)?;
        let backups = Arc::new(Backups::open(&settings.data_dir));
        let volume_address = ports.volume.as_ref().map(|(_, address)| address.to_string());
        let (volumes, volume_url) = wiring::volumes(settings, store, ports.volume.take(), &mut listeners).await?;
        csi_config.authority = wiring::authority(settings).await?;
        let sources = Sources {
            store,
            mounts,
            lifecycle: &lifecycle,
            scrub: &scrub,
            backups: &backups,
            volumes: volumes.as_ref(),
        };
        let Metrics { registry, s3: s3_metrics, audit, buckets } = Metrics::new(&sources);
        // In the background: requests count per bucket once the buckets are known.
        tokio::task::spawn_blocking(move || buckets.refresh());
        let mount_service = crate::admin::MountService {
            mounts: mounts.clone(),
            store: Some(store.clone()),
            node: settings.node_id.clone(),
            folder: settings.data_dir.display().to_string(),
            started: Instant::now(),
        };
        let admin_service = crate::admin::Service {
            store: store.clone(),
            mounts: mounts.clone(),
            root_account: root.account,
            data_dir: settings.data_dir.display().to_string(),
            s3_address: ports.s3_address.to_string(),
            s3_url: settings.s3_endpoint_url.clone().unwrap_or_else(|| s3_url.clone()),
            started: Instant::now(),
            started_at: SystemClock.now(),
            upgrade: upgrade.clone(),
            handover: handover.clone(),
            lifecycle: lifecycle.clone(),
            scrub: scrub.clone(),
            backups,
            volumes: volumes.zip(volume_address),
        };
        let trail = audit.clone();
        let auditor = s3::Auditor::new(move |change| trail.settings(change));
        let s3 = wiring::s3(settings, store, s3_metrics, auditor, ports.tls)?;
        let s3 = match ports.website {
            Some((listener, _)) => s3.with_website(listener),
            None => s3,
        };
        listeners.open("S3", s3.serve(ports.s3, listeners.stopped()));
        let source = http::Source::new(Some(store), registry, listeners.stopping());
        listeners.open("HTTP", http::serve(ports.http, source, listeners.stopped()));
        listeners.open_grpc("COSI", cosi, cosi::routes(store.clone(), wiring::cosi(settings, &s3_url)?), &audit);
        let controller = csi::controller_routes(store.clone(), &csi_config);
        match (csi_node, node) {
            (Some(socket), Some(node)) => {
                listeners.open_grpc("CSI", csi, controller, &audit);
                listeners.open_grpc("CSI node", socket, csi::node_routes(node), &audit);
            }
            (_, Some(node)) => listeners.open_grpc("CSI", csi, csi::with_node(controller, node), &audit),
            (_, None) => listeners.open_grpc("CSI", csi, controller, &audit),
        }
        listeners.open_grpc("admin", admin, crate::admin::routes(admin_service, mount_service), &audit);
        let credentials = root.credentials.display();
        if root.is_new && settings.hints {
            crate::hints::first_start(&s3_url, &root.credentials, &settings.region);
        }
        let website = website_url.map_or_else(String::new, |url| format!(" website={url}"));
        let ready =
            format!("ready s3={s3_url} http={http_url}{website}{volume_url} {sockets} credentials={credentials}");
        let store = store.clone();
        Ok(Self { listeners, sockets, lifecycle, scrub, upgrade, handover, store, passed, ready })
    }

    /// Announces the server, waits for a signal or a failed endpoint, and closes everything except the store.
    async fn until_stopped(mut self, mut signals: Signals, notify: &Notify) -> Result<End, Failure> {
        announce(&self.ready)?;
        notify.ready();
        let ended = tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, "stopping; a second signal ends the process at once");
                Ok(Ended::Signal)
            }
            () = self.upgrade.wanted.notified() => Ok(Ended::Upgrade),
            () = Handover::wanted(self.handover.as_ref()) => Ok(Ended::Handover),
            failure = self.listeners.broken() => Err(failure),
        };
        signals.exit_at_next();
        if matches!(ended, Ok(Ended::Upgrade)) {
            notify.reloading();
            std::mem::take(&mut self.sockets).leave();
            let passed = std::mem::take(&mut self.passed);
            self.close().await;
            return Ok(End::Upgrade(passed));
        }
        if matches!(ended, Ok(Ended::Handover)) {
            notify.reloading();
            self.close().await;
            return Ok(End::HandedOver);
        }
        notify.stopping();
        self.save().await;
        self.close().await;
        ended.map(|_| End::Stopped)
    }

    /// Saves what is behind while requests are still answered, if another server may wait for this one to end.
    async fn save(&self) {
        if self.handover.is_none() {
            return;
        }
        let store = self.store.clone();
        if let Ok(Err(error)) = blocking("saving what is behind", move || store.save_everything()).await {
            tracing::warn!(%error, "what is behind could not be saved before the end; it is tried again at the end");
        }
    }

    async fn close(self) {
        drop((self.sockets, self.passed, self.store));
        // Slightly longer than each endpoint's own limit, so that it can report what it cut off.
        self.listeners.close(DRAIN_LIMIT + s3::DELIVERY_LIMIT + Duration::from_secs(1)).await;
        let lifecycle = self.lifecycle;
        if let Err(failure) = blocking("stopping the lifecycle rules", move || lifecycle.stop()).await {
            tracing::error!(%failure, "the lifecycle thread did not stop in time");
        }
        let scrub = self.scrub;
        if let Err(failure) = blocking("stopping the scrub", move || scrub.stop()).await {
            tracing::error!(%failure, "the scrub did not stop in time");
        }
    }
}

/// Prints the ready line on stdout, for programs that wait for it. A closed stdout is no error.
fn announce(ready: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{ready}").and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("the ready line cannot be written: {error}")))
        }
        _ => {
            tracing::info!("{ready}");
            Ok(())
        }
    }
}
