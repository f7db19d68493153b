//! A node and what the store's server has in memory for it.

use node_session::slot::{Begin, Finished, Table};
use node_session::{CallId, Digest, Incarnation, SessionId};
use objstore_files::{Context, FileService as _, Op as FileOp, Reply};
use objstore_files_testing::{decoded, read_reply, write_reply};

use super::super::process::Process;
use super::model::Op;
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::Store;
use crate::volume::{OpenRemote, RemoteSession, SlotCall};

const SLOTS: u32 = 2;
const FIRST: Incarnation = Incarnation(1);

/// A node.
pub(super) struct Node {
    pub(super) name: String,
    id: Option<SessionId>,
    /// Whether its opening was answered, and its end not asked for.
    opened: bool,
    session: Option<RemoteSession>,
    table: Option<Table>,
    last: [u64; SLOTS as usize],
    /// The call without an answer.
    asked: Option<(CallId, Op)>,
    /// The last call that was sent, and its answer, which may not have arrived.
    sent: Option<(CallId, Op, Vec<u8>)>,
    /// The last call that was answered, and its answer.
    before: Option<(CallId, Op, Vec<u8>)>,
}

/// An answer, and whether the call had been executed before.
pub(super) struct Sent {
    pub(super) answer: Result<Reply>,
    pub(super) was_recorded: bool,
}

/// A call of a session that ended.
pub(super) struct Orphaned {
    session: RemoteSession,
    call: CallId,
    op: Op,
}

impl Orphaned {
    /// Whether the store refuses it, also under a number of its own.
    pub(super) fn is_refused(&self, process: &Process) -> bool {
        let is_stale = |call| matches!(execute(&self.session, call, &self.op), Err(Error::Posix(Posix::Stale)));
        let later = CallId { sequence: self.call.sequence + 1, ..self.call };
        is_stale(self.call) && is_stale(later) && process.store.remote_session(self.session.shown().id).is_none()
    }
}

fn digest(op: &Op) -> Digest {
    let mut digest = [0_u8; 16];
    for (at, byte) in format!("{op:?}").bytes().enumerate() {
        digest[at % 16] = digest[at % 16].wrapping_mul(31).wrapping_add(byte);
    }
    Digest(digest)
}

fn execute(session: &RemoteSession, call: CallId, op: &Op) -> Result<Reply> {
    let (asked, data): (FileOp<'static>, Vec<u8>) = op.sent();
    let context = Context { session: session.about().number, caller: None, request: None };
    let slot = SlotCall { call, digest: digest(op), encode: write_reply, decode: decoded };
    session.execute(&context, Some(slot), asked, &data).map(|answer| answer.reply)
}

impl Node {
    pub(super) fn new(number: usize) -> Self {
        let name = format!("n{number}");
        Self {
            name,
            id: None,
            opened: false,
            session: None,
            table: None,
            last: [0; SLOTS as usize],
            asked: None,
            sent: None,
            before: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// Whether its session may be open at the store.
    pub(super) fn may_be_open(&self) -> bool {
        self.id.is_some()
    }

    pub(super) fn begin(&mut self, id: u128) {
        *self = Self { name: std::mem::take(&mut self.name), ..Self::new(0) };
        self.id = Some(SessionId(id));
    }

    pub(super) fn open(&mut self, process: &Process, bucket: &BucketName) -> bool {
        let Some(id) = self.id else { return false };
        let Ok(ticket) = process.run(process.store.ticket(bucket, &self.name)) else {
            // The publication has ended, so the session has.
            self.id = None;
            return false;
        };
        let open = OpenRemote {
            id,
            incarnation: FIRST,
            node: self.name.clone(),
            bucket: bucket.clone(),
            prefix: String::new(),
            read_only: false,
            ticket: Some(ticket.reveal().to_owned()),
            account: None,
        };
        match process.store.open_remote(&open) {
            Ok(session) => {
                self.opened = true;
                self.serve(session);
            }
            Err(Error::Posix(Posix::Stale)) => self.id = None,
            Err(error) => assert!(process.disk.is_dead(), "{error}"),
        }
        self.is_open()
    }

    fn serve(&mut self, session: RemoteSession) {
        self.session = Some(session);
        self.table = self.id.map(|id| Table::new(id, SLOTS, FIRST));
    }

    /// The store died.
    pub(super) fn lose_store(&mut self) {
        (self.session, self.table) = (None, None);
    }

    /// The next process of the store serves the session, if it was recorded.
    pub(super) fn resume(&mut self, store: &Store) {
        match self.id.and_then(|id| store.remote_session(id)) {
            Some(session) => self.serve(session),
            None => assert!(!self.opened, "a session whose opening was answered is lost"),
        }
    }

    /// The session ended, or may have; a call that must not be executed any more.
    pub(super) fn ended(&mut self, is_sure: bool) -> Option<Orphaned> {
        (self.opened, self.id) = (false, self.id.filter(|_| !is_sure));
        let session = self.session.take();
        let (call, op) = self.asked.take().or_else(|| self.before.take().map(|(call, op, _)| (call, op)))?;
        Some(Orphaned { session: session?, call, op })
    }

    pub(super) fn unanswered(&self) -> Option<Op> {
        self.asked.as_ref().map(|(_, op)| op.clone())
    }

    /// Sends a call; `None` without a session.
    pub(super) fn send(&mut self, slot: u32, op: Op) -> Option<Result<Reply>> {
        self.last[slot as usize] += 1;
        self.asked = Some((CallId { slot, sequence: self.last[slot as usize] }, op));
        self.session.is_some().then(|| self.send_again().answer)
    }

    /// Sends the call without an answer again.
    pub(super) fn send_again(&mut self) -> Sent {
        let (call, op) = self.asked.clone().expect("a call");
        let (session, table) = (self.session.clone().expect("a session"), self.table.as_mut().expect("its slots"));
        match table.begin(&session, FIRST, call, digest(&op)) {
            Begin::Run => {
                let answer = execute(&session, call, &op);
                let reply = answer.as_ref().map(write_reply).unwrap_or_default();
                table.finish(call, Finished::Unchanged(reply.clone()));
                self.sent = Some((call, op, reply));
                Sent { answer, was_recorded: false }
            }
            Begin::Replay(reply) => {
                let answer = Ok(read_reply(&reply));
                self.sent = Some((call, op, reply));
                Sent { answer, was_recorded: true }
            }
            wrong => panic!("{op:?} as {call:?}: {wrong:?}"),
        }
    }

    /// Sends the call that was answered last again: its answers.
    pub(super) fn repeat(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (call, op, reply) = self.before.clone()?;
        let (session, table) = self.session.as_ref().zip(self.table.as_mut())?;
        match table.begin(session, FIRST, call, digest(&op)) {
            Begin::Replay(again) => Some((reply, again)),
            Begin::Stale => None,
            // A process before this one answered it, so its late copy is dead with its connection.
            Begin::Run => {
                table.abandon(call);
                None
            }
            wrong => panic!("{op:?} again: {wrong:?}"),
        }
    }

    pub(super) fn answered(&mut self) {
        self.asked = None;
        self.before = self.sent.take();
    }
}
