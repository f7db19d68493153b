//! Calls: decoded, executed on a thread of their session, answered from there.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use node_codec::session::{Answered, Sent, read, write};
use node_codec::{CALL_BYTES_MAX, decode_call, encode_reply, within_one_reply};
use node_session::{CallId, Digest, Incarnation};
use node_wire::budget::Held;
use node_wire::header::{HEAD_BYTES, REPLY_HEAD_BYTES};
use node_wire::refusal::{Reason, Refusal};
use node_wire::service::{Answer, Call};
use objstore_base::error::{Error, Result as Done};
use objstore_files::{Class, ContentOp, Context, DATA_BYTES_MAX, Op};
use tokio::sync::watch;
use xxhash_rust::xxh3::Xxh3;

use crate::besides::{Besides, Wanted};
use crate::queued::Batch;
use crate::session::Session;
use crate::slots::{Pending, Step, Told};
use crate::store::Settled;
use crate::unanswered::Unanswered;

/// A reply up to here is part of the head; the rest of the head is small.
const HEAD_REPLY_BYTES: usize = REPLY_HEAD_BYTES as usize - 1024;

// The longest call fits into a frame with its number and slot.
const _: () = assert!(CALL_BYTES_MAX + 1024 <= HEAD_BYTES as usize);

/// Answers a call of a session.
pub(crate) async fn answer(session: &Arc<Session>, call: Call, unanswered: Unanswered) {
    match begin(session, call) {
        Ok(Begun::Reply(answer)) => unanswered.send(Ok(answer)),
        Ok(Begun::Elsewhere(pending, reply_bytes)) => {
            let told = told(pending).await;
            unanswered.send(told.map(|told| answer_of(session, told, reply_bytes)));
        }
        Ok(Begun::Read(read)) => read.execute(session, unanswered).await,
        Ok(Begun::Queued(batch)) => batch.make(session, unanswered).await,
        Ok(Begun::Change(change)) => {
            // In a task of its own if it has to wait for a thread, so that it is finished without its connection too.
            let mut execution = Box::pin(change.execute(Arc::clone(session), unanswered));
            if !is_ready(execution.as_mut()) {
                tokio::spawn(execution);
            }
        }
        Err(refusal) => unanswered.send(Err(refusal)),
    }
}

/// What is to be done for a call.
enum Begun {
    /// This is its answer.
    Reply(Answer),
    /// It was sent before and is running: its reply follows here, for an answer of so many bytes.
    Elsewhere(Pending, u32),
    Read(Read),
    /// The node has answered these changes.
    Queued(Batch),
    Change(Change),
}

fn begin(session: &Arc<Session>, call: Call) -> Result<Begun, Refusal> {
    let sent: Sent = read(call.head).map_err(|error| Refusal::new(Reason::Protocol, error.to_string()))?;
    let incarnation = Incarnation(sent.incarnation);
    session.check(incarnation)?;
    if !sent.queued.is_empty() {
        return Batch::read(sent, Call { head: Bytes::new(), ..call }).map(Begun::Queued);
    }
    let reply_bytes = call.reply_bytes;
    let (context, op) = match decode(&sent, &call.payload) {
        Ok(decoded) => decoded,
        Err(error) => {
            return Ok(Begun::Reply(reply(session, encode_reply(&Err(error)), &Besides::default(), reply_bytes)));
        }
    };
    let is_numbered = sent.sequence != 0;
    if is_numbered == (op.class() == Class::Read) {
        let why = format!("a call of {} has {} slot", op.name(), if is_numbered { "no" } else { "a" });
        return Err(Refusal::new(Reason::Protocol, why));
    }
    if let Op::Content(ContentOp::Read { len, .. }) = op
        && len > reply_bytes
    {
        return Err(Refusal::new(Reason::Protocol, "a read asks for more bytes than its answer may have"));
    }
    if !is_numbered {
        return Ok(Begun::Read(Read { context, op, reply_bytes }));
    }
    let number = CallId { slot: sent.slot, sequence: sent.sequence };
    let digest = digest(&sent.call, &call.payload);
    Ok(match session.slots.begin(&*session.stored, incarnation, number, digest)? {
        Step::Reply(reply) => {
            Begun::Reply(answer_of(session, Told { reply, besides: Besides::default() }, reply_bytes))
        }
        Step::Wait(pending) => Begun::Elsewhere(pending, reply_bytes),
        Step::Run(done) => {
            let (data, memory) = (call.payload, call.memory);
            Begun::Change(Change { number, digest, context, op, data, memory, reply_bytes, done })
        }
    })
}

async fn told(mut pending: Pending) -> Result<Told, Refusal> {
    let done = pending.wait_for(Option::is_some).await;
    done.ok().and_then(|done| done.clone()).ok_or_else(panicked)
}

fn answer_of(session: &Session, told: Told, reply_bytes: u32) -> Answer {
    reply(session, (told.reply.into(), Bytes::new()), &told.besides, reply_bytes)
}

fn panicked() -> Refusal {
    Refusal::new(Reason::Other, "the call ended without an outcome; this is a fault of the store, see its log")
}

/// Whether a future is complete without waiting. It is to be polled again otherwise.
fn is_ready(future: Pin<&mut (impl Future<Output = ()> + ?Sized)>) -> bool {
    future.poll(&mut std::task::Context::from_waker(Waker::noop())).is_ready()
}

