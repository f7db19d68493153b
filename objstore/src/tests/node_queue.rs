//! What a node answers under a lease of the volume: everybody who looks finds it at the store, what was answered outlives the
//! node's process, lost connections and a store that refuses it, and is done once and in its order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use node_session::slot::{Outcome, Outcomes as _};
use node_session::{CallId, Digest};
use node_testing::{
    Done, Leased, Loopback, Opening, Queued, Settled, StoredSession, Weather, decode_reply, encode_reply,
};
use objstore_files::{
    Answer, Attr, AttributeOp, Context, FileService, FileSession, Files, Make, Op, Ownership, ROOT_INO, Reply,
    RequestId, SetAttr,
};
use tempfile::TempDir;

use super::random::{Choices, given, usual_seed};
use super::remote::{ID, call, opening};
use super::test_store::{Later, TestStore};
use crate::clock::Timestamp;
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::volume::{OpenRemote, QueuedCall, RemoteSession, SlotCall};

const OWNER: Ownership = Ownership { uid: 0, gid: 0, mode: 0o644, umask: 0 };
const CALLER: objstore_files::Caller = objstore_files::Caller { uid: 0, gid: 0, pid: 0 };
/// After so long others have not just used a bucket.
const PAUSE: Duration = Duration::from_secs(1);

/// A session as the server of a store has it. The change with the number `refused` fails.
struct Stored {
    session: RemoteSession,
    refused: Arc<AtomicU64>,
}

fn encode(reply: &Reply) -> Vec<u8> {
    encode_reply(&Ok(Answer { reply: reply.clone(), recorded: true })).0
}

fn decode(bytes: &[u8]) -> Option<Reply> {
    decode_reply(bytes, Default::default()).ok()?.ok().map(|answer| answer.reply)
}

impl StoredSession for Stored {
    fn files(&self) -> &dyn FileService {
        &self.session
    }

    fn change(&self, (call, digest): (CallId, Digest), context: &Context, op: Op<'_>, data: &[u8]) -> Result<Done> {
        let slot = SlotCall { call, digest, encode, decode };
        Ok(Done { answer: self.session.execute(context, Some(slot), op, data)?, position: None })
    }

    fn leases(&self) -> bool {
        true
    }

    fn lease(&self) -> Result<Option<Leased>> {
        let lease = self.session.lease_volume()?;
        Ok(lease.map(|lease| Leased {
            grant: lease.grant,
            first_ino: lease.inos.start,
            inos: lease.inos.end - lease.inos.start,
            now: lease.now.0,
            free_bytes: lease.free_bytes,
            made: lease.made,
        }))
    }

    fn give_back(&self, grant: u64) {
        self.session.give_lease_back(grant);
    }

    fn make_queued(&self, queued: &Queued, context: &Context, op: Op<'_>, data: &[u8]) -> Result<()> {
        let Queued { number, ino, at, .. } = *queued;
        if number == self.refused.load(Ordering::SeqCst) {
            return Err(Posix::NoSpace.into());
        }
        let queued = QueuedCall { number, ino, at: Timestamp(at), encode, decode };
        self.session.make_queued(context, queued, op, data).map(drop)
    }

    fn pass_queued(&self, number: u64) -> Result<()> {
        self.session.pass_queued(number)
    }

    fn settled(&self) -> Settled {
        Box::pin(self.session.barrier().passed())
    }

    fn last(&self, slot: u32) -> Option<Outcome> {
        self.session.last(ID, slot)
    }
}

