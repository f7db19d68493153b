//! The tasks that keep a session: what happens on its connections, its renewal, the end of its lease.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use node_codec::session::{
    ANSWERED_MAX, Acknowledged, Ask, Delivered, Nothing, Open, Opened, Renew, Renewed, read, write,
};
use node_session::lease::Lease;
use node_session::{Boot, Incarnation, Terms};
use node_wire::client::{CallError, Event};
use node_wire::header::Role;
use node_wire::refusal::{Reason, Refusal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::link::{Link, Stage};
use crate::stream::Then;

/// The pause before the session is opened again after the store had no time for it.
const PAUSE: Duration = Duration::from_millis(50);

/// A task that ends with its owner.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Follows what happens on the connections.
pub(crate) async fn follow(link: Arc<Link>, mut events: mpsc::Receiver<Event>) {
    let mut _resuming = None;
    while let Some(event) = events.recv().await {
        match event {
            // In a task of its own: its answer arrives only while events are taken.
            Event::Connected(Role::Control) => _resuming = Some(Task::spawn(resume(Arc::clone(&link)))),
            Event::Notice(Role::Control, head) => {
                if let Ok(notice) = read::<Delivered>(head) {
                    deliver(&link, &notice);
                }
            }
            Event::Refused(_, refusal) if refusal.reason == Reason::Session => link.lose(&refusal),
            // The volume was unpublished. If it is published again, the ticket is another.
            Event::Refused(_, refusal) if refusal.reason == Reason::Credential && link.is_of_ticket => {
                link.lose(&refusal);
            }
            Event::Refused(_, refusal) if !refusal.passes() || refusal.reason == Reason::Unproven => {
                // A session that was open waits for the end of its lease: credentials may be repaired until then, and a
                // server that has not proven itself may be anybody. That one ends no session which a process before this
                // one has opened, either.
                let is_opening = matches!(*link.stage.borrow(), Stage::Opening);
                let is_believed = refusal.reason != Reason::Unproven || !link.options.resumes;
                tracing::warn!(why = refusal.message, "the store refuses a connection");
                if is_opening && is_believed {
                    link.lose(&refusal);
                }
            }
            Event::Connected(_) | Event::Notice(..) | Event::Lost(_) | Event::Refused(..) => {}
        }
    }
}

fn deliver(link: &Arc<Link>, notice: &Delivered) {
    let boot = notice.boot;
    let then = link.stream.receive(notice);
    let link = Arc::clone(link);
    match then {
        Then::Nothing => {}
        Then::Acknowledge(number) => {
            let acknowledged = write(&Acknowledged { boot, number });
            tokio::spawn(async move { drop(link.client.notice(acknowledged).await) });
        }
        Then::Follow => drop(tokio::spawn(async move { drop(link.control(Ask::Follow(Nothing {})).await) })),
    }
}

/// Opens the session on a new control connection.
async fn resume(link: Arc<Link>) {
    loop {
        match open(&link).await {
            Ok(()) => break,
            Err(CallError::Refused(refusal)) if refusal.passes() => {
                tracing::debug!(why = refusal.message, "the session is not open yet");
            }
            Err(CallError::Refused(refusal)) => return link.lose(&refusal),
            // The next connection opens it.
            Err(_) => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
    if link.stream.is_followed() {
        // If it fails, the connection is lost, and the next one follows.
        let _ = link.control(Ask::Follow(Nothing {})).await;
    }
}

async fn open(link: &Link) -> Result<(), CallError> {
    let Incarnation(incarnation) = link.options.incarnation;
    let resumes = link.options.resumes || link.about.get().is_some();
    let (bucket, prefix) = (link.options.bucket.clone(), link.options.prefix.clone());
    let read_only = link.options.read_only;
    let sent = (link.clock())();
    let answer = link.control(Ask::Open(Open { incarnation, resumes, bucket, read_only, prefix })).await?;
    let unreadable = |_| CallError::Refused(Refusal::new(Reason::Protocol, "the store's answer cannot be read"));
    let opened: Opened = read(answer.head).map_err(unreadable)?;
    let about = node_codec::decode_about(&opened.about).map_err(unreadable)?;
    let terms = Terms { lease: Duration::from_millis(opened.lease_ms.into()), ..Terms::default() };
    let boot = Boot(opened.boot);
    // A session that owes acknowledgements goes on with the lease it has.
    let age = Duration::from_millis(opened.age_ms.into());
    link.lease.lock().get_or_insert_with(|| Lease::aged(terms, sent, age));
    link.heard(sent, sent.before(age));
    link.stream.opened(boot, opened.acknowledged);
    link.slots.opened((opened.first_slot, opened.slots), boot, opened.last);
    link.writers.opened(boot);
    link.set_boot(boot);
    link.keeps_locks.store(opened.keeps_locks, Ordering::Release);
    link.queue.allow(opened.leases);
    // What stays the same while the session is open.
    let _ = link.about.set(about);
    let _ = link.terms.set(terms);
    link.stage.send_if_modified(|stage| {
        let was_opening = matches!(stage, Stage::Opening);
        if was_opening {
            *stage = Stage::Open;
        }
        was_opening
    });
    Ok(())
}

/// Renews the lease, and sends which answers have arrived.
pub(crate) async fn renew(link: Arc<Link>) {
    if link.open().await.is_err() {
        return;
    }
    let terms = link.terms.get().copied().unwrap_or_default();
    let Incarnation(incarnation) = link.options.incarnation;
    let mut pause = terms.renewal();
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = link.wake.notified() => {}
        }
        let answered = link.take_answered(ANSWERED_MAX);
        let sent = (link.clock())();
        let asked = link.control(Ask::Renew(Renew { incarnation, answered: answered.clone() }));
        let renewed = match timeout(terms.renewal(), asked).await {
            Ok(Ok(answer)) => read::<Renewed>(answer.head).is_ok_and(|answer| answer.renewed),
            Ok(Err(CallError::Refused(refusal))) if refusal.reason == Reason::Session => return link.lose(&refusal),
            Ok(Err(_)) | Err(_) => {
                link.put_back(answered);
                false
            }
        };
        if renewed {
            link.heard(sent, Some(sent));
        }
        pause = if renewed { terms.renewal() } else { terms.renewal() / 8 };
    }
}

/// Drops the caches as the lease runs out, and loses the session when the store was not reached for too long.
pub(crate) async fn watch(link: Arc<Link>) {
    if link.open().await.is_err() {
        return;
    }
    let look = link.terms.get().copied().unwrap_or_default().lease / 50;
    while !matches!(*link.stage.borrow(), Stage::Lost(_)) {
        tokio::time::sleep(look).await;
        link.look();
    }
}
