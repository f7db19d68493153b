//! Sessions of mounts on other machines: slots, the fence, and what a restart and a stranger find.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use node_session::slot::Outcomes as _;
use node_session::{CallId, Digest, Incarnation, SessionId};
use objstore_files::{
    About, Answer, AttributeOp, Changes, Class, ContentOp, Context, FileService, FileSession, NameOp, Op, OpenOp,
    Reply, RequestId,
};
use objstore_files_testing::conformance::{Subject, tests};
use objstore_files_testing::{decoded, read_reply, write_reply};
use parking_lot::Mutex;
use prost::Message;

use super::test_store::{Later, TestStore, by_root, find, name};
use crate::error::{Error, Posix, Result};
use crate::meta::faulty::{Failure, Log};
use crate::meta::{Durability, Txn};
use crate::name::BucketName;
use crate::record::key::{self, tag};
use crate::record::session::{Remote, Session};
use crate::store::{Mode, Publication};
use crate::volume::{Make, OpenRemote, ROOT_INO, RemoteSession, SlotCall, VolumeOptions};

/// The id of the session in these tests.
pub(super) const ID: SessionId = SessionId(7 << 100);

impl TestStore {
    pub(super) fn publish(&self, bucket: &BucketName, node: &str, read_only: bool) -> String {
        self.publish_needing(bucket, (node, read_only), true)
    }

    pub(super) fn publish_needing(
        &self,
        bucket: &BucketName,
        (node, read_only): (&str, bool),
        ticket_suffices: bool,
    ) -> String {
        let (node, capability) = (node.to_owned(), "mount".to_owned());
        let publication = Publication {
            bucket: bucket.clone(),
            node: node.clone(),
            read_only,
            capability,
            ticket_suffices,
            fenced_by: None,
        };
        self.run(self.store.publish(publication)).unwrap();
        self.run(self.store.ticket(bucket, &node)).unwrap().reveal().to_owned()
    }

    /// A session of the node `n1` on a bucket that is published to it.
    pub(super) fn remote(&self, bucket: &BucketName) -> RemoteSession {
        let ticket = self.publish(bucket, "n1", false);
        self.store.open_remote(&opening(bucket, Some(ticket))).unwrap()
    }

    /// The same session after a restart of the store.
    pub(super) fn remote_again(&self) -> RemoteSession {
        self.store.remote_session(ID).unwrap()
    }
}

pub(super) fn opening(bucket: &BucketName, ticket: Option<String>) -> OpenRemote {
    OpenRemote {
        id: ID,
        incarnation: Incarnation(1),
        node: "n1".into(),
        bucket: bucket.clone(),
        prefix: String::new(),
        read_only: false,
        ticket,
        account: None,
    }
}

pub(super) fn in_slot(slot: u32, sequence: u64) -> SlotCall {
    SlotCall { call: CallId { slot, sequence }, digest: Digest([9; 16]), encode: write_reply, decode: decoded }
}

pub(super) fn context(session: &RemoteSession) -> Context {
    Context { session: session.about().number, caller: None, request: None }
}

pub(super) fn call(
    session: &RemoteSession,
    slot: Option<SlotCall>,
    op: impl Into<Op<'static>>,
    data: &[u8],
) -> Result<Reply> {
    session.execute(&context(session), slot, op.into(), data).map(|answer| answer.reply)
}

pub(super) fn create(name: &str) -> NameOp<'static> {
    NameOp::Create { parent: ROOT_INO, name: name.to_owned().into(), owner: by_root(0o644) }
}

pub(super) fn ino(reply: Reply) -> u64 {
    match reply {
        Reply::Attr(attr) => attr.ino,
        other => panic!("{other:?}"),
    }
}

pub(super) fn is_stale<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Posix(Posix::Stale)))
}

/// What a node and the server of a store make of a session between them: a mount's service.
struct Node {
    store: crate::Store,
    session: RemoteSession,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    last: u64,
    sent: HashMap<u64, CallId>,
    /// Replies, for those that are not recorded in the slot.
    kept: HashMap<CallId, Reply>,
}

