//! Exclusive leases of volumes: others wait for what a node has answered, which is made once and in order, over the death
//! of the store too, and never after the end of the session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use objstore_files::{AttributeOp, ContentOp, FileService as _, NameOp, Op, OpenOp, Reply, SetAttr};
use objstore_files_testing::{decoded, write_reply};
use parking_lot::Mutex;

use super::random::Choices;
use super::remote::{ID, call, context, create, in_slot, ino, is_stale, opening};
use super::test_store::{Later, TestStore, find};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::feed::Change;
use crate::name::BucketName;
use crate::store::{SetBucket, Versioning};
use crate::volume::{OpenRemote, QueuedCall, ROOT_INO, RemoteSession, VolumeLease, VolumeOptions};

/// After so long others have not just used a bucket.
const PAUSE: Duration = Duration::from_secs(1);

/// A change that the node has answered.
#[derive(Clone)]
struct Queued {
    number: u64,
    ino: u64,
    at: Timestamp,
    op: Op<'static>,
    data: Vec<u8>,
}

impl Queued {
    fn make(&self, session: &RemoteSession) -> Result<Option<Reply>> {
        let Self { number, ino, at, op, data } = self;
        let queued = QueuedCall { number: *number, ino: *ino, at: *at, encode: write_reply, decode: decoded };
        let made = session.make_queued(&context(session), queued, op.clone(), data)?;
        Ok(made.map(|answer| answer.reply))
    }
}

/// A node with the lease of a volume: what it has answered and not handed in.
#[derive(Default)]
struct Node {
    queue: Vec<Queued>,
    next_ino: u64,
    number: u64,
    now: i64,
}

impl Node {
    fn granted(lease: &VolumeLease) -> Self {
        Self { next_ino: lease.inos.start, now: lease.now.0, ..Self::default() }
    }

    fn answer(&mut self, ino: u64, op: impl Into<Op<'static>>, data: &[u8]) {
        self.number += 1;
        self.now += 1000;
        let (number, at) = (self.number, Timestamp(self.now));
        self.queue.push(Queued { number, ino, at, op: op.into(), data: data.to_vec() });
    }

    fn create(&mut self, name: &str) -> u64 {
        let ino = self.next_ino;
        self.next_ino += 1;
        self.answer(ino, create(name), b"");
        ino
    }

    fn write(&mut self, ino: u64, offset: u64, data: &[u8]) {
        self.answer(0, ContentOp::Write { ino, offset, kill_privileges: false }, data);
    }

    /// Hands everything in.
    fn flush(&mut self, session: &RemoteSession) {
        for queued in self.queue.drain(..) {
            queued.make(session).unwrap();
        }
    }
}

fn lease(session: &RemoteSession) -> VolumeLease {
    session.lease_volume().unwrap().expect("it is alone")
}

/// Serves a node until its session ends: it hands in what it has answered, and then gives the lease back.
fn serve(session: &RemoteSession, node: &Arc<Mutex<Node>>) -> std::thread::JoinHandle<Vec<u64>> {
    let (mut changes, session, node) = (session.changes(), session.clone(), Arc::clone(node));
    std::thread::spawn(move || {
        let mut recalls = Vec::new();
        while let Some(batch) = changes.next() {
            for change in batch {
                if let Change::Recall { grant } = change {
                    node.lock().flush(&session);
                    recalls.push(grant);
                }
            }
            changes.acknowledge();
        }
        recalls
    })
}

fn share(test: &TestStore, bucket: &BucketName) {
    test.run(test.store.share_bucket(bucket)).unwrap();
}

