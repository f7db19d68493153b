//! The task that hands changes in to the store, and asks for the lease.
//!
//! One call is under way at a time, with all that waits up to its bounds: what is answered meanwhile goes with the next one. A
//! change waits some milliseconds for others, so that a call has many of them, unless a call waits for it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use node_codec::session::{Answered, Ask, GiveBack, Leased, Nothing, Queued, Sent, read, write};
use node_codec::{decode_reply, encode_call};
use node_session::Boot;
use node_wire::client::CallError;
use node_wire::refusal::Reason;
use objstore_base::error::Error;
use objstore_files::Reply;

use crate::link::Link;
use crate::queue::{Change, Next, Outcome};

/// The pause before a call is sent again to a store that is not ready for it.
const PAUSE: Duration = Duration::from_millis(10);
/// After how long without a change the lease is given back: from then on others need not wait for this node.
const REST: Duration = Duration::from_secs(1);
/// The name of these calls among the counts of round trips.
pub(crate) const NAME: &str = "hand_in";

/// Hands in what waits, until the session is lost or the task is dropped.
pub(crate) async fn run(link: std::sync::Arc<Link>) {
    tokio::select! {
        () = hand_in(&link) => {}
        _ = link.lost() => link.queue.close(),
    }
}

async fn hand_in(link: &Link) {
    if link.open().await.is_err() {
        return;
    }
    loop {
        match link.queue.next((link.clock())()) {
            Next::HandIn(changes, passed) => {
                let outcome = made(link, &changes, passed).await;
                settle(link, &changes, outcome);
            }
            Next::Gather(left) => drop(tokio::time::timeout(left, link.queue.added()).await),
            Next::Ask => ask(link).await,
            Next::Rest => {
                let added = tokio::time::timeout(REST, link.queue.added()).await;
                if added.is_err()
                    && let Some(grant) = link.queue.rest()
                {
                    give_back(link, grant).await;
                }
            }
            Next::Wait => link.queue.added().await,
        }
    }
}

/// Asks for the lease. A lease that was taken back meanwhile is given back: the store may not know.
async fn ask(link: &Link) {
    let sent = link.control(Ask::Lease(Nothing {})).await;
    let leased = sent.ok().and_then(|answer| read::<Leased>(answer.head).ok());
    // The answer is from this moment or before: the time of the store is not behind what is reckoned from it.
    let now = (link.clock())();
    if let Some(grant) = link.queue.granted(leased, now) {
        give_back(link, grant).await;
    }
}

async fn give_back(link: &Link, grant: u64) {
    // If it is lost, the store takes the lease back when another client uses the volume.
    if let Err(error) = link.control(Ask::GiveBack(GiveBack { grant })).await {
        tracing::debug!(%error, "the store may not know that the lease of a volume was given back");
    }
}

/// Sends changes until the store answers.
async fn made(link: &Link, changes: &[Change], passed: u64) -> Outcome {
    let mut payload = BytesMut::new();
    changes.iter().for_each(|change| payload.extend_from_slice(&change.data));
    let payload = payload.freeze();
    loop {
        let head = head(link, changes, passed);
        link.trips.sent(NAME);
        let refused = match link.client.call(head, payload.clone(), 0).await {
            Ok(frame) => match read::<Answered>(frame.head).and_then(|answered| outcome(&answered, frame.payload)) {
                Ok(outcome) => return outcome,
                Err(error) => format!("the answer cannot be read: {error}"),
            },
            Err(CallError::NotSent(_) | CallError::Unknown) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(CallError::Refused(refusal)) => match refusal.reason {
                Reason::Busy | Reason::Stopping | Reason::Credential | Reason::Version => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Reason::Session => {
                    link.lose(&refusal);
                    refusal.to_string()
                }
                _ => refusal.to_string(),
            },
            Err(error @ (CallError::TooLong | CallError::Closed)) => error.to_string(),
        };
        tracing::error!(why = refused, "the store refused a change that was answered");
        return Outcome {
            boot: link.boot(),
            made: 0,
            failed: Some(Error::Indeterminate { why: refused }),
            after: vec![],
        };
    }
}

fn head(link: &Link, changes: &[Change], passed: u64) -> Bytes {
    let boot = link.boot();
    let queued = changes.iter().map(|change| {
        let op = link.writers.translate(change.op.clone(), boot);
        let call = encode_call(&change.context, &op).into();
        let len = u32::try_from(change.data.len()).unwrap_or(u32::MAX);
        let ino = change.made.map_or(0, |made| made.ino);
        Queued { number: change.number, ino, at: change.at, len, call }
    });
    write(&Sent { incarnation: link.options.incarnation.0, queued: queued.collect(), passed, ..Sent::default() })
}

fn outcome(answered: &Answered, payload: Bytes) -> objstore_base::error::Result<Outcome> {
    let (head, data) =
        if answered.reply.is_empty() { (payload, Bytes::new()) } else { (answered.reply.clone(), payload) };
    let failed = decode_reply(&head, data)?.err();
    Ok(Outcome { boot: Boot(answered.boot), made: answered.made, failed, after: answered.after() })
}

/// The store has answered to these changes.
fn settle(link: &Link, changes: &[Change], outcome: Outcome) {
    for change in changes.iter().filter(|change| change.number <= outcome.made) {
        let reply = change.made.map_or(Reply::Done(()), Reply::Attr);
        link.writers.done(&change.op, &reply, outcome.boot);
    }
    let (number, told) = link.queue.settle(&link.cache, (link.clock())(), outcome);
    if !told.is_empty() {
        link.stream.tell(told);
    }
    link.queue.release(number);
}