impl FileService for Node {
    fn about(&self) -> About {
        self.session.about()
    }

    fn call(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        let waits = op.waits_for_others();
        let answer = self.execute(context, op, data)?;
        if waits {
            self.session.barrier().wait();
        }
        Ok(answer)
    }

    fn answered(&self, _: RequestId) {}

    fn changes(&self) -> Box<dyn Changes> {
        self.session.changes()
    }

    fn close_changes(&self) {}

    fn end(&self) {
        self.store.end_remote(ID).unwrap();
    }
}

impl Node {
    fn execute(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        if op.class() != Class::Once {
            return self.session.call(context, op, data);
        }
        let mut calls = self.calls.lock();
        let known = context.request.and_then(|request| calls.sent.get(&request.unique).copied());
        if let Some(known) = known {
            let last = self.session.last(ID, known.slot).filter(|last| last.sequence == known.sequence);
            let reply = last.map_or_else(|| calls.kept[&known].clone(), |last| read_reply(&last.reply));
            return Ok(Answer { reply, recorded: true });
        }
        let slot = in_slot(3, calls.last + 1);
        let answer = self.session.execute(context, Some(slot), op, data)?;
        calls.last += 1;
        calls.kept.insert(slot.call, answer.reply.clone());
        if let Some(RequestId { unique, .. }) = context.request {
            calls.sent.insert(unique, slot.call);
        }
        Ok(Answer { recorded: true, ..answer })
    }
}

/// A bucket with a mount of this machine, and one of another machine as the persistent session.
struct Both {
    test: TestStore,
    bucket: BucketName,
}

impl Subject for Both {
    fn open(&self) -> FileSession {
        FileSession::from(self.test.store.open_volume(&self.bucket, VolumeOptions::default()).unwrap())
    }

    fn open_read_only(&self) -> FileSession {
        let options = VolumeOptions { read_only: true, ..VolumeOptions::default() };
        FileSession::from(self.test.store.open_volume(&self.bucket, options).unwrap())
    }

    fn open_persistent(&self) -> FileSession {
        let session = self.test.remote(&self.bucket);
        // Changes through other mounts wait for this one.
        let mut changes = session.changes();
        std::thread::spawn(move || {
            while changes.next().is_some() {
                changes.acknowledge();
            }
        });
        FileSession::new(Node { store: self.test.store.clone(), session, calls: Mutex::default() })
    }

    fn put(&self, key: &str, content: &[u8]) {
        self.test.put(&self.bucket, key, content).unwrap();
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "a failed test is named")]
fn a_session_of_another_machine_keeps_what_the_seam_promises() {
    for (name, test) in tests() {
        println!("{name}");
        let store = TestStore::in_memory();
        let both = Both { bucket: store.bucket("bucket"), test: store };
        test(&both);
        both.test.collect();
        both.test.audit();
    }
}

#[test]
fn an_id_opens_one_session_for_one_node_and_its_latest_process() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let ticket = test.publish(&bucket, "n1", false);
    let foreign = test.publish(&bucket, "n2", false);
    let open = opening(&bucket, Some(ticket));
    let number = test.store.open_remote(&open).unwrap().about().number;
    assert_eq!(test.store.open_remote(&open).unwrap().about().number, number);
    assert_eq!(test.store.remote_sessions().len(), 1);
    let refused = |open| matches!(test.store.open_remote(&open), Err(Error::Invalid { .. }));
    assert!(refused(OpenRemote { node: "n2".into(), ticket: Some(foreign), ..open.clone() }), "another node's session");
    let later = OpenRemote { incarnation: Incarnation(3), ..open.clone() };
    test.store.open_remote(&later).unwrap();
    assert!(refused(open.clone()), "an earlier process");
    let test = test.killed(&[]);
    assert!(matches!(test.store.open_remote(&open), Err(Error::Invalid { .. })), "also after a restart");
    assert_eq!(test.store.open_remote(&later).unwrap().about().number, number);
}