/// Decodes a call with the bytes behind it.
fn decode(sent: &Sent, data: &Bytes) -> Done<(Context, Op<'static>)> {
    if data.len() > DATA_BYTES_MAX {
        return Err(Error::invalid("bytes to write", data.len().to_string(), "they are more than a call carries"));
    }
    let (mut context, op) = decode_call(&sent.call)?;
    if let Some(request) = &mut context.request {
        request.resent |= sent.again;
    }
    Ok((context, within_one_reply(op)))
}

/// The digest of a call's content. It guards against a faulty node, which could only harm its own session.
fn digest(call: &[u8], data: &[u8]) -> Digest {
    let mut hash = Xxh3::new();
    hash.update(&(call.len() as u64).to_le_bytes());
    hash.update(call);
    hash.update(data);
    Digest(hash.digest128().to_le_bytes())
}

/// A call that changes nothing.
struct Read {
    context: Context,
    op: Op<'static>,
    reply_bytes: u32,
}

impl Read {
    async fn execute(self, session: &Arc<Session>, unanswered: Unanswered) {
        let (stored, session_there) = (Arc::clone(&session.stored), Arc::clone(session));
        let Self { context, op, reply_bytes } = self;
        let read = move || encode_reply(&stored.files().call(&context, op, &[]));
        let then = move |done: Option<_>| {
            let answer = |done| reply(&session_there, done, &Besides::default(), reply_bytes);
            unanswered.send(done.map(answer).ok_or_else(panicked));
        };
        session.share.start(read, then).await;
    }
}

/// A numbered call that is executed now.
struct Change {
    number: CallId,
    digest: Digest,
    context: Context,
    op: Op<'static>,
    data: Bytes,
    memory: Held,
    reply_bytes: u32,
    /// For copies of the call that wait for its reply.
    done: watch::Sender<Option<Told>>,
}

impl Change {
    async fn execute(self, session: Arc<Session>, unanswered: Unanswered) {
        let Self { number, digest, context, op, data, memory, reply_bytes, done } = self;
        let (waits, wanted) = (op.waits_for_others(), Wanted::by(&op));
        let (stored, ending) = (Arc::clone(&session.stored), Arc::clone(&session));
        let change = move || {
            // Counted as long as the bytes are there, also if the connection has ended.
            let _memory = memory;
            let changed = stored.change((number, digest), &context, op, &data);
            let settled = (waits && changed.is_ok()).then(|| stored.settled());
            let besides = match &changed {
                Ok(done) => wanted.of(&*stored, &context, &done.answer.reply),
                Err(_) => Besides::default(),
            };
            let reply = encode_reply(&changed.map(|done| done.answer)).0.into();
            (Told { reply, besides }, settled)
        };
        let finish = move |told: Option<Told>, unanswered: Option<Unanswered>| {
            ending.slots.finish(number, told.as_ref().map(|told| &told.reply));
            if done.receiver_count() > 0 && told.is_some() {
                done.send_replace(told.clone());
            }
            if let Some(unanswered) = unanswered {
                unanswered.send(told.map(|told| answer_of(&ending, told, reply_bytes)).ok_or_else(panicked));
            }
        };
        let waiting = Arc::clone(&session);
        let then = move |changed: Option<(Told, Option<Settled>)>| {
            let Some((told, settled)) = changed else { return finish(None, Some(unanswered)) };
            let unsettled = settled.and_then(|mut settled| (!is_ready(settled.as_mut())).then_some(settled));
            let Some(settled) = unsettled else { return finish(Some(told), Some(unanswered)) };
            tokio::spawn(async move {
                let unanswered = settle(&waiting, settled, unanswered).await;
                finish(Some(told), unanswered);
            });
        };
        session.share.start(change, then).await;
    }
}

/// Waits until all other mounts have applied a change. No thread is held meanwhile. What only counts waits for nobody: other
/// machines may wait for a lookup here. The end of the connection returns the memory for the answer, which nobody receives.
async fn settle(session: &Session, mut settled: Settled, unanswered: Unanswered) -> Option<Unanswered> {
    let _waiting = session.counts.wait();
    tokio::select! {
        () = settled.as_mut() => return Some(unanswered),
        () = unanswered.abandoned() => {}
    }
    drop(unanswered);
    settled.await;
    None
}

/// The answer with this reply, within its bounds.
fn reply(session: &Session, (head, data): (Vec<u8>, Bytes), besides: &Besides, reply_bytes: u32) -> Answer {
    let fits = |len: usize| len <= reply_bytes as usize;
    let answered = |reply: Bytes, besides: &Besides| {
        let answered = Answered { boot: session.boot.0, reply, versions: besides.versions, ..Answered::default() };
        write(&answered.with_attrs(&besides.attrs).with_traits(&besides.traits))
    };
    if head.len() <= HEAD_REPLY_BYTES && fits(data.len()) {
        return Answer { head: answered(head.into(), besides), payload: data };
    }
    if data.is_empty() && fits(head.len()) {
        return Answer { head: answered(Bytes::new(), besides), payload: head.into() };
    }
    let why = format!("it has {} bytes, and the call accepts {reply_bytes}", head.len() + data.len());
    let (head, _) = encode_reply(&Err(Error::Indeterminate { why }));
    Answer { head: answered(head.into(), &Besides::default()), payload: Bytes::new() }
}
