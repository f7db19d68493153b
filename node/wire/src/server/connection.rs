//! One connection at the store, from its handshake to its end.
//!
//! - Before the reader reads the body of a call, it waits for a free place among the running calls, and for memory for
//!   the call and its answer. So a peer that asks for more waits unread. Its pings wait too, so the server says by itself
//!   that it is alive.
//! - The reader polls a call once itself: a call that is answered from memory, or handed to a thread at once, needs no task.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, split};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::admission::Stranger;
use super::sessions::Member;
use super::{CONTROL_CONNECTION_BYTES, DRAIN, EVICTED, Shared};
use crate::budget::{Budget, Held as Memory};
use crate::credential::Binding;
use crate::frame::{Frame, body_bytes};
use crate::handshake::{Bound, Failed, Terms, receive};
use crate::header::{Bounds, HEADER_BYTES, Header, Invalid, Kind, REPLY_HEAD_BYTES, Role};
use crate::io::{Broken, Pace, read_body, read_header};
use crate::outbox::{Outbox, Ping, outbox};
use crate::refusal::{Reason, Refusal};
use crate::service::{Call, Notices, Peer, Reply, Service};
use crate::traffic::Traffic;

/// Serves a connection until it ends.
pub(super) async fn serve<V, S>(
    shared: Arc<Shared<V>>,
    mut stream: S,
    (binding, certificate): (Binding, Option<Bytes>),
    (stranger, from): (Stranger, SocketAddr),
) where
    V: Service,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &shared.limits;
    let mut nonce = vec![0; crate::hello::NONCE_BYTES];
    (shared.random)(&mut nonce);
    let mut member = None;
    let traffic = Traffic::one_of(&shared.traffic);
    let terms = Terms { requests: limits.requests, idle: limits.idle, limit: limits.hello, from, traffic };
    let bound = Bound { stream: &mut stream, binding: &binding };
    let begun = |session: &Bytes| member = Some(shared.sessions.enter(session));
    let received = tokio::select! {
        received = receive(bound, (&shared.service, certificate), (shared.offer, terms), nonce.into(), begun) => received,
        () = stranger.evicted() => {
            shared.refusals.broken();
            return tracing::debug!(%from, "{EVICTED}");
        }
    };
    let (peer, member) = match (received, member) {
        (Ok(peer), Some(member)) => (Arc::new(peer), member),
        (Ok(_), None) => return,
        (Err(failed), _) => {
            shared.refusals.count(&failed);
            return log(&failed, from);
        }
    };
    let Some(_seat) = stranger.admit() else {
        let full = Refusal::new(Reason::Busy, "the store has as many connections as it accepts; try again later");
        shared.refusals.refused(full.reason);
        let frame = Frame::new(Kind::Refusal, peer.role, full.encode());
        let _ = crate::io::write_frame(&mut stream, &frame, DRAIN).await;
        return;
    };
    run(&shared, stream, peer, member).await;
}

fn log(failed: &Failed, from: SocketAddr) {
    match failed {
        Failed::Refused(refusal) => {
            tracing::info!(%from, reason = %refusal.reason, why = refusal.message, "a node was refused");
        }
        failed => tracing::debug!(%from, %failed, "a node did not complete its handshake"),
    }
}

/// Runs an admitted connection.
async fn run<V, S>(shared: &Arc<Shared<V>>, stream: S, peer: Arc<Peer<V::Identity>>, mut member: Member)
where
    V: Service,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (input, output) = split(stream);
    let limits = &shared.limits;
    let (outgoing, drain) = outbox(output, limits.stall, Arc::clone(&peer.traffic));
    let mut writer = tokio::spawn(drain.write(peer.role, Ping::Never));
    let notices = Budget::new(CONTROL_CONNECTION_BYTES);
    shared.service.connected(&peer, Notices::new(peer.role, outgoing.clone(), notices));
    let role = peer.role;
    let own_bytes = if role == Role::Control { CONTROL_CONNECTION_BYTES } else { limits.connection_bytes };
    let mut connection = Connection {
        shared: Arc::clone(shared),
        role,
        peer,
        outgoing,
        places: Arc::new(Semaphore::new(usize::try_from(limits.requests).unwrap_or(1))),
        memory: Budget::new(own_bytes),
        running: Arc::default(),
        tasks: JoinSet::new(),
    };
    let refusal = tokio::select! {
        broken = connection.read(input) => connection.refusal(&broken),
        refusal = member.ended() => Some(refusal),
        _ = &mut writer => None,
    };
    // Drops the calls that still run.
    connection.tasks.abort_all();
    let Connection { outgoing, .. } = connection;
    if let Some(refusal) = refusal {
        let last = Frame::new(Kind::Refusal, role, refusal.encode());
        let said = async {
            if outgoing.send(last.into()).await.is_ok() {
                let _ = (&mut writer).await;
            }
        };
        let _ = timeout(DRAIN, said).await;
    }
    writer.abort();
}

/// The calls of a connection that run, by their numbers.
type Running = Arc<Mutex<HashMap<u64, AbortHandle>>>;

