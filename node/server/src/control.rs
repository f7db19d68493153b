//! What nodes ask for on their control connections: opening, renewal, changes and the end of a session.

use std::sync::Arc;

use bytes::Bytes;
use node_codec::session::{ANSWERED_MAX, Ask, Control, GiveBack, Nothing, Open, Renew, read, write};
use node_session::Incarnation;
use node_wire::refusal::{Reason, Refusal};
use node_wire::service::{Answer, Peer};

use crate::ended::Why;
use crate::session::Session;
use crate::shared::{Identity, Shared};
use crate::store::{Opening, Store};
use crate::table::Found;

/// Answers a call of a control connection.
pub(crate) async fn answer<S: Store>(
    shared: &Arc<Shared<S>>,
    peer: &Arc<Peer<Identity>>,
    head: Bytes,
) -> Result<Answer, Refusal> {
    let control: Control = read(head).map_err(|error| Refusal::new(Reason::Protocol, error.to_string()))?;
    let Some(ask) = control.ask else {
        return Err(Refusal::new(Reason::Protocol, "the node asks for nothing that this release knows"));
    };
    let head = match ask {
        Ask::Open(asked) => open(shared, peer, asked).await.inspect_err(|why| refused(shared, peer, why))?,
        Ask::Renew(renewal) => renew(shared, &shared.opened(peer)?, renewal).await?,
        Ask::Follow(_) => {
            let session = shared.opened(peer)?;
            let (following, clock) = (Arc::clone(&session), Arc::clone(&shared.clock));
            session.control.run(move || following.follow(&clock)).await.ok_or_else(panicked)?;
            if let Some(notices) = peer.identity.notices.get() {
                session.deliveries.send_over(notices.clone());
            }
            write(&Nothing {})
        }
        Ask::Unfollow(_) => {
            let session = shared.opened(peer)?;
            session.control.clone().run(move || session.stored.files().close_changes()).await;
            write(&Nothing {})
        }
        Ask::Lease(_) => lease(&shared.opened(peer)?).await?,
        Ask::GiveBack(GiveBack { grant }) => {
            let session = shared.opened(peer)?;
            session.control.clone().run(move || session.stored.give_back(grant)).await;
            write(&Nothing {})
        }
        Ask::End(_) => {
            shared.end(&shared.opened(peer)?, Why::Closed).await;
            write(&Nothing {})
        }
    };
    Ok(Answer { head, payload: Bytes::new() })
}

/// Counts a refused opening. One that is only too early is tried again at once, so the log has none of these.
fn refused<S: Store>(shared: &Shared<S>, peer: &Peer<Identity>, refusal: &Refusal) {
    shared.counters.openings.refused(refusal.reason);
    if !refusal.passes() {
        let Refusal { reason, message, .. } = refusal;
        tracing::info!(node = peer.node, from = %peer.from, %reason, why = message, "the session of a node was refused");
    }
}

/// Opens a session in a task of its own: it is in the table or not open at all, also if the connection ends.
async fn open<S: Store>(shared: &Arc<Shared<S>>, peer: &Arc<Peer<Identity>>, asked: Open) -> Result<Bytes, Refusal> {
    let Identity { session: id, claim, .. } = &peer.identity;
    let id = *id;
    if let Found::Open(session) = shared.table.begin(id)? {
        session.belongs(&peer.node, claim)?;
        return resume(shared, peer, &session, &asked);
    }
    let opening = Opening {
        session: id,
        incarnation: Incarnation(asked.incarnation),
        resumes: asked.resumes,
        node: peer.node.clone(),
        claim: claim.clone(),
        bucket: asked.bucket.clone(),
        prefix: asked.prefix.clone(),
        read_only: asked.read_only,
    };
    let (opener, name) = (Arc::clone(shared), peer.session.clone());
    let opened = tokio::spawn(async move { at_the_store(&opener, opening, name).await });
    let session = opened.await.unwrap_or_else(|_| Err(panicked()))?;
    resume(shared, peer, &session, &asked)
}

/// The connection goes on with the session, for a process of the node.
fn resume<S: Store>(
    shared: &Shared<S>,
    peer: &Peer<Identity>,
    session: &Session,
    asked: &Open,
) -> Result<Bytes, Refusal> {
    let opened = session.resume(asked, (shared.clock)())?;
    if *peer.identity.incarnation.get_or_init(|| asked.incarnation) != asked.incarnation {
        return Err(Refusal::new(Reason::Protocol, "a connection opens the session for one process of the node"));
    }
    Ok(write(&opened))
}

async fn at_the_store<S: Store>(
    shared: &Arc<Shared<S>>,
    opening: Opening,
    name: Bytes,
) -> Result<Arc<Session>, Refusal> {
    let id = opening.session;
    let (store, opener) = (Arc::clone(&shared.store), Arc::clone(shared));
    let open = move || {
        let opened = store.open(&opening)?;
        let named = (name, store.boot());
        let shares = (opener.workers.share(), opener.control.share());
        let session = Session::new(&opening, opened, named, shares, (opener.clock)());
        Ok((Arc::new(session), opening))
    };
    let (session, opening) = match shared.admissions.run(open).await.unwrap_or_else(|| Err(panicked())) {
        Ok(opened) => opened,
        Err(refusal) => {
            shared.table.opened(id, None);
            return Err(refusal);
        }
    };
    if !shared.table.opened(id, Some(Arc::clone(&session))) {
        return Err(Refusal::new(Reason::Stopping, "the server is stopping; connect again"));
    }
    let named = shared.named(id).await;
    let session_id = format!("{:032x}", id.0);
    tracing::info!(session = session_id, node = opening.node, bucket = named.bucket, "a node opened a session");
    Ok(session)
}

fn panicked() -> Refusal {
    Refusal::new(
        Reason::Other,
        "the session could not be opened or followed; this is a fault of the store, see its log",
    )
}

/// Leases the volume. What goes wrong at the store is no refusal: the node goes on without a lease.
async fn lease(session: &Arc<Session>) -> Result<Bytes, Refusal> {
    let asking = Arc::clone(session);
    let leased = session.control.run(move || asking.stored.lease()).await.ok_or_else(panicked)?;
    let leased = leased.unwrap_or_else(|error| {
        tracing::warn!(%error, "a volume cannot be leased to its only session");
        None
    });
    Ok(write(&leased.unwrap_or_default()))
}

async fn renew<S: Store>(shared: &Arc<Shared<S>>, session: &Arc<Session>, renewal: Renew) -> Result<Bytes, Refusal> {
    if renewal.answered.len() > ANSWERED_MAX {
        return Err(Refusal::new(Reason::Protocol, "a renewal names more requests than one message may"));
    }
    let renewed = session.renew(&renewal, (shared.clock)())?;
    if !renewal.answered.is_empty() {
        let answering = Arc::clone(session);
        session.control.run(move || answering.answered(&renewal.answered)).await;
    }
    Ok(write(&renewed))
}
