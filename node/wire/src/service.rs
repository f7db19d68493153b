//! The interface that a store implements for its listener: admission of peers, and answers to calls.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::budget::{Budget, Held};
use crate::credential::{Claim, Secret};
use crate::frame::Frame;
use crate::header::{Bounds, Kind, REPLY_HEAD_BYTES, Role, flag};
use crate::hello::Hello;
use crate::outbox::Outbox;
use crate::output::Outgoing;
use crate::refusal::{Reason, Refusal};
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

/// Where the answer to one call goes. Until it is sent or dropped, the call counts as one of its connection. A node whose call
/// is dropped without an answer waits until its connection ends.
#[derive(Debug)]
pub struct Reply {
    number: u64,
    role: Role,
    reply_bytes: u32,
    memory: Held,
    outgoing: Outbox,
    /// The place among the running calls.
    place: OwnedSemaphorePermit,
}

impl Reply {
    pub(crate) fn new(
        (number, role, reply_bytes): (u64, Role, u32),
        (place, memory): (OwnedSemaphorePermit, Held),
        outgoing: Outbox,
    ) -> Self {
        Self { number, role, reply_bytes, memory, outgoing, place }
    }

    /// Completes when nobody receives the answer any more, because the connection has ended.
    pub async fn abandoned(&self) {
        self.outgoing.closed().await;
    }

    /// Sends the answer: from this thread, if the connection is free. Must be called in a runtime of tokio.
    pub fn send(self, answered: Result<Answer, Refusal>) {
        let Self { number, role, reply_bytes, memory, outgoing, place } = self;
        let frame = match answered.and_then(|answer| bounded(answer, reply_bytes)) {
            Ok(Answer { head, payload }) => Frame::new(Kind::Reply, role, head).with_payload(payload),
            Err(refusal) => Frame { flags: flag::REFUSED, ..Frame::new(Kind::Reply, role, refusal.encode()) },
        };
        if let Err(waits) = outgoing.try_send(Outgoing { frame: frame.numbered(number), held: memory }) {
            // The places of the connection bound how many of these there are.
            tokio::spawn(async move {
                // A closed queue means that the peer is away.
                let _ = outgoing.send(waits).await;
                drop(place);
            });
        }
    }
}

/// An answer beyond its bounds would break the connection for all other calls.
fn bounded(answer: Answer, reply_bytes: u32) -> Result<Answer, Refusal> {
    let fits = |part: &Bytes, most: u32| u32::try_from(part.len()).is_ok_and(|length| length <= most);
    if fits(&answer.head, REPLY_HEAD_BYTES) && fits(&answer.payload, reply_bytes) {
        return Ok(answer);
    }
    tracing::error!(head = answer.head.len(), payload = answer.payload.len(), reply_bytes, "an answer is too long");
    Err(Refusal::new(Reason::Other, "the answer is longer than the call accepts; this is a fault of the store"))
}

/// A store, as its listener sees it.
///
/// The future of [`Service::call`] is dropped when its connection ends, when its session ends, or when the node cancels
/// the call. Work that has to be finished nevertheless runs in a task or on a thread of its own; the slots of its session
/// bound it. Its answer then goes nowhere.
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

    /// Has a call answered: through `reply`, from any thread, now or later.
    fn call(&self, peer: Arc<Peer<Self::Identity>>, call: Call, reply: Reply) -> impl Future<Output = ()> + Send;

    /// Receives a message without an answer. The connection is read on only after it.
    fn notice(&self, peer: &Peer<Self::Identity>, head: Bytes) -> impl Future<Output = ()> + Send;
}

/// Sends notices over one connection; a cheap handle.
#[derive(Clone, Debug)]
pub struct Notices {
    role: Role,
    outgoing: Outbox,
    /// The memory for notices that wait in the queue: a peer that reads nothing makes the server hold no more.
    memory: Budget,
}

impl Notices {
    pub(crate) fn new(role: Role, outgoing: Outbox, memory: Budget) -> Self {
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
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::io::duplex;

    use super::*;
    use crate::outbox::outbox;

    #[tokio::test]
    async fn notices_that_a_peer_does_not_read_take_bounded_memory() {
        let (ours, mut theirs) = duplex(100);
        let (outgoing, drain) = outbox(ours, Duration::from_secs(10), Arc::default());
        let notices = Notices::new(Role::Control, outgoing, Budget::new(256 << 10));
        let send = || notices.send(vec![0; 100 << 10].into()).now_or_never();
        assert_eq!([send(), send()], [Some(Ok(())), Some(Ok(()))]);
        assert_eq!(send(), None, "a third waits until one is written");
        let writing = tokio::spawn(drain.write(Role::Control, crate::outbox::Ping::Never));
        let reading = tokio::spawn(async move { tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await });
        let sent = tokio::time::timeout(Duration::from_secs(10), notices.send(vec![0; 100 << 10].into())).await;
        assert_eq!(sent, Ok(Ok(())));
        writing.abort();
        assert!(writing.await.is_err());
        assert_eq!(send(), Some(Err(Unsent::Gone)));
        assert!(reading.await.is_ok_and(|read| read.is_ok()));
    }
}
