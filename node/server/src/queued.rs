//! Changes that a node has answered under a lease of the volume: several in one call, made in their order.
//!
//! - The first one that fails ends the call: the node learns the error before it sends the next ones.
//! - A call that is sent again is executed again: the store leaves out what was made.
//! - They take no slot. Their number is the order.

use std::sync::Arc;

use bytes::Bytes;
use node_codec::session::{Answered, QUEUED_PER_CALL, Queued, Sent, write};
use node_codec::{decode_call, encode_reply};
use node_wire::budget::Held;
use node_wire::refusal::{Reason, Refusal};
use node_wire::service::{Answer, Call};
use objstore_base::error::Result as Done;
use objstore_files::{Answer as Made, Attr, AttributeOp, ContentOp, Context, Op, QUEUED_BYTES_MAX, Reply};

use crate::session::Session;
use crate::unanswered::Unanswered;

/// Changes to make.
pub(crate) struct Batch {
    passed: u64,
    changes: Vec<Change>,
    _memory: Held,
}

struct Change {
    queued: Queued,
    context: Context,
    op: Op<'static>,
    data: Bytes,
}

impl Batch {
    /// The changes of a call.
    ///
    /// # Errors
    /// The refusal that the node receives: these are none.
    pub(crate) fn read(sent: Sent, Call { mut payload, memory, .. }: Call) -> Result<Self, Refusal> {
        let wrong = |why: &str| Refusal::new(Reason::Protocol, format!("changes that a node has answered: {why}"));
        if sent.queued.len() > QUEUED_PER_CALL || sent.sequence != 0 || !sent.call.is_empty() {
            return Err(wrong("they are too many for one call, or it has another call besides"));
        }
        let mut changes = Vec::with_capacity(sent.queued.len());
        for queued in sent.queued {
            let len = queued.len as usize;
            if len > payload.len() || len > QUEUED_BYTES_MAX {
                return Err(wrong("one has more bytes than the call brings or a change writes"));
            }
            let data = payload.split_to(len);
            let (context, op) = decode_call(&queued.call).map_err(|error| wrong(&error.to_string()))?;
            changes.push(Change { queued, context, op, data });
        }
        Ok(Self { passed: sent.passed, changes, _memory: memory })
    }

    /// Makes the changes on a thread of the session, and answers.
    pub(crate) async fn make(self, session: &Arc<Session>, unanswered: Unanswered) {
        let making = Arc::clone(session);
        let then = move |answer: Option<Answer>| {
            unanswered.send(answer.ok_or_else(|| {
                Refusal::new(
                    Reason::Other,
                    "changes ended without an outcome; this is a fault of the store, see its log",
                )
            }));
        };
        session.share.start(move || self.make_now(&making), then).await;
    }

    fn make_now(self, session: &Session) -> Answer {
        let (mut made, mut failed) = (0, None);
        let mut changed: Vec<(u64, Context)> = Vec::new();
        if self.passed != 0
            && let Err(error) = session.stored.pass_queued(self.passed)
        {
            failed = Some(error);
        }
        for Change { queued, context, op, data } in &self.changes {
            if failed.is_some() {
                break;
            }
            match session.stored.make_queued(queued, context, op.clone(), data) {
                Ok(()) => made = queued.number,
                Err(error) => failed = Some(error),
            }
            if let Some(ino) = changes(op)
                && changed.iter().all(|(known, _)| *known != ino)
            {
                changed.push((ino, Context { request: None, ..*context }));
            }
        }
        let reply = failed.map_or(Ok(Made { reply: Reply::Done(()), recorded: false }), Err);
        let after: Vec<Attr> = changed.iter().filter_map(|(ino, context)| attr(session, context, *ino).ok()).collect();
        let answered =
            Answered { boot: session.boot.0, reply: encode_reply(&reply).0.into(), made, ..Answered::default() };
        Answer { head: write(&answered.with_after(&after)), payload: Bytes::new() }
    }
}

/// The file whose attributes a change leaves different.
fn changes(op: &Op<'_>) -> Option<u64> {
    match op {
        Op::Content(ContentOp::Write { ino, .. }) | Op::Attributes(AttributeOp::SetAttr { ino, .. }) => Some(*ino),
        _ => None,
    }
}

fn attr(session: &Session, context: &Context, ino: u64) -> Done<Attr> {
    let answer = session.stored.files().call(context, AttributeOp::Attr { ino }.into(), &[])?;
    Attr::try_from(answer.reply).map_err(|_| objstore_base::error::Posix::Stale.into())
}

#[cfg(test)]
mod tests {
    use node_codec::encode_call;

    use super::*;

    /// A call with changes that write so many bytes each, and the bytes that come with it.
    fn read(lens: &[u32], payload: usize, change: impl FnOnce(&mut Sent)) -> Option<Vec<usize>> {
        let op = ContentOp::Write { ino: 7, offset: 0, kill_privileges: false }.into();
        let call: Bytes = encode_call(&Context { session: 1, caller: None, request: None }, &op).into();
        let queued =
            |(at, len): (usize, &u32)| Queued { number: at as u64, ino: 0, at: 0, len: *len, call: call.clone() };
        let mut sent = Sent { queued: lens.iter().enumerate().map(queued).collect(), ..Sent::default() };
        change(&mut sent);
        let payload = vec![0; payload].into();
        let call = Call { head: Bytes::new(), payload, reply_bytes: 0, memory: Held::default() };
        let batch = Batch::read(sent, call).ok()?;
        Some(batch.changes.iter().map(|change| change.data.len()).collect())
    }

    #[test]
    fn changes_have_their_own_bytes_and_are_bounded() {
        assert_eq!(read(&[3, 0, 4], 7, |_| {}), Some(vec![3, 0, 4]));
        assert_eq!(read(&[3, 5], 7, |_| {}), None, "more bytes than there are");
        assert_eq!(read(&[u32::MAX], 7, |_| {}), None);
        let most = QUEUED_BYTES_MAX as u32;
        assert!(read(&[most], QUEUED_BYTES_MAX, |_| {}).is_some());
        assert_eq!(read(&[most + 1], QUEUED_BYTES_MAX + 1, |_| {}), None);
        assert!(read(&[0; QUEUED_PER_CALL], 0, |_| {}).is_some());
        assert_eq!(read(&[0; QUEUED_PER_CALL + 1], 0, |_| {}), None);
        assert_eq!(read(&[1], 1, |sent| sent.sequence = 1), None, "it has a slot");
        assert_eq!(read(&[1], 1, |sent| sent.call = Bytes::from_static(b"x")), None, "it has another call besides");
        assert_eq!(read(&[1], 1, |sent| sent.queued[0].call = Bytes::from_static(b"\xff")), None);
    }
}