#[test]
fn an_access_key_opens_no_more_than_its_grant_and_until_it_is_revoked() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    test.put(&bucket, "f", b"x").unwrap();
    test.run(test.store.create_account("anna", false)).unwrap();
    let open = OpenRemote { account: Some("anna".into()), ..opening(&bucket, None) };
    let denied = |open| matches!(test.store.open_remote(&open), Err(Error::Denied { .. }));
    assert!(denied(open.clone()), "without a grant");
    test.run(test.store.add_grant(&bucket, "anna", Mode::Read)).unwrap();
    assert!(denied(open.clone()), "to write");
    let open = OpenRemote { read_only: true, ..open };
    let session = test.store.open_remote(&open).unwrap();
    let lookup = NameOp::Lookup { parent: ROOT_INO, name: "f".into() };
    ino(call(&session, None, lookup.clone(), b"").unwrap());
    let mut changes = session.changes();
    let node = std::thread::spawn(move || {
        while changes.next().is_some() {
            changes.acknowledge();
        }
    });
    test.run(test.store.remove_grant(&bucket, "anna")).unwrap();
    assert!(matches!(call(&session, None, lookup, b""), Err(Error::Denied { .. })));
    assert!(denied(open), "at the next reconnection");
    test.store.end_remote(ID).unwrap();
    node.join().unwrap();
}

#[test]
fn an_outcome_outlives_the_store_and_a_change_is_done_once() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let made = ino(call(&session, Some(in_slot(0, 1)), create("a"), b"").unwrap());
    call(&session, Some(in_slot(1, 1)), ContentOp::Append { ino: made }, b"once").unwrap();
    assert!(call(&session, None, create("b"), b"").is_err(), "a call that is done once has a name");
    drop(session);
    let test = test.killed(&[]);
    let session = test.remote_again();
    let last = session.last(ID, 0).unwrap();
    assert_eq!((last.sequence, last.digest, ino(read_reply(&last.reply))), (1, Digest([9; 16]), made));
    assert_eq!(session.recorded().unwrap(), [(CallId { slot: 0, sequence: 1 }, last)]);
    assert!(session.last(SessionId(1), 0).is_none() && session.last(ID, 1).is_none());
    assert!(call(&session, Some(in_slot(0, 1)), create("a"), b"").is_err(), "it is not done again");
    let again = call(&session, Some(in_slot(1, 1)), ContentOp::Append { ino: made }, b"once").unwrap();
    assert!(matches!(again, Reply::Number(4)), "an append is found in the file: {again:?}");
    call(&session, Some(in_slot(1, 2)), ContentOp::Append { ino: made }, b"more").unwrap();
    call(&session, Some(in_slot(0, 2)), create("b"), b"").unwrap();
    assert_eq!(session.last(ID, 0).unwrap().sequence, 2);
    assert_eq!(test.get(&bucket, "a").unwrap(), b"oncemore");
    test.store.end_remote(ID).unwrap();
    test.audit_collected();
}

#[test]
fn a_commit_that_fails_leaves_the_change_with_its_outcome_or_neither() {
    for failure in [Failure::Lost, Failure::Written] {
        let log = Log::default();
        let test = TestStore::on(Arc::new(tempfile::tempdir().unwrap()), log.open());
        test.store.background.stop();
        let bucket = test.bucket("volume");
        let session = test.remote(&bucket);
        log.fail(failure);
        assert!(matches!(call(&session, Some(in_slot(0, 1)), create("a"), b""), Err(Error::Indeterminate { .. })));
        drop(session);
        let dir = test.dir.clone();
        drop(test.store.background.collect_now());
        drop(test);
        let test = TestStore::on(dir, log.open());
        let session = test.remote_again();
        let there = find(&test.mount(&bucket), "a").ok();
        let recorded = session.last(ID, 0).map(|last| ino(read_reply(&last.reply)));
        assert_eq!((there, there.is_some()), (recorded, matches!(failure, Failure::Written)), "{failure:?}");
        if recorded.is_none() {
            call(&session, Some(in_slot(0, 1)), create("a"), b"").unwrap();
        }
        assert_eq!(session.last(ID, 0).unwrap().sequence, 1);
    }
}

