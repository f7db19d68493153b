//! What all parts of a session share on the node: its connections, its stage, its lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use node_codec::session::{Ask, Control, write};
use node_session::lease::{Lease, Standing};
use node_session::{Boot, Incarnation, Moment, Terms};
use node_wire::client::{CallError, Client};
use node_wire::refusal::{Reason, Refusal};
use node_wire::service::Answer;
use objstore_base::error::{Error, Posix, Result};
use objstore_files::{About, ContentOp, Op, RequestId};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::Clock;
use crate::cache::Cache;
use crate::forgets::Forgets;
use crate::misses::Misses;
use crate::options::Options;
use crate::queue::Queue;
use crate::slots::Slots;
use crate::stream::Stream;
use crate::trips::Trips;
use crate::versions::Versions;
use crate::writers::Writers;

/// How far a session is.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// It was not open yet.
    Opening,
    /// Calls are sent.
    Open,
    /// Every call fails.
    Lost(Refusal),
}

/// A session on the node.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) options: Options,
    /// Whether a ticket alone opens the session.
    pub(crate) is_of_ticket: bool,
    pub(crate) stage: watch::Sender<Stage>,
    pub(crate) about: OnceLock<About>,
    pub(crate) slots: Slots,
    pub(crate) stream: Stream,
    pub(crate) writers: Writers,
    /// What is answered without a trip.
    pub(crate) cache: Cache,
    pub(crate) forgets: Arc<Forgets>,
    pub(crate) misses: Misses,
    pub(crate) versions: Versions,
    pub(crate) trips: Trips,
    /// What was answered here and is not made at the store yet.
    pub(crate) queue: Queue,
    pub(crate) lease: Mutex<Option<Lease>>,
    /// When the last opening or renewal was sent that the store answered, and for which standing the caches were dropped.
    heard: Mutex<(Moment, Standing)>,
    /// The terms of the session, once it is open.
    pub(crate) terms: OnceLock<Terms>,
    boot: AtomicU64,
    /// Whether the store keeps file locks.
    pub(crate) keeps_locks: AtomicBool,
    /// Requests whose recorded outcomes may be removed.
    answered: Mutex<Vec<u64>>,
    /// Wakes the renewal early.
    pub(crate) wake: Notify,
    /// The number of the last call that the mount made for itself.
    own: AtomicU64,
}

/// So many answered requests are sent before the next renewal is due.
const ANSWERED_EARLY: usize = 1024;
/// Beyond so many that could not be sent, their records stay until the session ends.
const ANSWERED_KEPT: usize = 1 << 16;