/// A bucket with a node.
struct World {
    loopback: Loopback,
    clock: Arc<Later>,
    test: TestStore,
    bucket: BucketName,
    refused: Arc<AtomicU64>,
    _journals: TempDir,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(Later::default());
        let test = TestStore::with_clock(clock.clone());
        let journals = tempfile::tempdir().expect("a folder");
        let loopback = Loopback::default().with_journals(journals.path());
        let bucket = test.bucket("bucket");
        Self { loopback, clock, bucket, test, refused: Arc::default(), _journals: journals }
    }

    fn node(&self, weather: &Weather) -> FileSession {
        let ticket = self.test.publish(&self.bucket, "n1", false);
        let (store, bucket, refused) = (self.test.store.clone(), self.bucket.clone(), Arc::clone(&self.refused));
        let opened = move |at: &Opening| {
            let open = OpenRemote { incarnation: at.incarnation, ..opening(&bucket, Some(ticket.clone())) };
            let session = store.open_remote(&open).expect("a session");
            Some(Arc::new(Stored { session, refused: Arc::clone(&refused) }) as Arc<dyn StoredSession>)
        };
        FileSession::new(self.loopback.connect_session(opened, weather))
    }

    /// Another client looks at the bucket, as each request of S3 does.
    fn look(&self) {
        self.test.run(self.test.store.share_bucket(&self.bucket)).expect("shared");
    }

    /// The attributes at the store.
    fn attr(&self, ino: u64) -> Attr {
        let reply = call(&self.test.remote_again(), None, AttributeOp::Attr { ino }, b"").expect("attributes");
        let Reply::Attr(attr) = reply else { panic!("{reply:?}") };
        Attr { blocks: 0, ..attr }
    }

    /// Has the store refuse the next change of the node, whose file `a` is known to it then.
    fn refuse_next(&self, node: &FileSession) {
        let leased = self.test.remote_again().lease_volume().expect("asked").expect("it has the lease");
        self.refused.store(leased.made + 1, Ordering::SeqCst);
        request(node, |files| files.lookup(ROOT_INO, "a")).expect("there");
    }

    fn is_leased(&self) -> bool {
        self.test.store.core.leases.is_any()
    }
}

/// Runs `work` while the node takes and acknowledges changes, as a mount does.
fn followed<T>(node: &FileSession, work: impl FnOnce() -> T) -> T {
    struct Close<'a>(&'a FileSession);
    impl Drop for Close<'_> {
        fn drop(&mut self) {
            self.0.close_changes();
        }
    }
    let mut changes = node.changes();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            while changes.next().is_some() {
                changes.acknowledge();
            }
        });
        let _close = Close(node);
        work()
    })
}

static LAST: AtomicU64 = AtomicU64::new(0);

