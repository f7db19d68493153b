//! A server with metadata on other machines before it owns the log, and the end of its ownership.
//!
//! - A standby follows the log into its own copy, so that the takeover replays little. It serves `/healthz` and
//!   `/readyz` alone; `/readyz` is 503 and says which server owns the log.
//! - A PostgreSQL or an S3 store that cannot be reached is waited for. One that may not be used ends the start with the reason.
//! - A server that has lost the log must answer nothing more. It starts its own program again, like after a crash: the
//!   mounts stay with the holder, and the new program is a standby.
//!
//! A crash leaves the copy at one of the log's batches; the lease of an owner ends by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use objstore::meta::fjall_engine::{Checkpoints, Claimed, Lost};
use objstore::meta::log;
use objstore::{BucketVault, Error, Ownership, Standby};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::wiring;
use crate::config::{Metadata, Settings};
use crate::endpoints::{Signals, blocking, http};
use crate::failure::{Failure, with_causes};
use crate::process::{Notify, PassedSockets, Program};

/// How long other servers are kept out after each renewal. The owner renews six times within it.
const LEASE: Duration = Duration::from_secs(6);

/// How often a standby looks whether the log is free: a planned takeover waits that long.
const LOOK: Duration = Duration::from_millis(250);

/// How often a standby notes in the log that it follows.
const ANNOUNCE: Duration = Duration::from_secs(1);

/// The pause of a standby between two pages that are not full.
const FOLLOW: Duration = Duration::from_millis(10);

/// How long a standby waits before it tries to reach the log again.
const RETRY: Duration = Duration::from_secs(1);

/// After how many bytes of log a checkpoint is made: some seconds of replay.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// How often progress and failures are logged while they last.
const REPORT: Duration = Duration::from_secs(5);

/// A page with fewer entries is near the end of the log.
const NEAR: usize = 1024;

/// The pause before a program that lost the log is started again, so that a log that refuses everything costs little.
const RESTART: Duration = Duration::from_millis(500);

/// How long nothing is answered after the loss of the log: far longer than the pause, so that mounts and S3 clients see the
/// end of this program and no error.
const WITHHELD: Duration = Duration::from_secs(5);

/// What happens to this process when the log is lost.
pub(super) struct SteppingDown {
    program: Program,
    state: Arc<AtomicU8>,
}

/// The server is about to serve, or serves.
const SERVING: u8 = 0;
/// The program is about to be started again.
const REPLACED: u8 = 1;
/// The server ends by itself.
const ENDING: u8 = 2;

impl SteppingDown {
    pub(super) fn new(program: Program) -> Self {
        Self { program, state: Arc::new(AtomicU8::new(SERVING)) }
    }

    /// The process ends by itself now: it is not started again.
    pub(super) fn end(&self) {
        // If it is about to be replaced, it stays so.
        let _ = self.state.compare_exchange(SERVING, ENDING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Starts the program again, once; or ends a process that is ending, since nothing can be written any more.
    pub(super) fn lost(&self) -> Lost {
        let (program, state) = (self.program.clone(), Arc::clone(&self.state));
        Arc::new(move |why| match state.compare_exchange(SERVING, REPLACED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                tracing::error!(why, "this server has lost the log of its metadata: it starts again, as a standby");
                start_again(program.clone());
            }
            Err(REPLACED) => {}
            Err(_) => {
                tracing::error!(why, "this server has lost the log of its metadata while it stopped");
                std::process::exit(1);
            }
        })
    }
}

fn start_again(program: Program) {
    let replacing = move || {
        std::thread::sleep(RESTART);
        let failure = program.replace(&PassedSockets::default());
        tracing::error!(%failure, "this process ends, because another server may own the store");
        std::process::exit(1);
    };
    if std::thread::Builder::new().name("step-down".into()).spawn(replacing).is_err() {
        std::process::exit(1);
    }
}

/// A server that owns the log, before it opens the store.
pub(super) struct Owned {
    pub standby: Standby,
    pub log: Arc<dyn log::Log>,
}

/// Waits until this server owns the log; `None` if a signal stopped it before.
pub(super) async fn wait(
    settings: &Settings,
    metadata: &Metadata,
    http: &TcpListener,
    lost: Lost,
    signals: &mut Signals,
    notify: &Notify,
) -> Result<Option<Owned>, Failure> {
    let (why, shown) = watch::channel(format!("the server connects to {}", metadata.log.engine()));
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, stopping) = tokio::sync::oneshot::channel::<()>();
    let health = tokio::spawn(http::serve_standby(second(http)?, shown, async move {
        // A dropped sender stops it too.
        let _ = stopping.await;
    }));
    let mut waiting = Waiting {
        options: Box::new({
            let settings = settings.clone();
            move || wiring::store(&settings)
        }),
        metadata: metadata.clone(),
        host: settings.node_id.clone(),
        lost,
        why,
        stop: Arc::clone(&stop),
        reported: None,
    };
    notify.ready();
    let mut owning = Box::pin(blocking("waiting for the log", move || waiting.until_owner()));
    let owner = tokio::select! {
        owner = &mut owning => owner?,
        signal = signals.next() => {
            tracing::info!(signal, "stopping while this server is a standby");
            stop.store(true, Ordering::Release);
            drop(owning.await?);
            Ok(None)
        }
    };
    drop(stopped);
    health.abort();
    owner
}