impl Link {
    pub(crate) fn new(client: Client, options: Options, is_of_ticket: bool) -> Arc<Self> {
        let (forgets, resumes) = (Arc::<Forgets>::default(), options.resumes);
        Arc::new(Self {
            client,
            options,
            is_of_ticket,
            stage: watch::Sender::new(Stage::Opening),
            about: OnceLock::new(),
            slots: Slots::default(),
            stream: Stream::default(),
            writers: Writers::default(),
            cache: Cache::new(Arc::clone(&forgets), resumes),
            forgets,
            misses: Misses::default(),
            versions: Versions::default(),
            trips: Trips::default(),
            queue: Queue::default(),
            lease: Mutex::new(None),
            heard: Mutex::new((Moment::default(), Standing::Fresh)),
            terms: OnceLock::new(),
            boot: AtomicU64::new(0),
            keeps_locks: AtomicBool::new(false),
            answered: Mutex::new(Vec::new()),
            wake: Notify::new(),
            own: AtomicU64::new(0),
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.options.clock
    }

    /// The opening of the store that the session was opened with last.
    pub(crate) fn boot(&self) -> Boot {
        Boot(self.boot.load(Ordering::Acquire))
    }

    pub(crate) fn set_boot(&self, boot: Boot) {
        self.boot.store(boot.0, Ordering::Release);
    }

    /// Sends a call over the control connection.
    pub(crate) async fn control(&self, ask: Ask) -> std::result::Result<Answer, CallError> {
        self.client.control(write(&Control { ask: Some(ask) })).await
    }

    /// The session is lost, unless it was before: nothing is served any more, and the mount drops its caches.
    pub(crate) fn lose(&self, refusal: &Refusal) {
        if self.fail_calls(refusal) {
            tracing::error!(why = refusal.message, "the session of a mount is lost");
            self.stream.close(true);
        }
    }

    /// The mount ended the session: a later call fails at once.
    pub(crate) fn finish(&self) {
        self.fail_calls(&Refusal::new(Reason::Session, "the mount ended its session"));
        self.stream.close(false);
    }

    /// Every call fails from now on; whether none did before.
    fn fail_calls(&self, refusal: &Refusal) -> bool {
        if let Some(lease) = &mut *self.lease.lock() {
            lease.lost();
        }
        self.stage.send_if_modified(|stage| {
            let is_first = !matches!(stage, Stage::Lost(_));
            if is_first {
                *stage = Stage::Lost(refusal.clone());
            }
            is_first
        })
    }

    /// The store has the session, as it answered to what was sent at this moment. Its lease runs from `renewed` on.
    pub(crate) fn heard(&self, sent: Moment, renewed: Option<Moment>) {
        if let (Some(lease), Some(renewed)) = (&mut *self.lease.lock(), renewed) {
            lease.resumed(renewed);
        }
        let mut heard = self.heard.lock();
        if heard.1 > Standing::Fresh {
            tracing::info!("the store of a mount is reached again");
        }
        *heard = (heard.0.max(sent), Standing::Fresh);
    }

    /// Looks at the lease: the caches are dropped when it is half over and when it is over. The session is lost if the
    /// store was not reached for too long.
    pub(crate) fn look(&self) {
        let now = (self.clock())();
        let Some(standing) = self.lease.lock().as_mut().map(|lease| lease.standing(now)) else { return };
        let (sent, drops) = {
            let mut heard = self.heard.lock();
            let before = std::mem::replace(&mut heard.1, standing);
            (heard.0, standing > before)
        };
        if standing == Standing::Expired && now.since(sent) >= self.options.patience {
            let why = "the lease of the session is over, and the store was not reached for too long; mount again";
            return self.lose(&Refusal::new(Reason::Session, why));
        }
        if drops {
            let why = self.client.stats().why.unwrap_or_default();
            tracing::warn!(?standing, why, "the store of a mount is not reached: nothing is served from caches");
            self.stream.drop_caches();
        }
    }

    /// Whether the lease allows to serve from caches now.
    pub(crate) fn is_fresh(&self) -> bool {
        let now = (self.clock())();
        self.lease.lock().as_mut().is_some_and(|lease| lease.standing(now) == Standing::Fresh)
    }

    /// Whether every call fails.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Lost(_))
    }

    /// Completes when the store has made the changes up to this number that were answered here, or they have failed.
    ///
    /// # Errors
    /// The refusal with which the session was lost.
    pub(crate) async fn handed_in(&self, number: u64) -> std::result::Result<(), Refusal> {
        if self.queue.is_made(number) {
            return Ok(());
        }
        tokio::select! {
            () = self.queue.made(number) => Ok(()),
            refusal = self.lost() => Err(refusal),
        }
    }

    /// Completes when the session is lost.
    pub(crate) async fn lost(&self) -> Refusal {
        let mut stage = self.stage.subscribe();
        loop {
            if let Stage::Lost(refusal) = &*stage.borrow_and_update() {
                return refusal.clone();
            }
            // The sender lives as long as this.
            let _ = stage.changed().await;
        }
    }

    /// Waits until calls can be sent.
    pub(crate) async fn open(&self) -> std::result::Result<(), Refusal> {
        let mut stage = self.stage.subscribe();
        let decided = stage.wait_for(|stage| !matches!(stage, Stage::Opening)).await;
        match decided.as_deref() {
            Ok(Stage::Lost(refusal)) => Err(refusal.clone()),
            _ => Ok(()),
        }
    }

    /// A number for a call that the mount makes for itself, which no request of the kernel has: those count from 1.
    pub(crate) fn own_request(&self) -> RequestId {
        let Incarnation(incarnation) = self.options.incarnation;
        let number = self.own.fetch_add(1, Ordering::Relaxed);
        let unique = 1 << 62 | (incarnation & 0xff_ffff) << 36 | number & 0xf_ffff_ffff;
        RequestId { unique, resent: false }
    }

    /// The recorded outcome of a request is no longer needed.
    pub(crate) fn answered(&self, request: RequestId) {
        self.slots.answered(request);
        let mut answered = self.answered.lock();
        if answered.len() < ANSWERED_KEPT {
            answered.push(request.unique);
        }
        if answered.len() == ANSWERED_EARLY {
            self.wake.notify_one();
        }
    }

    /// Takes up to `most` of the answered requests.
    pub(crate) fn take_answered(&self, most: usize) -> Vec<u64> {
        let mut answered = self.answered.lock();
        let rest = answered.len().saturating_sub(most);
        answered.split_off(rest)
    }

    /// Keeps answered requests that could not be sent.
    pub(crate) fn put_back(&self, unsent: Vec<u64>) {
        let mut answered = self.answered.lock();
        if answered.len() + unsent.len() <= ANSWERED_KEPT {
            answered.extend(unsent);
        }
    }
}

/// The error of a call that was not executed because the session is lost.
pub(crate) fn lost<T>(op: &Op<'_>) -> Result<T> {
    const EIO: i32 = 5;
    match op {
        // What a program wrote and believes to be stored cannot be: the error is not that of a name.
        Op::Content(ContentOp::WriteBack { .. } | ContentOp::Sync { .. } | ContentOp::SyncVolume {}) => {
            Err(Error::io("the session with the store is lost", std::io::Error::from_raw_os_error(EIO)))
        }
        _ => Err(Posix::Stale.into()),
    }
}
