//! The service of files of a store on another machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use node_codec::session::{Ask, Nothing};
use node_session::Incarnation;
use node_session::lease::Standing;
use node_wire::client::CallError;
use objstore_base::error::Result;
use objstore_files::{
    About, Answer, Changes, ContentOp, Context, FileService, LinkStats, NameOp, Op, RequestId, SessionStanding, Trips,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::call::{Step, call, here};
use crate::changes::RemoteChanges;
use crate::keeper::Task;
use crate::link::{Link, Stage};
use crate::prefetch;

/// How long the end of a session may take; without an answer the store ends it with its lease.
const END: Duration = Duration::from_secs(5);

/// A session with a store on another machine. Its methods wait for the network, so call them from plain threads.
pub struct Remote {
    link: Arc<Link>,
    about: About,
    runtime: Handle,
    _tasks: Vec<Task>,
}

impl Remote {
    pub(crate) fn new(link: Arc<Link>, about: About, runtime: Handle, tasks: Vec<Task>) -> Self {
        Self { link, about, runtime, _tasks: tasks }
    }

    /// Fetches a directory behind the look-ups in it that take trips.
    fn prefetch(&self, op: &Op<'_>) {
        let Op::Names(NameOp::Lookup { parent, .. }) = op else { return };
        if self.link.is_fresh() && self.link.misses.missed(*parent, (self.link.clock())()) {
            self.runtime.spawn(prefetch::directory(Arc::clone(&self.link), *parent));
        }
    }

    /// Answers a change before the store has made it, if that is allowed.
    fn queued(&self, context: &Context, op: &Op<'_>, data: &[u8]) -> Option<Answer> {
        let link = &self.link;
        // Without the changes of others nobody would take the lease back.
        if context.session != self.about.number || link.is_lost() || !link.stream.is_followed() {
            return None;
        }
        let now = link.is_fresh().then(|| (link.clock())());
        link.queue.answer((&link.cache, now), context, op, data)
    }

    fn at_the_store(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        self.prefetch(&op);
        self.link.queue.spent(&op, data);
        let synced = matches!(op, Op::Content(ContentOp::Sync { .. } | ContentOp::SyncVolume {})).then(|| op.clone());
        let answer = self.runtime.block_on(call(&self.link, context, op, data))?;
        match synced {
            // What is synced includes what was answered here, which may have failed.
            Some(Op::Content(ContentOp::Sync { ino, .. })) => self.link.queue.failure(ino)?,
            Some(Op::Content(ContentOp::SyncVolume {})) => self.link.queue.any_failure()?,
            _ => {}
        }
        Ok(answer)
    }

    /// What the lease allows now.
    pub fn standing(&self) -> Standing {
        let now = (self.link.clock())();
        self.link.lease.lock().as_mut().map_or(Standing::Expired, |lease| lease.standing(now))
    }
}

/// Sends something over the control connection until it is answered or the session is lost.
async fn ask(link: &Link, ask: Ask) {
    loop {
        let answered = tokio::select! {
            answered = link.control(ask.clone()) => answered,
            _ = link.lost() => return,
        };
        match answered {
            Err(CallError::NotSent(_) | CallError::Unknown) => {}
            Err(CallError::Refused(refusal)) if refusal.passes() => {}
            Ok(_) | Err(_) => return,
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl FileService for Remote {
    fn about(&self) -> About {
        self.about
    }

    fn call(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        match here(&self.link, context, op) {
            Step::Answered(answer) => answer,
            Step::Send(op) => match self.queued(context, &op, data) {
                Some(answer) => Ok(answer),
                None => self.at_the_store(context, op, data),
            },
        }
    }

    fn answered(&self, request: RequestId) {
        if !self.link.queue.answered(request, (self.link.clock())()) {
            self.link.answered(request);
        }
    }

    fn unreported(&self, ino: u64) -> Result<()> {
        self.link.queue.failure(ino)
    }

    fn changes(&self) -> Box<dyn Changes> {
        let changes = RemoteChanges::new(Arc::clone(&self.link), self.runtime.clone());
        self.runtime.block_on(ask(&self.link, Ask::Follow(Nothing {})));
        self.link.cache.follow();
        Box::new(changes)
    }

    /// A process of the node has a higher incarnation than all before it.
    fn process(&self) -> u32 {
        let Incarnation(number) = self.link.options.incarnation;
        number as u32
    }

    fn standing(&self) -> SessionStanding {
        if self.link.is_lost() {
            return SessionStanding::Lost;
        }
        match Self::standing(self) {
            Standing::Fresh => SessionStanding::Served,
            Standing::Stale | Standing::Expired => SessionStanding::Unreached,
        }
    }

    fn keeps_locks(&self) -> bool {
        self.link.keeps_locks.load(Ordering::Acquire)
    }

    fn link(&self) -> Option<LinkStats> {
        let now = (self.link.clock())();
        let stats = self.link.client.stats();
        let lost = match &*self.link.stage.borrow() {
            Stage::Lost(refusal) => Some(refusal.message.clone()),
            Stage::Opening | Stage::Open => None,
        };
        Some(LinkStats {
            session: self.link.options.session.0,
            standing: FileService::standing(self),
            lease_left: self.link.lease.lock().as_ref().map_or(Duration::ZERO, |lease| lease.left(now)),
            connections: stats.connections,
            reconnects: stats.reconnects,
            under_way: stats.under_way,
            round_trips: stats.round_trips,
            received_bytes: stats.bytes.received,
            sent_bytes: stats.bytes.sent,
            why: lost.or(stats.why),
        })
    }

    /// No longer than the lease is fresh.
    fn cacheable(&self) -> Option<Duration> {
        let now = (self.link.clock())();
        Some(self.link.lease.lock().as_ref().map_or(Duration::ZERO, |lease| lease.cacheable(now)))
    }

    fn trips(&self) -> Vec<Trips> {
        self.link.trips.counts()
    }

    fn close_changes(&self) {
        self.link.cache.close();
        self.link.queue.close();
        self.link.stream.close(false);
        let link = Arc::clone(&self.link);
        self.runtime.spawn(async move { timeout(END, ask(&link, Ask::Unfollow(Nothing {}))).await });
    }

    fn end(&self) {
        let link = &self.link;
        // A session that is lost ends, too.
        let _ = self.runtime.block_on(link.handed_in(link.queue.last()));
        link.queue.end();
        let ended = self.runtime.block_on(async { timeout(END, ask(&self.link, Ask::End(Nothing {}))).await });
        if ended.is_err() {
            tracing::warn!("the store was not told of the end of a session: it ends with its lease");
        }
        self.link.finish();
    }
}

impl Drop for Remote {
    /// A session that is not persistent ends with its service.
    fn drop(&mut self) {
        self.link.stream.close(false);
        if self.about.id.is_some() {
            return;
        }
        if Handle::try_current().is_err() {
            return self.end();
        }
        // Inside of the runtime nothing may wait.
        let link = Arc::clone(&self.link);
        self.runtime.spawn(async move { timeout(END, ask(&link, Ask::End(Nothing {}))).await });
    }
}