struct Connection<V: Service> {
    shared: Arc<Shared<V>>,
    peer: Arc<Peer<V::Identity>>,
    role: Role,
    outgoing: Outbox,
    places: Arc<Semaphore>,
    memory: Budget,
    running: Running,
    tasks: JoinSet<()>,
}

/// What a call holds while it runs.
struct Held {
    place: OwnedSemaphorePermit,
    memory: Memory,
}

impl<V: Service> Connection<V> {
    /// Reads frames until the connection ends.
    async fn read<S>(&mut self, mut input: ReadHalf<S>) -> Broken
    where
        S: AsyncRead + AsyncWrite,
    {
        let pace = Pace { idle: self.shared.limits.idle, frame: self.shared.limits.frame };
        let bounds = self.role.bounds();
        loop {
            if let Err(broken) = self.next(&mut input, bounds, pace).await {
                return broken;
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    async fn next<S>(&mut self, input: &mut ReadHalf<S>, bounds: Bounds, pace: Pace) -> Result<(), Broken>
    where
        S: AsyncRead + AsyncWrite,
    {
        let header = read_header(input, bounds, pace).await?;
        self.peer.traffic.received(HEADER_BYTES + body_bytes(&header));
        if header.role != self.role || header.flags != 0 {
            return Err(out_of_order());
        }
        match header.kind {
            Kind::Request => {
                let held = self.alive(self.hold(&header)).await;
                let frame = read_body(input, &header, pace).await?;
                self.start(frame, held).await
            }
            Kind::Notice => {
                let _share = self.alive(self.shared_memory().take(body_bytes(&header) as u64)).await;
                let frame = read_body(input, &header, pace).await?;
                self.shared.service.notice(&self.peer, frame.head).await;
                Ok(())
            }
            Kind::Cancel | Kind::Ping if body_bytes(&header) == 0 => {
                self.control(&header).await;
                Ok(())
            }
            _ => Err(out_of_order()),
        }
    }

    /// Waits while the connection is not read, and tells the peer that the server is alive. A server that did so all the
    /// time would seem alive over a connection on which nothing arrives.
    async fn alive<T>(&self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        loop {
            if let Ok(done) = timeout(self.shared.limits.alive, waiting.as_mut()).await {
                return done;
            }
            // A full queue says as much, or the peer reads nothing.
            let _ = self.outgoing.try_send(Frame::new(Kind::Pong, self.role, "").into());
        }
    }

    /// Waits for what the call and its answer may hold.
    async fn hold(&self, header: &Header) -> Held {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the places of a connection stay open");
        let bytes = body_bytes(header) as u64 + u64::from(header.reply_bytes) + u64::from(REPLY_HEAD_BYTES);
        // The connection's own first, so that one connection never holds the memory of all while it waits for its own.
        let own = self.memory.take(bytes).await;
        let all = self.shared_memory().take(bytes).await;
        Held { place, memory: vec![own, all].into() }
    }

    /// The memory that this connection shares with the others of its kind.
    fn shared_memory(&self) -> &Budget {
        match self.role {
            Role::Control => &self.shared.control_memory,
            Role::Calls | Role::Bulk => &self.shared.memory,
        }
    }

    async fn control(&self, header: &Header) {
        if header.kind == Kind::Ping {
            let pong = Frame::new(Kind::Pong, self.role, "").numbered(header.number);
            // A closed queue ends the connection elsewhere.
            let _ = self.outgoing.send(pong.into()).await;
        } else if let Some(task) = self.running.lock().remove(&header.number) {
            task.abort();
        }
    }

    /// Begins a call: polls it once here, and in a task of its own if it has to wait.
    async fn start(&mut self, frame: Frame, held: Held) -> Result<(), Broken> {
        let number = frame.number;
        if number == 0 || self.running.lock().contains_key(&number) {
            return Err(out_of_order());
        }
        let Held { place, memory } = held;
        let call =
            Call { head: frame.head, payload: frame.payload, reply_bytes: frame.reply_bytes, memory: memory.clone() };
        let reply = Reply::new((number, self.role, frame.reply_bytes), (place, memory), self.outgoing.clone());
        let (shared, peer) = (Arc::clone(&self.shared), Arc::clone(&self.peer));
        let mut answer = Box::pin(async move { shared.service.call(peer, call, reply).await });
        if futures::poll!(answer.as_mut()).is_ready() {
            return Ok(());
        }
        // The entry exists before the task can remove it.
        let running = Arc::clone(&self.running);
        let mut table = self.running.lock();
        let task = self.tasks.spawn(async move {
            answer.await;
            running.lock().remove(&number);
        });
        table.insert(number, task);
        Ok(())
    }

    /// The reason that the peer receives for a broken connection, if it is still there to read one.
    fn refusal(&self, broken: &Broken) -> Option<Refusal> {
        tracing::debug!(node = self.peer.node, role = ?self.role, %broken, "a connection of a node ended");
        match broken {
            Broken::Closed | Broken::Io(_) => None,
            Broken::Invalid(_) | Broken::Slow(_) => Some(Refusal::new(Reason::Protocol, broken.to_string())),
        }
    }
}

fn out_of_order() -> Broken {
    Broken::Invalid(Invalid::Order)
}