#[test]
fn nothing_of_a_session_is_done_after_its_volume_is_unpublished() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let file = ino(call(&session, Some(in_slot(0, 1)), create("log"), b"").unwrap());
    call(&session, None, ContentOp::Write { ino: file, offset: 0, kill_privileges: false }, &[0; 8 << 10]).unwrap();
    let (state, busy) = std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let (mut done, mut at) = (0, 8 << 10);
            loop {
                let write = ContentOp::Write { ino: file, offset: at, kill_privileges: false };
                let name = create(&format!("f{done}"));
                let slot = Some(in_slot(1, done + 1));
                match call(&session, None, write, &[1; 100]).and_then(|_| call(&session, slot, name, b"")) {
                    Ok(_) => (done, at) = (done + 1, at + 100),
                    Err(error) => return (done, error),
                }
            }
        });
        while test.get(&bucket, "f3").is_err() {
            std::thread::yield_now();
        }
        test.run(test.store.unpublish(&bucket, Some("n1"))).unwrap();
        let look = || (test.get(&bucket, "log").unwrap().len(), test.store.usage(&bucket).unwrap().inodes);
        let state = look();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(look(), state);
        (state, busy.join().unwrap())
    });
    let (done, error) = busy;
    assert!(matches!(error, Error::Posix(Posix::Stale)) && state.1 > done, "{done} {error} {state:?}");
    assert!(is_stale(&call(&session, None, AttributeOp::Attr { ino: file }, b"")), "nor read");
    let ticket = test.publish(&bucket, "n1", false);
    assert!(is_stale(&test.store.open_remote(&opening(&bucket, Some(ticket.clone())))), "no late opening revives it");
    drop(session);
    let test = test.killed(&[]);
    assert!(is_stale(&test.store.open_remote(&opening(&bucket, Some(ticket)))));
    assert!(test.store.remote_sessions().is_empty());
    test.audit_collected();
}

#[test]
fn an_ended_id_is_kept_for_a_day() {
    let clock = Arc::new(Later::default());
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("volume");
    let ticket = test.publish(&bucket, "n1", false);
    let open = opening(&bucket, Some(ticket));
    drop(test.store.open_remote(&open).unwrap());
    test.store.end_remote(ID).unwrap();
    test.store.end_remote(ID).unwrap();
    clock.advance(Duration::from_secs(23 * 3600));
    test.collect();
    assert!(is_stale(&test.store.open_remote(&open)));
    clock.advance(Duration::from_secs(2 * 3600));
    test.collect();
    test.store.open_remote(&open).unwrap();
}

#[test]
fn an_unlinked_file_of_another_machine_stays_over_a_restart_until_its_kernel_lets_go() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let file = ino(call(&session, Some(in_slot(0, 1)), create("a"), b"").unwrap());
    call(&session, None, ContentOp::Write { ino: file, offset: 0, kill_privileges: false }, b"kept").unwrap();
    call(&session, Some(in_slot(0, 2)), NameOp::Unlink { parent: ROOT_INO, name: "a".into() }, b"").unwrap();
    drop(session);
    let test = test.killed(&[]);
    let session = test.remote_again();
    let read = ContentOp::Read { ino: file, offset: 0, len: 10 };
    assert!(matches!(call(&session, None, read, b"").unwrap(), Reply::Data(data) if &data[..] == b"kept"));
    let mut changes = session.changes();
    let asked = changes.next().unwrap();
    assert!(asked.contains(&crate::volume::Change::Probe { ino: file }), "{asked:?}");
    changes.acknowledge();
    call(&session, None, OpenOp::ProbeResult { ino: file, held: false }, b"").unwrap();
    test.store.core.meta.sync().wait().unwrap();
    assert!(is_stale(&call(&session, None, read, b"")));
    test.store.end_remote(ID).unwrap();
    drop((session, changes));
    test.audit_collected();
}