/// A second handle of the listening socket, for the time until the server serves the first.
fn second(listener: &TcpListener) -> Result<TcpListener, Failure> {
    use std::os::fd::AsFd as _;
    let copied = || TcpListener::from_std(listener.as_fd().try_clone_to_owned()?.into());
    copied().map_err(|error| Failure::failed(format!("--http-listen: {error}")))
}

/// Where checkpoints of the metadata go: beside the content.
fn checkpoints(options: &objstore::Options) -> objstore::Result<Option<Checkpoints>> {
    let Some(content) = &options.bucket else { return Ok(None) };
    let vault = BucketVault::of_checkpoints(content)?;
    Ok(Some(Checkpoints { vault: Arc::new(vault), log_bytes: CHECKPOINT_BYTES }))
}

/// The thread that waits.
struct Waiting {
    options: Box<dyn Fn() -> objstore::Options + Send>,
    metadata: Metadata,
    host: String,
    lost: Lost,
    why: watch::Sender<String>,
    stop: Arc<AtomicBool>,
    /// What was logged last, and when.
    reported: Option<(String, Instant)>,
}

impl Waiting {
    fn until_owner(&mut self) -> Result<Option<Owned>, Failure> {
        let failed = |error: &Error| Failure::failed(format!("--metadata-url: {}", with_causes(error)));
        let Some(log) = self.connect()? else { return Ok(None) };
        while !self.is_stopped() {
            let followed = self.open(&log).and_then(|standby| self.follow(&*log, standby));
            match followed {
                Ok(owner) => return Ok(owner.map(|standby| Owned { standby, log })),
                // A claim without an answer may be made again.
                Err(error @ (Error::Busy { .. } | Error::Indeterminate { .. })) => self.retry(&error.to_string()),
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(None)
    }

    fn connect(&mut self) -> Result<Option<Arc<dyn log::Log>>, Failure> {
        while !self.is_stopped() {
            match self.metadata.log.open() {
                Ok(log) => return Ok(Some(log)),
                Err(error @ (log::Error::Unavailable { .. } | log::Error::Indeterminate { .. })) => {
                    self.retry(&error.to_string());
                }
                Err(error) => return Err(Failure::failed(format!("--metadata-url: {error}"))),
            }
        }
        Ok(None)
    }

    fn open(&self, log: &Arc<dyn log::Log>) -> objstore::Result<Standby> {
        let options = (self.options)();
        let (log, host, lost) = (Arc::clone(log), self.host.clone(), Arc::clone(&self.lost));
        let checkpoints = checkpoints(&options)?;
        Standby::open(&options, Ownership { log, host, lease: LEASE, lost, withheld: WITHHELD, checkpoints })
    }

    /// Follows the log until this server owns it.
    fn follow(&mut self, log: &dyn log::Log, mut standby: Standby) -> objstore::Result<Option<Standby>> {
        let (mut claimed, mut announced): (Option<Instant>, Option<Instant>) = (None, None);
        while !self.is_stopped() {
            let followed = standby.follow()?;
            if announced.is_none_or(|at| at.elapsed() >= ANNOUNCE) {
                announced = Some(Instant::now());
                // The owner learns only later that this server follows.
                if let Err(error) = standby.announce() {
                    tracing::debug!(%error, "this standby could not announce itself");
                }
            }
            if followed.entries >= NEAR {
                let end = log.tail().map_or(0, |tail| tail.next.saturating_sub(1));
                self.report(format!("replaying the metadata from the log: batch {} of {end}", followed.at));
                continue;
            }
            if followed.entries > 0 && claimed.is_some_and(|at| at.elapsed() < LOOK) {
                std::thread::sleep(FOLLOW);
                continue;
            }
            claimed = Some(Instant::now());
            match standby.claim()? {
                Claimed::Owner => {
                    tracing::info!(batch = followed.at, "this server owns the log of the metadata now");
                    return Ok(Some(standby));
                }
                Claimed::Held { server, .. } => {
                    self.report(format!("standby: the server \"{server}\" owns the log of the metadata"));
                }
            }
            if followed.entries == 0 {
                std::thread::sleep(LOOK);
            }
        }
        Ok(None)
    }

    fn retry(&mut self, why: &str) {
        self.report(format!("waiting for {}: {why}", self.metadata.log.engine()));
        std::thread::sleep(RETRY);
    }

    /// Shows what this server waits for, and logs it when it changes and now and then.
    fn report(&mut self, text: String) {
        self.why.send_if_modified(|shown| {
            let changed = *shown != text;
            shown.clone_from(&text);
            changed
        });
        let due = self.reported.as_ref().is_none_or(|(reported, at)| {
            let same_kind = reported.split(':').next() == text.split(':').next();
            let pause = if same_kind { REPORT } else { Duration::ZERO };
            at.elapsed() >= pause && !(text.starts_with("standby") && *reported == text)
        });
        if due {
            tracing::info!("{text}");
            self.reported = Some((text, Instant::now()));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