#[test]
fn every_other_use_of_a_bucket_waits_for_what_its_node_has_answered() {
    let clock = Arc::new(Later::default());
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let granted = lease(&session);
    let node = Arc::new(Mutex::new(Node::granted(&granted)));
    let serving = serve(&session, &node);
    let made = node.lock().create("a");
    node.lock().write(made, 0, b"answered");
    node.lock().answer(0, OpenOp::CloseWriter { ino: made, inherited: false }, b"");
    let answered_at = node.lock().now;
    assert!(test.get(&bucket, "a").is_err(), "it is not handed in");
    share(&test, &bucket);
    assert_eq!(test.get(&bucket, "a").unwrap(), b"answered");
    let reply = call(&session, None, AttributeOp::Attr { ino: made }, b"").unwrap();
    let Reply::Attr(attr) = reply else { panic!("{reply:?}") };
    assert_eq!((attr.ino, attr.mtime.0, attr.ctime.0), (made, answered_at - 1000, answered_at - 1000));
    assert_eq!(attr.btime.0, answered_at - 2000);
    assert!(session.lease_volume().unwrap().is_none(), "others have just used it");
    assert!(is_stale(
        &Queued { number: 9, ino: 0, at: granted.now, op: create("b").into(), data: vec![] }.make(&session)
    ));
    clock.advance(PAUSE);

    // A change of S3, a setting, a snapshot, a mount here: each finds what was answered before.
    let uses: [&dyn Fn(); 4] = [
        &|| drop(test.put(&bucket, "s3", b"x").unwrap()),
        &|| drop(test.run(test.store.set_bucket(&bucket, SetBucket::default())).unwrap()),
        &|| drop(test.run(test.store.create_snapshot(&bucket, &super::test_store::name("snap"))).unwrap()),
        &|| drop(test.store.open_volume(&bucket, VolumeOptions::default()).unwrap()),
    ];
    let number = node.lock().number;
    for (turn, other) in uses.iter().enumerate() {
        let next = lease(&session);
        assert!(next.grant > granted.grant && next.inos.start >= granted.inos.end);
        *node.lock() = Node { number: number + turn as u64, ..Node::granted(&next) };
        let file = format!("f{turn}");
        let made = node.lock().create(&file);
        other();
        let found = session.make_queued(
            &context(&session),
            QueuedCall { number: 1, ino: 0, at: next.now, encode: write_reply, decode: decoded },
            create("late").into(),
            b"",
        );
        assert!(is_stale(&found), "the lease is gone");
        let look = NameOp::Lookup { parent: ROOT_INO, name: file.into() };
        assert_eq!(ino(call(&session, None, look, b"").unwrap()), made);
        clock.advance(PAUSE);
    }
    test.store.end_remote(ID).unwrap();
    assert_eq!(serving.join().unwrap().len(), 5);
    test.audit_collected();
}

#[test]
fn the_end_of_a_session_gives_its_lease_back_and_nothing_of_it_is_made_later() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let mut node = Node::granted(&lease(&session));
    node.create("made");
    node.flush(&session);
    node.create("late");
    let late = node.queue[0].clone();
    std::thread::scope(|scope| {
        // The node does not answer: who uses the bucket waits for the end of its session.
        let waiting = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(test.store.share_bucket(&bucket)).unwrap();
        });
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        test.store.end_remote(ID).unwrap();
        waiting.join().unwrap();
    });
    assert!(is_stale(&late.make(&session)) && test.get(&bucket, "late").is_err());
    assert_eq!(test.get(&bucket, "made").unwrap(), b"");
    test.audit_collected();
}

#[test]
fn a_volume_is_leased_to_its_only_session_without_versions_and_as_a_whole() {
    let clock = Arc::new(Later::default());
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let other = test.mount(&bucket);
    assert_eq!(session.lease_volume().unwrap(), None, "a mount of this machine");
    drop(other);
    let granted = lease(&session);
    assert_eq!(lease(&session).grant, granted.grant, "a repeated request");
    assert!(lease(&session).inos.start >= granted.inos.end, "numbers are never given twice");

    // A second session of another machine waits until the first has given the lease back.
    let node = Arc::default();
    let serving = serve(&session, &node);
    let ticket = test.publish(&bucket, "n2", false);
    let open = OpenRemote { id: node_session::SessionId(9), node: "n2".into(), ..opening(&bucket, Some(ticket)) };
    let second = test.store.open_remote(&open).unwrap();
    assert_eq!((session.lease_volume().unwrap(), second.lease_volume().unwrap()), (None, None));
    test.store.end_remote(ID).unwrap();
    assert_eq!(serving.join().unwrap(), [granted.grant]);
    clock.advance(PAUSE);
    assert!(lease(&second).grant > granted.grant);
    test.store.end_remote(open.id).unwrap();

    let versioned = SetBucket { versioning: Some(Versioning::Enabled), ..SetBucket::default() };
    test.run(test.store.set_bucket(&bucket, versioned)).unwrap();
    let third = OpenRemote { id: node_session::SessionId(10), ..open };
    assert_eq!(test.store.open_remote(&third).unwrap().lease_volume().unwrap(), None);
}