/// The files for a request of the kernel, which has a number of its own.
fn request<T>(session: &FileSession, call: impl FnOnce(&Files<'_>) -> T) -> T {
    let id = RequestId { unique: LAST.fetch_add(2, Ordering::Relaxed) + 2, resent: false };
    let files = session.serving(CALLER, id);
    let done = call(&files);
    files.recorded().into_iter().for_each(|id| session.answered(id));
    done
}

fn trips(node: &FileSession, operation: &str) -> u64 {
    node.trips().iter().find(|counted| counted.operation == operation).map_or(0, |counted| counted.trips)
}

fn create(node: &FileSession, name: &str) -> u64 {
    create_in(node, ROOT_INO, name)
}

fn create_in(node: &FileSession, parent: u64, name: &str) -> u64 {
    let found = request(node, |files| files.lookup(parent, name));
    assert!(matches!(found, Err(Error::Posix(Posix::NotFound))), "{found:?}");
    request(node, |files| files.create(parent, name, OWNER)).expect("created").ino
}

fn make(node: &FileSession, parent: u64, name: &str, what: Make) -> Attr {
    let owner = Ownership { uid: 5, gid: 6, mode: 0o2777, umask: 0o022 };
    request(node, |files| files.make(parent, name, what, owner)).expect("made")
}

fn write(node: &FileSession, ino: u64, offset: u64, data: &[u8]) {
    request(node, |files| files.write(ino, offset, false, data)).expect("written");
}

fn attr(node: &FileSession, ino: u64) -> Attr {
    Attr { blocks: 0, ..request(node, |files| files.attr(ino)).expect("attributes") }
}

/// Writes to a file until the node has the lease.
fn lease(world: &World, node: &FileSession) -> u64 {
    world.clock.advance(PAUSE);
    let ino = create(node, &format!("lease-{}", LAST.load(Ordering::Relaxed)));
    let (until, before) = (Instant::now() + Duration::from_secs(30), trips(node, "hand_in"));
    while trips(node, "hand_in") == before || !world.is_leased() {
        assert!(Instant::now() < until, "no lease is granted");
        write(node, ino, 0, b"asks for the lease");
        std::thread::sleep(Duration::from_millis(5));
    }
    ino
}

#[test]
fn what_a_node_answers_is_at_the_store_before_anybody_else_looks() {
    let world = World::new();
    let node = world.node(&Weather::default());
    followed(&node, || {
        lease(&world, &node);
        let made = create(&node, "a");
        let before = trips(&node, "write") + trips(&node, "set_attr");
        write(&node, made, 0, b"answered");
        let set = SetAttr { mode: Some(0o600), mtime: Some(Timestamp(5)), ..SetAttr::default() };
        let told = request(&node, |files| files.set_attr(made, set)).expect("set");
        assert_eq!((told.size, told.mode, told.mtime), (8, 0o600, Timestamp(5)));
        request(&node, |files| files.close_writer(made, false)).expect("closed");
        assert_eq!(trips(&node, "write") + trips(&node, "set_attr"), before, "nobody waited for the store");
        world.look();
        assert!(!world.is_leased());
        assert_eq!(world.test.get(&world.bucket, "a").expect("there"), b"answered");
        assert_eq!(Attr { blocks: 0, ..told }, world.attr(made));
        assert_eq!(attr(&node, made), world.attr(made));
        // From now on others may look at any time.
        write(&node, made, 0, b"at once!");
        assert_eq!(world.test.get(&world.bucket, "a").expect("there"), b"at once!");
    });
    node.end();
}

#[test]
fn a_lease_is_given_back_after_a_rest_and_an_fsync_waits_for_everything() {
    let world = World::new();
    let node = world.node(&Weather::default());
    followed(&node, || {
        lease(&world, &node);
        let made = create(&node, "a");
        write(&node, made, 0, &[7; 9000]);
        request(&node, |files| files.sync(made, false)).expect("synced");
        assert_eq!(world.attr(made).size, 9000, "an fsync brings it to the store");
        let until = Instant::now() + Duration::from_secs(30);
        while world.is_leased() {
            assert!(Instant::now() < until, "it keeps the lease");
            std::thread::sleep(Duration::from_millis(20));
        }
        lease(&world, &node);
    });
    node.end();
}

#[test]
fn a_change_that_the_store_refuses_is_an_error_of_the_next_fsync_or_close_of_its_file() {
    let world = World::new();
    let node = world.node(&Weather::default());
    followed(&node, || {
        lease(&world, &node);
        let (made, other) = (create(&node, "a"), create(&node, "b"));
        world.look();
        lease(&world, &node);
        request(&node, |files| files.sync(made, false)).expect("synced");
        world.refuse_next(&node);
        write(&node, made, 0, b"refused");
        write(&node, other, 0, b"made");
        request(&node, |files| files.sync(other, false)).expect("another file");
        let failed = request(&node, |files| files.sync(made, false));
        assert!(matches!(failed, Err(Error::Posix(Posix::NoSpace))), "{failed:?}");
        request(&node, |files| files.sync(made, false)).expect("told once");
        assert_eq!(attr(&node, made).size, 0, "the node shows what the store has");
        world.look();
        assert_eq!(world.test.get(&world.bucket, "b").expect("there"), b"made");
        assert_eq!(world.test.get(&world.bucket, "a").expect("there"), b"");
        lease(&world, &node);
        request(&node, |files| files.sync(made, false)).expect("synced");
        world.refuse_next(&node);
        write(&node, made, 0, b"refused");
        request(&node, |files| files.sync(other, false)).expect("another file");
        assert!(node.unreported(made).is_err() && node.unreported(made).is_ok());
    });
    node.end();
}

#[test]
fn what_was_answered_outlives_the_process_of_the_node_and_its_requests_are_answered_once() {
    let world = World::new();
    let weather = Weather::default();
    let mut node = world.node(&weather);
    let (made, unique) = followed(&node, || {
        lease(&world, &node);
        let made = create(&node, "a");
        world.look();
        lease(&world, &node);
        weather.fall_silent();
        write(&node, made, 0, b"answered");
        let id = RequestId { unique: LAST.fetch_add(2, Ordering::Relaxed) + 2, resent: false };
        let files = node.serving(CALLER, id);
        files.write(made, 8u64, false, b" twice").expect("written");
        (made, id.unique)
    });
    drop(node);
    node = FileSession::new(world.loopback.succeed_as(2, &Weather::default()));
    followed(&node, || {
        assert_eq!(world.attr(made).size, 14, "it is handed in before the next process serves anything");
        // The kernel repeats a request whose answer it lacks: what came behind it stays.
        write(&node, made, 8, b" since");
        let trips_before = trips(&node, "write");
        let files = node.serving(CALLER, RequestId { unique, resent: true });
        files.write(made, 8u64, false, b" twice").expect("answered");
        assert_eq!((files.recorded().is_some(), trips(&node, "write")), (true, trips_before));
        node.answered(RequestId { unique, resent: true });
        world.look();
        assert_eq!(world.test.get(&world.bucket, "a").expect("there"), b"answered since");
    });
    node.end();
}

#[test]
fn a_tree_is_made_without_a_trip_and_is_what_the_store_makes_of_it() {
    let world = World::new();
    let node = world.node(&Weather::default());
    followed(&node, || {
        let top = make(&node, ROOT_INO, "top", Make::Directory).ino;
        lease(&world, &node);
        // The store tells with the first name what the directory does not have.
        create_in(&node, top, "first");
        let before = trips(&node, "create") + trips(&node, "make") + trips(&node, "attr") + trips(&node, "lookup");
        let below = make(&node, top, "below", Make::Directory);
        let link = make(&node, below.ino, "link", Make::Symlink("../first".into()));
        let pipe = make(&node, below.ino, "file", Make::File);
        let file = create_in(&node, below.ino, "open");
        write(&node, file, 0, b"content");
        let taken = request(&node, |files| files.create(below.ino, "open", OWNER));
        assert!(matches!(taken, Err(Error::Posix(Posix::Exists))), "the store decides: {taken:?}");
        let set = SetAttr { mode: Some(0o700), mtime: Some(Timestamp(9)), ..SetAttr::default() };
        let plain = make(&node, top, "plain", Make::Directory).ino;
        assert!(request(&node, |files| files.set_attr(plain, SetAttr { mode: Some(0o755), ..set })).is_ok());
        let before_set = trips(&node, "set_attr");
        let told = request(&node, |files| files.set_attr(plain, set)).expect("set");
        assert_eq!((told.mode, told.mtime, trips(&node, "set_attr")), (0o700, Timestamp(9), before_set));
        let within = create_in(&node, plain, "within");
        let after = trips(&node, "create") + trips(&node, "make") + trips(&node, "attr") + trips(&node, "lookup");
        assert_eq!(after, before + 1, "that name alone");
        assert_eq!((below.mode, below.uid, below.gid, below.nlink), (0o2755, 5, 6, 2));
        world.look();
        for told in [below, link, pipe] {
            let there = world.attr(told.ino);
            let is_directory = told.ino == below.ino;
            assert_eq!(Attr { blocks: 0, mtime: there.mtime, ctime: there.ctime, ..told }, there);
            assert!(is_directory || told.mtime == there.mtime);
        }
        for ino in [top, below.ino, file, plain, within] {
            assert_eq!(attr(&node, ino), world.attr(ino));
        }
        assert_eq!(world.test.get(&world.bucket, "top/below/open").expect("there"), b"content");
        let names = request(&node, |files| files.read_dir(below.ino, None::<String>, 100u32)).expect("listed");
        assert_eq!(names.entries.len(), 3);
    });
    node.end();
}

/// What a file should have.
struct File {
    ino: u64,
    content: Vec<u8>,
    is_open: bool,
}

/// The files of a directory, by name.
type Model = BTreeMap<String, File>;

fn change(node: &FileSession, parent: u64, model: &mut Model, rng: &mut Choices) {
    let name = format!("f{}", rng.below(6));
    let Some(file) = model.get_mut(&name) else {
        let ino = create_in(node, parent, &name);
        model.insert(name, File { ino, content: Vec::new(), is_open: true });
        return;
    };
    let File { ino, content, is_open } = file;
    let ino = *ino;
    match rng.below(15) {
        0 => {
            request(node, |files| files.unlink(parent, name.as_str())).expect("removed");
            if *is_open {
                request(node, |files| files.close_writer(ino, false)).expect("closed");
            }
            request(node, |files| files.forget(ino, 1u64)).expect("returned");
            model.remove(&name);
        }
        1 if *is_open => {
            request(node, |files| files.close_writer(ino, false)).expect("closed");
            *is_open = false;
        }
        1 => {
            request(node, |files| files.open_writer(ino)).expect("opened");
            *is_open = true;
        }
        2 => {
            let size = rng.below(9000);
            let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
            request(node, |files| files.set_attr(ino, set)).expect("cut");
            content.resize(size, 0);
        }
        3 => {
            let data = vec![rng.below(256) as u8; 1 + rng.below(300)];
            let end = request(node, |files| files.append(ino, &data)).expect("appended");
            content.extend_from_slice(&data);
            assert_eq!(end, content.len() as u64);
        }
        4 => {
            let read = request(node, |files| files.read(ino, 0u64, 1u32 << 20)).expect("read");
            assert!(read == content[..], "{} bytes of {}", read.len(), content.len());
        }
        5 | 6 => {
            let set = SetAttr { mode: Some(rng.below(0o777) as u32), mtime: Some(Timestamp(7)), ..SetAttr::default() };
            let told = request(node, |files| files.set_attr(ino, set)).expect("set");
            assert_eq!((told.size, told.mtime), (content.len() as u64, Timestamp(7)));
        }
        7 => request(node, |files| files.sync(ino, false)).expect("synced"),
        8 => std::thread::sleep(Duration::from_millis(3)),
        9 => {
            let names = request(node, |files| files.read_dir(parent, None::<String>, 100u32)).expect("listed");
            let names: Vec<_> = names.entries.into_iter().map(|entry| entry.name).collect();
            assert_eq!(names, model.keys().cloned().collect::<Vec<_>>());
        }
        _ => {
            let (offset, len) = (rng.below(content.len() + 600), 1 + rng.below(6000));
            let data = vec![rng.below(256) as u8; len];
            content.resize(content.len().max(offset + len), 0);
            content[offset..offset + len].copy_from_slice(&data);
            write(node, ino, offset as u64, &data);
            assert_eq!(attr(node, ino).size, content.len() as u64);
        }
    }
}

/// Another client looks at all files, and finds what the node was told.
fn compare(world: &World, node: &FileSession, parent: u64, model: &Model) {
    world.look();
    assert_eq!(attr(node, parent), world.attr(parent), "the directory");
    for (name, File { ino, content, .. }) in model {
        let found = world.test.get(&world.bucket, &format!("top/{name}")).expect("there");
        assert!(&found == content, "{name} has {} bytes, and should have {}", found.len(), content.len());
        assert_eq!(attr(node, *ino), world.attr(*ino), "{name}");
    }
    world.clock.advance(PAUSE);
}

/// Random changes over lost connections and deaths of the node; how many calls handed changes in.
fn run(seed: u64) -> u64 {
    let (world, mut rng, mut model) = (World::new(), Choices::with(seed), Model::new());
    let mut weather = Weather::default();
    let mut node = world.node(&weather);
    let (mut handed_in, mut made) = (0, None);
    for life in 2..6 {
        followed(&node, || {
            let top = *made.get_or_insert_with(|| make(&node, ROOT_INO, "top", Make::Directory).ino);
            for _ in 0..6 {
                for _ in 0..5 + rng.below(40) {
                    change(&node, top, &mut model, &mut rng);
                }
                if rng.once_in(3) {
                    weather.cut_after(rng.below(30) as i64);
                }
                if rng.once_in(2) {
                    compare(&world, &node, top, &model);
                }
            }
        });
        handed_in += trips(&node, "hand_in");
        drop(node);
        weather = Weather::default();
        node = FileSession::new(world.loopback.succeed_as(life, &weather));
    }
    followed(&node, || compare(&world, &node, made.expect("a directory"), &model));
    node.end();
    handed_in
}

/// AMPHORA_SEEDS says how many seeds are run, from AMPHORA_SEED on.
#[test]
#[expect(clippy::print_stderr, reason = "the harness shows it with the failure")]
fn everybody_sees_what_was_answered_over_lost_connections_and_deaths_of_the_node() {
    let (first, mut handed_in) = (usual_seed(), 0);
    for seed in first..first + given("AMPHORA_SEEDS").unwrap_or(6) {
        eprintln!("replay with AMPHORA_SEED={seed} AMPHORA_SEEDS=1");
        handed_in += run(seed);
    }
    assert!(handed_in > 0, "no lease was granted");
}

#[test]
fn a_writer_that_was_closed_ahead_of_the_store_is_closed_there_once() {
    let world = World::new();
    let node = world.node(&Weather::default());
    followed(&node, || {
        lease(&world, &node);
        let made = create(&node, "a");
        request(&node, |files| files.close_writer(made, false)).expect("closed");
        world.look();
        let open = world.test.remote_again().shown().open_for_writing;
        assert_eq!(open, 1, "the file that asked for the lease");
    });
    node.end();
}
