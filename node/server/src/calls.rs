//! Calls: decoded, executed on a thread of their session, answered.

use std::sync::Arc;

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
use xxhash_rust::xxh3::Xxh3;

use crate::besides::{Besides, Wanted};
use crate::session::Session;
use crate::slots::{Step, Told};

/// A reply up to here is part of the head; the rest of the head is small.
const HEAD_REPLY_BYTES: usize = REPLY_HEAD_BYTES as usize - 1024;

// The longest call fits into a frame with its number and slot.
const _: () = assert!(CALL_BYTES_MAX + 1024 <= HEAD_BYTES as usize);

/// Answers a call of a session, and counts it.
pub(crate) async fn answer(session: &Arc<Session>, call: Call) -> Result<Answer, Refusal> {
    let _under_way = session.counts.call();
    let answered = execute_or_replay(session, call).await;
    if answered.is_ok() {
        session.counts.answer();
    }
    answered
}

async fn execute_or_replay(session: &Arc<Session>, call: Call) -> Result<Answer, Refusal> {
    let sent: Sent = read(call.head).map_err(|error| Refusal::new(Reason::Protocol, error.to_string()))?;
    let incarnation = Incarnation(sent.incarnation);
    session.check(incarnation)?;
    let (context, op) = match decode(&sent, &call.payload) {
        Ok(decoded) => decoded,
        Err(error) => return Ok(reply(session, encode_reply(&Err(error)), &Besides::default(), call.reply_bytes)),
    };
    let is_numbered = sent.sequence != 0;
    if is_numbered == (op.class() == Class::Read) {
        let why = format!("a call of {} has {} slot", op.name(), if is_numbered { "no" } else { "a" });
        return Err(Refusal::new(Reason::Protocol, why));
    }
    if let Op::Content(ContentOp::Read { len, .. }) = op
        && len > call.reply_bytes
    {
        return Err(Refusal::new(Reason::Protocol, "a read asks for more bytes than its answer may have"));
    }
    if !is_numbered {
        let stored = Arc::clone(&session.stored);
        let done = session.share.run(move || encode_reply(&stored.files().call(&context, op, &[])));
        return done.await.map(|done| reply(session, done, &Besides::default(), call.reply_bytes)).ok_or_else(panicked);
    }
    let number = CallId { slot: sent.slot, sequence: sent.sequence };
    let digest = digest(&sent.call, &call.payload);
    let told = match session.slots.begin(&*session.stored, incarnation, number, digest)? {
        Step::Reply(reply) => Told { reply, besides: Besides::default() },
        Step::Wait(pending) => wait(pending).await?,
        Step::Run(done) => {
            let pending = done.subscribe();
            execute(session, (number, digest), (context, op), (call.payload, call.memory), done);
            wait(pending).await?
        }
    };
    Ok(reply(session, (told.reply.into(), Bytes::new()), &told.besides, call.reply_bytes))
}

async fn wait(mut pending: crate::slots::Pending) -> Result<Told, Refusal> {
    let done = pending.wait_for(Option::is_some).await;
    done.ok().and_then(|done| done.clone()).ok_or_else(panicked)
}

fn panicked() -> Refusal {
    Refusal::new(Reason::Other, "the call ended without an outcome; this is a fault of the store, see its log")
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

/// Executes a numbered call in a task of its own, so that it is finished without its connection too.
fn execute(
    session: &Arc<Session>,
    (number, digest): (CallId, Digest),
    (context, op): (Context, Op<'static>),
    (data, memory): (Bytes, Held),
    done: tokio::sync::watch::Sender<Option<Told>>,
) {
    let session = Arc::clone(session);
    tokio::spawn(async move {
        let stored = Arc::clone(&session.stored);
        let (waits, wanted) = (op.waits_for_others(), Wanted::by(&op));
        let change = move || {
            // Counted as long as the bytes are there, also if the connection has ended.
            let _memory = memory;
            let changed = stored.change((number, digest), &context, op, &data);
            let waits = waits && changed.is_ok();
            let besides = match &changed {
                Ok(done) => wanted.of(&*stored, &context, &done.answer.reply),
                Err(_) => Besides::default(),
            };
            let reply = encode_reply(&changed.map(|done| done.answer)).0.into();
            (Told { reply, besides }, waits)
        };
        let done_there = session.share.run(change).await;
        // No thread is held meanwhile. What only counts waits for nobody: other machines may wait for a lookup here.
        if done_there.as_ref().is_some_and(|(_, waits)| *waits) {
            let _waiting = session.counts.wait();
            session.stored.settled().await;
        }
        let told = done_there.map(|(told, _)| told);
        session.slots.finish(number, told.as_ref().map(|told| &told.reply));
        if told.is_some() {
            done.send_replace(told);
        }
    });
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
