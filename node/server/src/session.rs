//! An open session: its files, its slots, its lease and its changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use node_codec::session::{Open, Opened, Renew, Renewed};
use node_session::lease::Granted;
use node_session::{Boot, Incarnation, Moment, SessionId, Terms};
use node_wire::credential::Claim;
use node_wire::refusal::{Reason, Refusal};
use objstore_files::RequestId;
use parking_lot::Mutex;

use crate::Clock;
use crate::changes::Deliveries;
use crate::counts::Counts;
use crate::ended::Why;
use crate::refusals::{fenced, superseded};
use crate::slots::{SLOTS, Slots, first_slot};
use crate::store::{Opening, StoredSession};
use crate::workers::Share;

/// An open session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The id as connections show it.
    pub(crate) name: Bytes,
    pub(crate) boot: Boot,
    pub(crate) stored: Arc<dyn StoredSession>,
    /// For its calls.
    pub(crate) share: Share,
    /// For what it asks for besides.
    pub(crate) control: Share,
    pub(crate) slots: Slots,
    pub(crate) deliveries: Arc<Deliveries>,
    /// When this process opened it.
    pub(crate) since: Moment,
    pub(crate) counts: Counts,
    terms: Terms,
    node: String,
    claim: Claim,
    lease: Mutex<Granted>,
    incarnation: AtomicU64,
    is_over: AtomicBool,
}

impl Session {
    pub(crate) fn new(
        opening: &Opening,
        opened: crate::store::Opened,
        (name, boot): (Bytes, Boot),
        (share, control): (Share, Share),
        now: Moment,
    ) -> Self {
        let crate::store::Opened { session: stored, terms } = opened;
        let slots = Slots::new(opening.session, opening.incarnation, &*stored);
        Self {
            id: opening.session,
            name,
            boot,
            stored,
            share,
            control,
            slots,
            deliveries: Arc::new(Deliveries::new(boot, terms.changes)),
            since: now,
            counts: Counts::default(),
            terms,
            node: opening.node.clone(),
            claim: opening.claim.clone(),
            lease: Mutex::new(Granted::new(terms, now)),
            incarnation: AtomicU64::new(opening.incarnation.0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether a connection with this credential belongs to the session: its id alone opens nothing.
    ///
    /// # Errors
    /// The refusal that the node receives.
    pub(crate) fn belongs(&self, node: &str, claim: &Claim) -> Result<(), Refusal> {
        if self.node == node && self.claim == *claim {
            return Ok(());
        }
        Err(Refusal::new(Reason::Credential, "the session was opened by another node or with another credential"))
    }

    /// Whether calls of a process of the node are still served.
    ///
    /// # Errors
    /// The refusal that the node receives.
    pub(crate) fn check(&self, incarnation: Incarnation) -> Result<(), Refusal> {
        if self.is_closed() {
            return Err(fenced());
        }
        if self.incarnation.load(Ordering::Acquire) != incarnation.0 {
            return Err(superseded());
        }
        Ok(())
    }

    /// A node opens the session, or comes back to it.
    ///
    /// # Errors
    /// The refusal that the node receives.
    pub(crate) fn resume(&self, open: &Open, now: Moment) -> Result<Opened, Refusal> {
        if self.is_closed() {
            return Err(fenced());
        }
        if open.incarnation < self.incarnation.load(Ordering::Acquire) {
            return Err(superseded());
        }
        self.slots.supersede(Incarnation(open.incarnation))?;
        self.incarnation.fetch_max(open.incarnation, Ordering::AcqRel);
        let age = if self.keep(now) { Duration::ZERO } else { self.lease.lock().age(now) + Duration::from_millis(1) };
        Ok(Opened {
            about: node_codec::encode_about(&self.stored.files().about()).into(),
            boot: self.boot.0,
            lease_ms: millis(self.terms.lease),
            slots: SLOTS,
            first_slot: first_slot(Incarnation(open.incarnation)),
            acknowledged: self.deliveries.acknowledged(),
            age_ms: millis(age),
            last: self.slots.last(),
            keeps_locks: self.stored.files().keeps_locks(),
            leases: self.stored.leases(),
        })
    }

    /// A renewal was received.
    ///
    /// # Errors
    /// The refusal that the node receives.
    pub(crate) fn renew(&self, renew: &Renew, now: Moment) -> Result<Renewed, Refusal> {
        self.check(Incarnation(renew.incarnation))?;
        Ok(Renewed { renewed: self.keep(now) })
    }

    /// Renews the lease, unless changes wait for the node's acknowledgement for too long. A renewal and a reconnection both
    /// come through here: a node that acknowledges nothing would otherwise keep them waiting for as long as it reconnects.
    fn keep(&self, now: Moment) -> bool {
        let renewed = !self.is_behind(now);
        let mut lease = self.lease.lock();
        if renewed {
            lease.renew(now);
        } else {
            lease.refuse();
        }
        renewed
    }

    /// Whether the node has left a change unacknowledged for too long.
    pub(crate) fn is_behind(&self, now: Moment) -> bool {
        self.deliveries.owed(now) >= self.terms.acknowledgement()
    }

    /// How long the lease lasts from now on, and how long ago it was renewed.
    pub(crate) fn lease(&self, now: Moment) -> (Duration, Duration) {
        let lease = self.lease.lock();
        (lease.left(now), lease.age(now))
    }

    /// Why the session is overdue. A node that is cut off acknowledges nothing either: it is behind only if it asked for a
    /// renewal and was refused.
    pub(crate) fn why_overdue(&self, now: Moment) -> Why {
        let lease = self.lease.lock();
        if !lease.is_over(now) {
            Why::Access
        } else if lease.is_refused() {
            Why::Behind
        } else {
            Why::Lease
        }
    }

    /// Requests whose recorded outcomes are no longer needed.
    pub(crate) fn answered(&self, requests: &[u64]) {
        for unique in requests {
            self.stored.files().answered(RequestId { unique: *unique, resent: false });
        }
    }

    /// Begins to take the changes of the store, once: those from when this returns are delivered.
    pub(crate) fn follow(&self, clock: &Clock) {
        if !self.deliveries.begin() {
            return;
        }
        let (deliveries, clock) = (Arc::clone(&self.deliveries), Arc::clone(clock));
        let changes = self.stored.files().changes();
        let thread = std::thread::Builder::new().name("node-changes".into());
        if let Err(error) = thread.spawn(move || deliveries.take(changes, &clock)) {
            tracing::error!(%error, "there is no thread for the changes of a session: its node drops its caches");
            self.deliveries.lose();
        }
    }

    /// Whether the node serves nothing any more, or may serve nothing because the store has ended the session.
    pub(crate) fn is_overdue(&self, now: Moment) -> bool {
        self.lease.lock().is_over(now) || self.stored.is_over()
    }

    /// Executes no call of the session from now on.
    pub(crate) fn close(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether the session is ended or being ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends the changes, after the store has ended the session or is about to leave it.
    pub(crate) fn stop(&self) {
        self.deliveries.stop();
        self.stored.files().close_changes();
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
