//! A call: answered here if its answer is known, or sent until it has an answer or the session is lost.

use std::time::Duration;

use bytes::Bytes;
use node_codec::session::{Answered, LOOKUPS_PER_CALL, Sent, read, write};
use node_codec::{decode_reply, encode_call};
use node_session::{Boot, CallId};
use node_wire::client::CallError;
use node_wire::refusal::{Reason, Refusal};
use node_wire::service::Answer as Frame;
use objstore_base::error::{Error, Result};
use objstore_files::{Answer, Class, Context, DATA_BYTES_MAX, NameOp, Op, OpenOp, Reply};

use crate::cache::Besides;
use crate::link::{Link, lost};
use crate::shape::{reply_bytes, within_one_frame};

/// The pause before a call is sent again to a store that is not ready for it.
const PAUSE: Duration = Duration::from_millis(10);

/// An operation that is answered without a trip, or what the store has to execute.
pub(crate) enum Step<'a> {
    Answered(Result<Answer>),
    Send(Op<'a>),
}

/// Answers an operation without a trip if that is exact.
pub(crate) fn here<'a>(link: &Link, context: &Context, op: Op<'a>) -> Step<'a> {
    link.trips.asked(op.name());
    let done = |reply: Reply| Step::Answered(Ok(Answer { reply, recorded: false }));
    // The store refuses the call of another session.
    if link.about.get().is_none_or(|about| about.number != context.session) || link.is_lost() {
        return Step::Send(op);
    }
    match op {
        Op::Names(NameOp::Forget { ino, count }) => match link.cache.forget(ino, count) {
            0 => done(Reply::Done(())),
            count if link.forgets.add(ino, count) => done(Reply::Done(())),
            count => Step::Send(NameOp::Forget { ino, count }.into()),
        },
        Op::Opens(OpenOp::KeepsVersions {}) => match link.versions.told() {
            Some(kept) => done(Reply::Bool(kept)),
            None => Step::Send(op),
        },
        op if link.is_fresh() => match link.cache.answer(&op) {
            Some(answer) => Step::Answered(answer),
            None => Step::Send(op),
        },
        op => Step::Send(op),
    }
}

/// Executes an operation at the store.
pub(crate) async fn call(link: &Link, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
    if data.len() > DATA_BYTES_MAX {
        return Err(Error::invalid("bytes to write", data.len().to_string(), "they are more than a call carries"));
    }
    match op {
        Op::Names(NameOp::LookupAll { parent, entries, listed }) if entries.len() > LOOKUPS_PER_CALL => {
            let mut all = Vec::with_capacity(entries.len());
            for part in entries.chunks(LOOKUPS_PER_CALL) {
                let part = NameOp::LookupAll { parent, entries: part.into(), listed };
                match one(link, context, part.into(), data).await?.reply {
                    Reply::Attrs(mut some) => all.append(&mut some),
                    other => return Ok(Answer { reply: other, recorded: false }),
                }
            }
            Ok(Answer { reply: Reply::Attrs(all), recorded: false })
        }
        op => one(link, context, within_one_frame(op), data).await,
    }
}

/// Executes an operation that fits into one frame, and keeps what is known from its answer.
pub(crate) async fn one(link: &Link, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
    let begun = link.cache.begin(&op);
    wait_for_changes(link, &op).await;
    let (answer, besides) = match send(link, context, op.clone(), data).await {
        Ok((answer, besides)) => (Ok(answer), besides),
        Err(error) => (Err(error), Besides::default()),
    };
    link.cache.finish(begun, &op, (&answer, &besides), context.request);
    answer
}

/// Looks up names for the node itself, which owns the references.
pub(crate) async fn fetch(link: &Link, context: &Context, op: Op<'_>) -> Result<()> {
    let begun = link.cache.begin(&op);
    wait_for_changes(link, &op).await;
    match send(link, context, op.clone(), &[]).await {
        Ok((answer, besides)) => link.cache.fetched(begun, &op, (&Ok(answer), &besides)),
        Err(error) => {
            link.cache.finish(begun, &op, (&Err(error.clone()), &Besides::default()), None);
            return Err(error);
        }
    }
    Ok(())
}

/// Waits until the store has made the changes that were answered here and that a call could meet. The call has begun in the
/// cache: no other change of its files is answered here meanwhile.
async fn wait_for_changes(link: &Link, op: &Op<'_>) {
    // The call itself is refused if the session is lost.
    let _ = link.handed_in(link.queue.needed(op)).await;
}

