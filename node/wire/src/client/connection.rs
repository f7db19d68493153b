//! One admitted connection of a node: its calls in flight, and the tasks that read and write.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::counts::Counts;
use super::{CallError, Config, Event, Transport};
use crate::Random;
use crate::credential::Credential;
use crate::frame::{Frame, body_bytes};
use crate::handshake::{Bound, Failed, introduce};
use crate::header::{HEADER_BYTES, Invalid, Kind, Role, flag};
use crate::hello::{Hello, NONCE_BYTES, Shown};
use crate::io::{Broken, Pace, read_body, read_header};
use crate::outbox::{Drain, Outbox, Ping, outbox};
use crate::refusal::Refusal;
use crate::service::Answer;
use crate::traffic::Traffic;

/// A call that waits for its answer.
type Waiting = oneshot::Sender<Result<Answer, Refusal>>;

/// The calls in flight; `None` once the connection ended.
type Pending = Arc<Mutex<Option<HashMap<u64, Waiting>>>>;

/// An admitted connection.
pub(super) struct Connection {
    role: Role,
    last: AtomicU64,
    places: Semaphore,
    pending: Pending,
    outgoing: Outbox,
}

/// The tasks of a connection, before they run.
pub(super) struct Driven<S: tokio::io::AsyncWrite> {
    role: Role,
    input: ReadHalf<S>,
    drain: Drain<WriteHalf<S>>,
    config: Arc<Config>,
    traffic: Arc<Traffic>,
    ping: Ping,
    events: mpsc::Sender<Event>,
    pending: Pending,
}

/// Connects within `reach`, and is admitted.
pub(super) async fn open<T: Transport>(
    transport: &T,
    (config, counts): (&Arc<Config>, &Arc<Counts>),
    role: Role,
    reach: Duration,
    events: &mpsc::Sender<Event>,
    random: &Random,
) -> Result<(Arc<Connection>, Driven<T::Stream>), Failed> {
    let connected = timeout(reach.min(config.connect), transport.connect()).await;
    let connected = connected.map_err(|_| Broken::Slow("connecting"))?;
    let (mut stream, binding) = connected.map_err(Broken::Io)?;
    let mut nonce = vec![0; NONCE_BYTES];
    random(&mut nonce);
    let shown = match &config.credential {
        Credential::AccessKey { id, .. } => Shown::AccessKey(id.clone()),
        Credential::Ticket(ticket) => Shown::Ticket(ticket.clone()),
        Credential::TicketAndKey { ticket, id, .. } => {
            Shown::TicketAndKey { ticket: ticket.clone(), access_key: id.clone() }
        }
        Credential::Certificate => Shown::Certificate,
    };
    let hello = Hello {
        versions: config.versions,
        features: config.features,
        node: config.node.clone(),
        session: config.session.clone(),
        nonce: nonce.into(),
        shown,
    };
    let bound = Bound { stream: &mut stream, binding: &binding };
    let admitted = introduce(bound, role, &hello, &config.credential, config.connect).await?;
    tracing::debug!(?role, version = admitted.version, features = admitted.features, "the store admitted a connection");
    let (input, output) = split(stream);
    let (outgoing, drain) = outbox(output, config.frame, Arc::clone(&counts.traffic));
    let pending = Pending::new(Mutex::new(Some(HashMap::new())));
    let places = Semaphore::new(usize::try_from(admitted.requests.min(config.requests)).unwrap_or(1).max(1));
    // A third of the store's idle timeout, so that one lost ping does no harm.
    let ping = Ping::AfterSilence(config.ping.min(admitted.idle / 3));
    let connection = Connection { role, last: AtomicU64::new(0), places, pending: Arc::clone(&pending), outgoing };
    let (config, events, traffic) = (Arc::clone(config), events.clone(), Arc::clone(&counts.traffic));
    Ok((Arc::new(connection), Driven { role, input, drain, config, traffic, ping, events, pending }))
}

