//! The interface that a store implements for its listener: admission of peers, and answers to calls.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::budget::{Budget, Held};
use crate::credential::{Claim, Secret};
use crate::frame::Frame;
use crate::header::{Bounds, Kind, Role};
use crate::hello::Hello;
use crate::outbox::Outgoing;
use crate::refusal::Refusal;
use crate::traffic::Traffic;

/// The other end of an admitted connection.
#[derive(Debug)]
pub struct Peer<I> {
    /// What the connection is for.
    pub role: Role,
    /// The name that the node gives itself; [`Service::admit`] compares it with what the credential allows.
    pub node: String,
    /// The session that the connection belongs to.
    pub session: Bytes,
    /// The version of the protocol in use.
    pub version: u32,
    /// The optional features in use.
    pub features: u64,
    /// The address that it connected from.
    pub from: SocketAddr,
    /// The bytes of the connection.
    pub traffic: Arc<Traffic>,
    /// What the service made of the credential.
    pub identity: I,
}

/// A call, as a service receives it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The bytes of a prost message.
    pub head: Bytes,
    /// Raw bytes behind it.
    pub payload: Bytes,
    /// The largest payload that the answer may have.
    pub reply_bytes: u32,
    /// The memory that is counted for the call. Work that goes on after its connection keeps it as long as the payload.
    pub memory: Held,
}

/// The answer to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The bytes of a prost message.
    pub head: Bytes,
    /// Raw bytes behind it.
    pub payload: Bytes,
}

/// A store, as its listener sees it.
///
/// The future of [`Service::call`] is dropped when its connection ends, when its session ends, or when the node cancels
/// the call. Work that has to be finished nevertheless runs in a task of its own; the slots of its session bound it.
pub trait Service: Send + Sync + 'static {
    /// The service's identification of an admitted peer.
    type Identity: Send + Sync + 'static;

    /// The secret of an access key; `None` if the key is unknown or revoked. The peer does not learn which.
    fn secret(&self, access_key: &str) -> impl Future<Output = Option<Secret>> + Send;

    /// Decides about a peer whose proof is checked. A ticket's validity is decided here. `certificate` is that of the peer
    /// (DER), which is one of the authority for nodes, if the listener has such an authority.
    fn admit(
        &self,
        claim: Claim,
        hello: &Hello,
        role: Role,
        certificate: Option<Bytes>,
    ) -> impl Future<Output = Result<Self::Identity, Refusal>> + Send;

    /// A connection was admitted; `notices` reaches the node while the connection lives.
    fn connected(&self, peer: &Arc<Peer<Self::Identity>>, notices: Notices);

    /// Answers a call.
    fn call(&self, peer: Arc<Peer<Self::Identity>>, call: Call)
    -> impl Future<Output = Result<Answer, Refusal>> + Send;

    /// Receives a message without an answer. The connection is read on only after it.
    fn notice(&self, peer: &Peer<Self::Identity>, head: Bytes) -> impl Future<Output = ()> + Send;
}

/// Sends notices over one connection; a cheap handle.
#[derive(Clone, Debug)]
pub struct Notices {
    role: Role,
    outgoing: mpsc::Sender<Outgoing>,
    /// The memory for notices that wait in the queue: a peer that reads nothing makes the server hold no more.
    memory: Budget,
}

impl Notices {
    pub(crate) fn new(role: Role, outgoing: mpsc::Sender<Outgoing>, memory: Budget) -> Self {
        Self { role, outgoing, memory }
    }

    /// Queues a notice; waits while the queue of the connection is full.
    ///
    /// # Errors
    /// [`Unsent`].
    pub async fn send(&self, head: Bytes) -> Result<(), Unsent> {
        let frame = self.frame(head)?;
        let share = tokio::select! {
            share = self.memory.take(frame.head.len() as u64) => share,
            () = self.outgoing.closed() => return Err(Unsent::Gone),
        };
        let notice = Outgoing { frame, held: vec![share].into() };
        self.outgoing.send(notice).await.map_err(|_| Unsent::Gone)
    }

    fn frame(&self, head: Bytes) -> Result<Frame, Unsent> {
        let Bounds { head_bytes, .. } = self.role.bounds();
        if u32::try_from(head.len()).is_ok_and(|length| length <= head_bytes) {
            Ok(Frame::new(Kind::Notice, self.role, head))
        } else {
            Err(Unsent::TooLong)
        }
    }
}

/// Why a notice was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The connection ended; the next one receives what is still to be sent.
    #[error("the connection of the notice ended")]
    Gone,
    /// The head is longer than its bound.
    #[error("the notice is longer than a head may be")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn notices_that_a_peer_does_not_read_take_bounded_memory() {
        let (outgoing, mut queue) = mpsc::channel(64);
        let notices = Notices::new(Role::Control, outgoing, Budget::new(256 << 10));
        let send = || notices.send(vec![0; 100 << 10].into()).now_or_never();
        assert_eq!([send(), send()], [Some(Ok(())), Some(Ok(()))]);
        assert_eq!(send(), None, "a third waits until one is written");
        drop(queue.try_recv());
        assert_eq!(send(), Some(Ok(())));
        drop(queue);
        assert_eq!(send(), Some(Err(Unsent::Gone)));
    }
}