#[test]
fn an_s3_write_waits_for_another_machine_until_it_acknowledges_or_its_session_ends() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let waits = |seconds| {
        let put = test.store.core.feeds.wait_for_mounts(test.store.bucket(&bucket).unwrap().id);
        test.run(async { tokio::time::timeout(Duration::from_secs_f32(seconds), put).await.is_err() })
    };
    let make = |name: &str| {
        let volume = test.mount(&bucket);
        let made = volume.make(ROOT_INO, name, Make::Directory, by_root(0o755)).unwrap();
        volume.forget(made.ino, 1);
    };
    make("a");
    assert!(waits(2.5), "longer than for a mount of this machine");
    let mut changes = session.changes();
    assert!(changes.next().is_some());
    changes.acknowledge();
    assert!(!waits(0.5));
    let barrier = session.barrier();
    test.run(barrier.passed());
    make("b");
    assert!(waits(0.1));
    test.store.end_remote(ID).unwrap();
    assert!(!waits(0.5) && changes.next().is_none_or(|_| changes.next().is_none()));
}

#[test]
fn a_damaged_session_of_another_machine_keeps_no_store_from_opening() {
    for damaged in [vec![0xff; 20], Session { remote: Some(Remote::default()), ..Session::default() }.encode_to_vec()] {
        let test = TestStore::in_memory();
        let bucket = test.bucket("volume");
        let session = test.remote(&bucket);
        let key = key::by_id(tag::SESSION, session.about().number);
        let write = move |txn: &mut dyn Txn| {
            txn.put(key, damaged);
            Ok(())
        };
        test.store.core.meta.write(Durability::Buffered, write).wait().unwrap();
        drop(session);
        let test = test.killed(&[]);
        assert!(test.store.remote_sessions().is_empty());
        test.put(&bucket, "a", b"x").unwrap();
        test.run(test.store.unpublish(&bucket, None)).unwrap();
    }
}

#[test]
fn a_peer_that_may_only_read_opens_nothing_for_writing() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    test.put(&bucket, "f", b"x").unwrap();
    let ticket = test.publish(&bucket, "n1", true);
    let session = test.store.open_remote(&opening(&bucket, Some(ticket))).unwrap();
    let file = ino(call(&session, None, NameOp::Lookup { parent: ROOT_INO, name: "f".into() }, b"").unwrap());
    let opened = call(&session, None, OpenOp::OpenWriter { ino: file }, b"");
    assert!(matches!(opened, Err(Error::Posix(Posix::ReadOnly))), "{opened:?}");
    call(&session, None, OpenOp::CloseWriter { ino: file, inherited: true }, b"").unwrap();
    assert!(!test.store.core.writers.has_handles(test.store.bucket(&bucket).unwrap().id, file));
}

#[test]
fn one_publication_takes_only_a_part_of_all_sessions() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let ticket = test.publish(&bucket, "n1", false);
    let open = |id| OpenRemote { id: SessionId(id), ..opening(&bucket, Some(ticket.clone())) };
    let opened = (1..).map(|id| test.store.open_remote(&open(id))).take_while(Result::is_ok).count();
    assert_eq!(opened, 64);
    assert!(matches!(test.store.open_remote(&open(1000)), Err(Error::TooMany { .. })));
    test.store.open_remote(&open(7)).unwrap();
    let other = test.publish(&bucket, "n2", false);
    let elsewhere = OpenRemote { node: "n2".into(), ..opening(&bucket, Some(other)) };
    test.store.open_remote(&OpenRemote { id: SessionId(2000), ..elsewhere }).unwrap();
    test.store.end_remote(SessionId(7)).unwrap();
    test.store.open_remote(&open(1000)).unwrap();
}

