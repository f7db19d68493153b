//! The service behind the wire: who is admitted, and where each message goes.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use node_codec::session::{Acknowledged, read};
use node_session::SessionId;
use node_wire::credential::{Claim, Secret};
use node_wire::header::Role;
use node_wire::hello::Hello;
use node_wire::refusal::{Reason, Refusal};
use node_wire::service::{Call, Notices, Peer, Reply, Service};

use crate::shared::{Identity, Shared};
use crate::store::Store;
use crate::unanswered::Unanswered;
use crate::{calls, control};

/// The service of a store behind the wire.
pub struct Listener<S>(pub(crate) Arc<Shared<S>>);

impl<S: Store> Service for Listener<S> {
    type Identity = Identity;

    async fn secret(&self, access_key: &str) -> Option<Secret> {
        let (store, id) = (Arc::clone(&self.0.store), access_key.to_owned());
        self.0.admissions.run(move || store.secret(&id)).await.flatten()
    }

    async fn admit(
        &self,
        claim: Claim,
        hello: &Hello,
        _role: Role,
        certificate: Option<Bytes>,
    ) -> Result<Identity, Refusal> {
        let Ok(id) = <[u8; 16]>::try_from(&hello.session[..]) else {
            return Err(Refusal::new(Reason::Protocol, "the id of a session has 16 bytes"));
        };
        let (store, shown, node) = (Arc::clone(&self.0.store), claim.clone(), hello.node.clone());
        let judged = self.0.admissions.run(move || store.admit(&shown, &node, certificate.as_deref())).await;
        judged.unwrap_or_else(|| Err(Refusal::new(Reason::Other, "the credential could not be checked")))?;
        Ok(Identity {
            session: SessionId(u128::from_be_bytes(id)),
            claim,
            incarnation: OnceLock::new(),
            notices: OnceLock::new(),
            counted: OnceLock::new(),
        })
    }

    fn connected(&self, peer: &Arc<Peer<Identity>>, notices: Notices) {
        // Set once: this is called once for a connection.
        let _ = peer.identity.notices.set(notices);
        let (session, now) = (peer.identity.session, (self.0.clock)());
        let counted = self.0.connections.enter(session, (peer.role, peer.from), &peer.traffic, now);
        let _ = peer.identity.counted.set(counted);
    }

    async fn call(&self, peer: Arc<Peer<Identity>>, call: Call, reply: Reply) {
        let unanswered = Unanswered::new(reply, Arc::clone(&self.0.counters));
        match peer.role {
            Role::Control => unanswered.send(control::answer(&self.0, &peer, call.head).await),
            Role::Calls | Role::Bulk => match self.0.session(&peer) {
                Ok(session) => calls::answer(&session, call, unanswered.of(&session)).await,
                Err(refusal) => unanswered.send(Err(refusal)),
            },
        }
    }

    async fn notice(&self, peer: &Peer<Identity>, head: Bytes) {
        if let (Ok(session), Ok(acknowledged)) = (self.0.opened(peer), read::<Acknowledged>(head)) {
            session.deliveries.acknowledge(acknowledged);
        }
    }
}