impl Connection {
    /// Sends a call and waits for its answer.
    pub(super) async fn call(&self, head: Bytes, payload: Bytes, reply_bytes: u32) -> Result<Answer, CallError> {
        let request = Frame { reply_bytes, ..Frame::new(Kind::Request, self.role, head).with_payload(payload) };
        request.header().check(self.role.bounds()).map_err(|_| CallError::TooLong)?;
        let _place = self.places.acquire().await.map_err(|_| CallError::Unknown)?;
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (waiting, answer) = oneshot::channel();
        match &mut *self.pending.lock() {
            Some(pending) => drop(pending.insert(number, waiting)),
            None => return Err(CallError::NotSent(std::time::Duration::ZERO)),
        }
        let mut in_flight = InFlight { connection: self, number, is_answered: false };
        if self.outgoing.send(request.numbered(number).into()).await.is_err() {
            return Err(CallError::NotSent(std::time::Duration::ZERO));
        }
        let answered = answer.await;
        in_flight.is_answered = true;
        match answered {
            Ok(answer) => answer.map_err(CallError::Refused),
            Err(_) => Err(CallError::Unknown),
        }
    }

    /// Sends a message without an answer.
    pub(super) async fn notice(&self, head: Bytes) -> Result<(), CallError> {
        let notice = Frame::new(Kind::Notice, self.role, head);
        notice.header().check(self.role.bounds()).map_err(|_| CallError::TooLong)?;
        self.outgoing.send(notice.into()).await.map_err(|_| CallError::Unknown)
    }
}

/// A call between its request and its answer; dropped earlier, it is cancelled.
struct InFlight<'a> {
    connection: &'a Connection,
    number: u64,
    is_answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        if let Some(pending) = &mut *self.connection.pending.lock() {
            pending.remove(&self.number);
        }
        // A full queue loses the cancellation: the answer is thrown away when it arrives.
        let cancel = Frame::new(Kind::Cancel, self.connection.role, "").numbered(self.number);
        let _ = self.connection.outgoing.try_send(cancel.into());
    }
}

impl<S> Driven<S>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    /// Reads and writes until the connection ends; the refusal that ended it, if there was one. Every call in flight then
    /// has an unknown outcome.
    pub(super) async fn run(self) -> Option<Refusal> {
        let _end = End(Arc::clone(&self.pending));
        let Self { role, input, drain, config, traffic, ping, events, pending } = self;
        let writer = drain.write(role, ping);
        let reader = Reader { role, config, traffic, events, pending };
        // In a task of its own, so that reading and writing use two processors.
        let mut writer = Writing(tokio::spawn(writer));
        tokio::select! {
            refusal = reader.read(input) => refusal,
            _ = &mut writer.0 => None,
        }
    }
}

/// Ends the calls in flight when the connection ends, also when its task is dropped.
struct End(Pending);

impl Drop for End {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// The task that writes, which ends with the connection.
struct Writing(tokio::task::JoinHandle<Broken>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Reader {
    role: Role,
    config: Arc<Config>,
    traffic: Arc<Traffic>,
    events: mpsc::Sender<Event>,
    pending: Pending,
}

impl Reader {
    /// Reads until the connection ends.
    async fn read<S>(&self, mut input: ReadHalf<S>) -> Option<Refusal>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite,
    {
        let pace = Pace { idle: self.config.silence, frame: self.config.frame };
        loop {
            match self.next(&mut input, pace).await {
                Ok(None) => {}
                Ok(Some(refusal)) => return Some(refusal),
                Err(broken) => {
                    tracing::debug!(role = ?self.role, %broken, "a connection to the store ended");
                    return None;
                }
            }
        }
    }

    async fn next<S>(&self, input: &mut ReadHalf<S>, pace: Pace) -> Result<Option<Refusal>, Broken>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite,
    {
        let header = read_header(input, self.role.bounds(), pace).await?;
        self.traffic.received(HEADER_BYTES + body_bytes(&header));
        let frame = read_body(input, &header, pace).await?;
        match frame.kind {
            Kind::Reply if frame.role == self.role => self.answer(frame),
            Kind::Notice if frame.role == self.role => {
                let _ = self.events.send(Event::Notice(self.role, frame.head)).await;
            }
            Kind::Pong => {}
            Kind::Refusal => return Ok(Some(Refusal::decode(&frame.head))),
            _ => return Err(Invalid::Order.into()),
        }
        Ok(None)
    }

    /// Hands an answer to its call; a call that was cancelled has none.
    fn answer(&self, frame: Frame) {
        let waiting = self.pending.lock().as_mut().and_then(|pending| pending.remove(&frame.number));
        let Some(waiting) = waiting else { return };
        let answer = if frame.flags & flag::REFUSED == 0 {
            Ok(Answer { head: frame.head, payload: frame.payload })
        } else {
            Err(Refusal::decode(&frame.head))
        };
        // The caller may have ended in this moment.
        let _ = waiting.send(answer);
    }
}