#[test]
fn one_account_takes_only_a_part_of_all_sessions() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    test.run(test.store.create_account("anna", false)).unwrap();
    test.run(test.store.add_grant(&bucket, "anna", Mode::ReadWrite)).unwrap();
    let open = |id| OpenRemote { id: SessionId(id), account: Some("anna".into()), ..opening(&bucket, None) };
    let opened = (1..).map(|id| test.store.open_remote(&open(id))).take_while(Result::is_ok).count();
    assert_eq!(opened, 256);
    assert!(matches!(test.store.open_remote(&open(1000)), Err(Error::TooMany { .. })));
    test.store.open_remote(&open(7)).unwrap();
    test.remote(&bucket);
    test.store.end_remote(SessionId(7)).unwrap();
    test.store.open_remote(&open(1000)).unwrap();
}

#[test]
fn a_peer_closes_only_what_it_opened() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    test.put(&bucket, "f", b"x").unwrap();
    let (local, session) = (test.mount(&bucket), test.remote(&bucket));
    let file = find(&local, "f").unwrap();
    local.open_writer(file).unwrap();
    let id = test.store.bucket(&bucket).unwrap().id;
    let is_open = || test.store.core.writers.has_handles(id, file);
    let close = OpenOp::CloseWriter { ino: file, inherited: false };
    call(&session, None, close.clone(), b"").unwrap();
    assert!(is_open(), "the writer of another session is not closed");
    for handle in 0..100 {
        call(&session, None, OpenOp::Closing { ino: file, handle }, b"").unwrap();
    }
    assert_eq!(test.store.core.writers.closings.count(id, file, 0), (0, 0));
    call(&session, None, OpenOp::OpenWriter { ino: file }, b"").unwrap();
    for handle in 0..100 {
        call(&session, None, OpenOp::Closing { ino: file, handle }, b"").unwrap();
    }
    call(&session, None, close, b"").unwrap();
    local.close_writer(file).unwrap();
    assert!(!is_open());
    assert!(call(&session, Some(in_slot(1 << 20, 1)), create("b"), b"").is_err(), "no such slot");
    drop(local);
    test.store.end_remote(ID).unwrap();
    test.audit_collected();
    assert!(test.store.bucket(&name("volume")).is_ok());
}

#[test]
fn what_a_hostile_peer_makes_the_store_hold_is_bounded() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    test.put(&bucket, "f", b"x").unwrap();
    let session = test.remote(&bucket);
    let file = ino(call(&session, None, NameOp::Lookup { parent: ROOT_INO, name: "f".into() }, b"").unwrap());
    let shared = &test.store.core;
    for handle in 0..3000 {
        call(&session, None, OpenOp::OpenWriter { ino: file }, b"").unwrap();
        call(&session, None, OpenOp::Closing { ino: file, handle }, b"").unwrap();
    }
    let mount = shared.persistent.of_bucket(test.store.bucket(&bucket).unwrap().id)[0].1;
    let (closing, all) = shared.writers.closings.count(test.store.bucket(&bucket).unwrap().id, file, mount);
    assert_eq!((closing, all), (1024, 1024), "handles that other writers look at");
    let mut calls = 0;
    let refused = loop {
        let inos: Vec<u64> = (0..16 << 10).map(|ino| calls << 20 | ino).collect();
        match call(&session, None, OpenOp::OpenBefore { inos: inos.into() }, b"") {
            Ok(_) => calls += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::TooMany { .. }) && calls == 64, "{calls} {refused}");
    for ino in 0..10_000 {
        call(&session, None, NameOp::Forget { ino, count: u64::MAX }, b"").unwrap();
    }
    call(&session, None, AttributeOp::Attr { ino: file }, b"").unwrap();
    test.store.end_remote(ID).unwrap();
    assert_eq!(shared.writers.closings.count(test.store.bucket(&bucket).unwrap().id, file, mount), (0, 0));
    test.audit_collected();
}