#[test]
fn a_lying_node_makes_nothing_but_what_a_node_may_answer() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let early = Queued { number: 1, ino: 5, at: Timestamp(0), op: create("a").into(), data: vec![] };
    assert!(is_stale(&early.make(&session)), "without a lease");
    let granted = lease(&session);
    let far = Timestamp(i64::MAX);
    let with = |number, ino, op: Op<'static>, data: Vec<u8>| Queued { number, ino, at: far, op, data }.make(&session);
    let refused = |made: Result<Option<Reply>>| matches!(made, Err(Error::Invalid { .. }));
    for ino in [0, ROOT_INO, granted.inos.start - 1, granted.inos.end, u64::MAX] {
        assert!(refused(with(1, ino, create("a").into(), vec![])), "{ino}");
    }
    let mut node = Node::granted(&granted);
    let first = node.create("first");
    node.flush(&session);
    assert!(refused(with(2, first, create("again").into(), vec![])), "the number of a file that is there");
    let set = SetAttr { size: Some(1 << 40), ..SetAttr::default() };
    assert!(refused(with(2, 0, AttributeOp::SetAttr { ino: first, set }.into(), vec![])));
    assert!(refused(with(2, 0, ContentOp::Append { ino: first }.into(), vec![1])));
    let long = ContentOp::Write { ino: first, offset: 0, kill_privileges: false };
    assert!(refused(with(2, 0, long.into(), vec![1; (128 << 10) + 1])));
    let before = test.store.core.clock.now();
    with(2, granted.inos.start + 1, create("future").into(), vec![]).unwrap().unwrap();
    let reply = call(&session, None, AttributeOp::Attr { ino: granted.inos.start + 1 }, b"").unwrap();
    let Reply::Attr(attr) = reply else { panic!("{reply:?}") };
    assert!(attr.btime >= before && attr.btime <= test.store.core.clock.now(), "no time later than now");
    // Other calls of the session go on as ever, and receive other numbers.
    let other = ino(call(&session, Some(in_slot(0, 1)), create("other"), b"").unwrap());
    assert!(!granted.inos.contains(&other));
    test.store.end_remote(ID).unwrap();
    test.audit_collected();
}

/// What the files should have.
type Model = BTreeMap<String, (u64, Vec<u8>)>;

/// Answers a random change, in the queue and in the model.
fn answer(node: &mut Node, model: &mut Model, choices: &mut Choices) {
    let name = format!("f{}", choices.below(6));
    let Some((ino, content)) = model.get_mut(&name) else {
        let ino = node.create(&name);
        model.insert(name, (ino, Vec::new()));
        return;
    };
    match choices.below(6) {
        0 => {
            node.answer(0, NameOp::Unlink { parent: ROOT_INO, name: name.clone().into() }, b"");
            model.remove(&name);
        }
        1 => node.answer(0, OpenOp::CloseWriter { ino: *ino, inherited: false }, b""),
        2 => {
            let set = SetAttr { mode: Some(0o600), mtime: Some(Timestamp(7)), ..SetAttr::default() };
            node.answer(0, AttributeOp::SetAttr { ino: *ino, set }, b"");
        }
        _ => {
            let (offset, len) = (choices.below(content.len() + 1), 1 + choices.below(3000));
            let data = vec![choices.below(256) as u8; len];
            content.resize(content.len().max(offset + len), 0);
            content[offset..offset + len].copy_from_slice(&data);
            node.write(*ino, offset as u64, &data);
        }
    }
}

#[test]
fn changes_are_made_once_and_in_order_over_deaths_of_the_store() {
    for seed in 0..12 {
        let mut choices = Choices::with(seed);
        let mut test = TestStore::on_disk();
        let bucket = test.bucket("volume");
        let mut session = test.remote(&bucket);
        let (mut node, mut model) = (Node::granted(&lease(&session)), Model::new());
        for _ in 0..12 {
            (0..choices.below(12)).for_each(|_| answer(&mut node, &mut model, &mut choices));
            // Some of what was made is acknowledged, and the rest is sent again, to the next process of the store too.
            let made = choices.below(node.queue.len() + 1);
            node.queue[..made].iter().for_each(|queued| drop(queued.make(&session).unwrap()));
            node.queue.drain(..choices.below(made + 1));
            if choices.once_in(3) {
                drop(session);
                test = test.killed(&[]);
                session = test.remote_again();
                assert!(test.store.core.leases.is_any(), "seed {seed}: the lease is recorded");
            }
        }
        let node = Arc::new(Mutex::new(node));
        let serving = serve(&session, &node);
        share(&test, &bucket);
        for (name, (ino, content)) in &model {
            assert_eq!(&test.get(&bucket, name).unwrap(), content, "seed {seed}: {name}");
            let look = NameOp::Lookup { parent: ROOT_INO, name: name.clone().into() };
            assert_eq!(super::remote::ino(call(&session, None, look, b"").unwrap()), *ino, "seed {seed}: {name}");
        }
        let volume = test.mount(&bucket);
        for name in (0..6).map(|number| format!("f{number}")).filter(|name| !model.contains_key(name)) {
            assert!(find(&volume, &name).is_err(), "seed {seed}: {name}");
        }
        drop(volume);
        test.store.end_remote(ID).unwrap();
        assert_eq!(serving.join().unwrap().len(), 1, "seed {seed}");
        drop(session);
        test = test.killed(&[]);
        assert!(!test.store.core.leases.is_any(), "seed {seed}");
        test.audit_collected();
    }
}