/// Executes an operation at the store: its answer, and what the store tells besides.
async fn send(link: &Link, context: &Context, op: Op<'_>, data: &[u8]) -> Result<(Answer, Besides)> {
    if link.open().await.is_err() {
        return lost(&op);
    }
    let is_once = op.class() == Class::Once;
    // The outcome of every call that is done once is recorded under a number, also if the kernel did not ask for it.
    let own = (is_once && context.request.is_none()).then(|| link.own_request());
    let context = Context { request: context.request.or(own), ..*context };
    let slot = match op.class() {
        Class::Read => None,
        Class::Count | Class::Set | Class::Once => tokio::select! {
            slot = link.slots.take(op.waits_for_others()) => slot,
            _ = link.lost() => return lost(&op),
        },
    };
    let sent = Sent {
        incarnation: link.options.incarnation.0,
        slot: slot.as_ref().map_or(0, |slot| slot.call().slot),
        sequence: slot.as_ref().map_or(0, |slot| slot.call().sequence),
        ..Sent::default()
    };
    let payload = Bytes::copy_from_slice(data);
    let asked = Asked { link, context, op: &op, payload, reply_bytes: reply_bytes(&op) };
    let Outcome { boot, besides, answer } = asked.until_answered(sent).await?;
    let mut answer = answer?;
    link.writers.done(&op, &answer.reply, boot);
    if let Some(own) = own.filter(|_| answer.recorded) {
        link.answered(own);
        answer.recorded = false;
    } else if let (true, Some(request), Some(slot)) = (answer.recorded, context.request, slot) {
        link.slots.hold(request, slot);
    }
    Ok((answer, besides))
}

/// What the store answered.
struct Outcome {
    /// The opening of the store that executed the call.
    boot: Boot,
    besides: Besides,
    answer: Result<Answer>,
}

/// A call on its way.
struct Asked<'a> {
    link: &'a Link,
    context: Context,
    op: &'a Op<'a>,
    payload: Bytes,
    reply_bytes: u32,
}

impl Asked<'_> {
    /// Sends the call until the store answers it.
    async fn until_answered(&self, mut sent: Sent) -> Result<Outcome> {
        let mut encoded_for = None;
        loop {
            let boot = self.link.boot();
            if encoded_for.replace(boot) != Some(boot) {
                let op = self.link.writers.translate(self.op.clone(), boot);
                sent.call = encode_call(&self.context, &op).into();
            }
            self.link.trips.sent(self.op.name());
            let trip = self.link.client.call(write(&sent), self.payload.clone(), self.reply_bytes);
            let answered = tokio::select! {
                answered = trip => answered,
                _ = self.link.lost() => return self.ended(sent.again),
            };
            match answered {
                Ok(frame) => return self.read(frame),
                Err(CallError::NotSent(_)) => {}
                Err(CallError::Unknown) => sent.again = true,
                Err(CallError::Refused(refusal)) => match refusal.reason {
                    // A credential may be repaired while the lease lasts, and an older release may come back.
                    Reason::Busy | Reason::Stopping | Reason::Credential | Reason::Version => {}
                    Reason::Session => {
                        self.link.lose(&refusal);
                        return self.ended(sent.again);
                    }
                    _ => return Err(self.refused(&refusal, &sent)),
                },
                Err(CallError::TooLong) => {
                    return Err(Error::invalid("call", self.op.name(), "it is longer than a frame can be"));
                }
                Err(CallError::Closed) => return self.ended(sent.again),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The session is lost. A call that may have been executed has no known outcome.
    fn ended<T>(&self, again: bool) -> Result<T> {
        if again && self.op.class().changes_store() {
            let why = format!("the session was lost before {} was answered", self.op.name());
            return Err(Error::Indeterminate { why });
        }
        lost(self.op)
    }

    fn refused(&self, refusal: &Refusal, sent: &Sent) -> Error {
        let CallId { slot, sequence } = CallId { slot: sent.slot, sequence: sent.sequence };
        let why = format!("the store refused {} in slot {slot}, number {sequence}: {refusal}", self.op.name());
        Error::Indeterminate { why }
    }

    fn read(&self, frame: Frame) -> Result<Outcome> {
        let unreadable = |error: Error| {
            let why = format!("the answer to {} cannot be read: {error}", self.op.name());
            Error::Indeterminate { why }
        };
        let answered: Answered = read(frame.head).map_err(unreadable)?;
        self.link.versions.tell(answered.versions);
        let besides = Besides { attrs: answered.attrs(), traits: answered.traits() };
        let (boot, reply) = (Boot(answered.boot), answered.reply);
        let (head, data) = if reply.is_empty() { (frame.payload, Bytes::new()) } else { (reply, frame.payload) };
        Ok(Outcome { boot, besides, answer: decode_reply(&head, data).map_err(unreadable)? })
    }
}
