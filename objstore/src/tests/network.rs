//! The store as a service of files on another machine: the suite of the trait over loopback, and connections that are cut,
//! a listener that restarts, a node that is cut off.

use std::time::{Duration, Instant};

use node_testing::{Loopback, Weather};
use objstore_files::{
    Change, FileService, FileSession, Lock, LockKind, LockMode, LockOwner, LockRange, Locked, Make, NAMES_MAX,
    Ownership, ROOT_INO, SessionStanding, XattrMode,
};
use objstore_files_testing::conformance::{Subject, tests};

use super::test_store::{TestStore, name};
use crate::error::{Error, Posix};
use crate::name::BucketName;
use crate::volume::VolumeOptions;

const OWNER: Ownership = Ownership { uid: 0, gid: 0, mode: 0o644, umask: 0 };

/// A bucket of a store of its own, and a listener for nodes.
struct Remote {
    loopback: Loopback,
    test: TestStore,
    bucket: BucketName,
}

impl Remote {
    fn new(loopback: Loopback) -> Self {
        let test = TestStore::in_memory();
        Self { loopback, bucket: test.bucket("bucket"), test }
    }

    fn session(&self, options: VolumeOptions) -> FileSession {
        FileSession::new(self.loopback.serve(self.test.store.open_volume(&self.bucket, options).unwrap()))
    }

    /// A persistent session in some weather, which the store takes over after a restart of the listener.
    fn lasting(&self, weather: &Weather) -> FileSession {
        let (store, session) = (self.test.store.clone(), self.test.store.new_session());
        let files = move |opening: &node_testing::Opening| {
            let options =
                VolumeOptions { session: Some(session), inherited: opening.resumes, ..VolumeOptions::default() };
            // A call that the listener before has not finished may still hold the session.
            let opened = (0..2000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(if opening.resumes { 5 } else { 0 }));
                store.open_volume(&name("bucket"), options.clone()).ok()
            });
            opened.map(|volume| Box::new(volume) as Box<dyn FileService>)
        };
        FileSession::new(self.loopback.connect(files, weather))
    }
}

impl Subject for Remote {
    fn open(&self) -> FileSession {
        self.session(VolumeOptions::default())
    }

    fn open_read_only(&self) -> FileSession {
        self.session(VolumeOptions { read_only: true, ..VolumeOptions::default() })
    }

    fn open_persistent(&self) -> FileSession {
        self.session(VolumeOptions { session: Some(self.test.store.new_session()), ..VolumeOptions::default() })
    }

    fn put(&self, key: &str, content: &[u8]) {
        self.test.put(&self.bucket, key, content).unwrap();
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "a failed test is named")]
fn what_the_seam_promises_is_kept_over_the_network() {
    for (name, test) in tests() {
        println!("{name}");
        let remote = Remote::new(Loopback::default());
        test(&remote);
        remote.test.collect();
        remote.test.audit();
    }
}

/// Waits until `done`, for ten seconds at the most.
#[track_caller]
fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Changes of which none may be done twice or not at all.
fn changes(session: &FileSession, prefix: &str) {
    let files = session.own();
    let name = |name: &str| format!("{prefix}-{name}");
    let made = files.create(ROOT_INO, name("a"), OWNER).expect("created once");
    for (round, part) in (1..).zip(["one ", "two ", "three "]) {
        assert!(files.append(made.ino, part.as_bytes()).expect("appended once") > round);
    }
    files.write(made.ino, 1u64, false, b"N").expect("written");
    files.link(made.ino, ROOT_INO, name("b")).expect("linked once");
    files.set_xattr(made.ino, "user.x", &b"1"[..], XattrMode::Create).expect("set once");
    files.unlink(ROOT_INO, name("a")).expect("unlinked once");
    files.make(ROOT_INO, name("d"), Make::Directory, OWNER).expect("made once");
    files.remove_dir(ROOT_INO, name("d")).expect("removed once");
    files.close_writer(made.ino, false).expect("closed");
    let content = files.read(made.ino, 0u64, 100u32).expect("read");
    assert_eq!((&content[..], files.attr(made.ino).expect("attributes").nlink), (&b"oNe two three "[..], 1));
    let names = files.read_dir(ROOT_INO, None::<String>, NAMES_MAX).expect("names").entries;
    let names: Vec<_> = names.into_iter().map(|entry| entry.name).filter(|name| name.starts_with(prefix)).collect();
    assert_eq!(names, [name("b")]);
}

#[test]
fn a_change_is_done_once_wherever_its_connection_is_cut() {
    let remote = Remote::new(Loopback::default());
    let mut cut = 0;
    for step in 0.. {
        let weather = Weather::default();
        let session = remote.lasting(&weather);
        weather.cut_after(step);
        changes(&session, &format!("{step:04}"));
        let is_cut = weather.is_cut();
        session.end();
        if !is_cut {
            break;
        }
        cut += 1;
    }
    assert!(cut > 20, "{cut}");
    remote.test.collect();
    remote.test.audit();
}

#[test]
fn sessions_go_on_over_restarts_of_the_listener() {
    let remote = Remote::new(Loopback::default());
    let session = remote.lasting(&Weather::default());
    let mut followed = session.changes();
    let opened = session.own().create(ROOT_INO, "open", OWNER).expect("created");
    std::thread::scope(|threads| {
        let working = threads.spawn(|| {
            for round in 0..60 {
                changes(&session, &format!("{round:04}"));
            }
        });
        for _ in 0..4 {
            remote.loopback.restart(Duration::from_millis(20));
            std::thread::sleep(Duration::from_millis(60));
        }
        working.join().expect("no call failed");
    });
    session.own().close_writer(opened.ino, false).expect("a writer of an earlier opening of the store");
    let seen = Change::Entry { parent: ROOT_INO, name: "seen".into() };
    std::thread::scope(|threads| {
        let put = threads.spawn(|| remote.put("seen", b"x"));
        while !followed.next().expect("the changes go on").contains(&seen) {
            followed.acknowledge();
        }
        followed.acknowledge();
        put.join().expect("it is acknowledged");
    });
    session.end();
}

#[test]
fn a_later_process_of_a_node_goes_on_with_its_session() {
    let remote = Remote::new(Loopback::default());
    let session = remote.lasting(&Weather::default());
    let files = session.own();
    let open = files.create(ROOT_INO, "a", OWNER).expect("created");
    files.append(open.ino, b"content").expect("appended");
    files.unlink(ROOT_INO, "a").expect("unlinked");
    let about = *session.about();
    let later = FileSession::new(remote.loopback.succeed());
    assert_eq!((later.about().number, later.about().id), (about.number, about.id));
    // What the earlier process sends now is refused, and its session is lost there.
    assert!(matches!(session.own().attr(open.ino), Err(Error::Posix(Posix::Stale))));
    assert_eq!(later.own().read(open.ino, 0u64, 9u32).expect("it is still referenced"), &b"content"[..]);
    changes(&later, "later");
    later.own().close_writer(open.ino, false).expect("a writer of the earlier process");
    later.end();
}

#[test]
fn a_node_that_is_cut_off_serves_nothing_after_its_lease_and_others_go_on() {
    let terms = node_testing::Terms { lease: Duration::from_millis(1500), ..Default::default() };
    let remote = Remote::new(Loopback::new(terms));
    let weather = Weather::default();
    let session = remote.lasting(&weather);
    let mut followed = session.changes();
    let made = session.own().create(ROOT_INO, "a", OWNER).expect("created");
    assert_eq!(followed.next(), Some(vec![Change::Sharing { shared: false }]));
    followed.acknowledge();
    let limit = session.cacheable().expect("a limit");
    assert!(limit > Duration::ZERO && limit <= terms.lease / 2, "{limit:?}");
    let link = session.link().expect("it is on another machine");
    assert_eq!((link.standing, link.reconnects, &link.why), (SessionStanding::Served, 0, &None));
    assert!(link.lease_left > terms.lease / 2 && link.round_trips.count() > 0 && link.sent_bytes > 0);
    assert!(matches!(remote.loopback.shown()[..], [("served", 1.., 0)]), "{:?}", remote.loopback.shown());
    weather.fall_silent();
    let start = Instant::now();
    let refused = session.own().flags(made.ino);
    assert!(matches!(refused, Err(Error::Posix(Posix::Stale))), "{refused:?}");
    let waited = start.elapsed();
    assert!((Duration::from_millis(500)..Duration::from_secs(5)).contains(&waited), "{waited:?}");
    assert_eq!(session.cacheable(), Some(Duration::ZERO));
    let link = session.link().expect("it is on another machine");
    assert!(link.standing == SessionStanding::Lost && link.why.is_some() && link.lease_left.is_zero(), "{link:?}");
    assert!(matches!(session.own().sync(made.ino, false), Err(Error::Io { .. })), "what is dirty is an error");
    assert_eq!(followed.next(), Some(vec![Change::All]), "the mount drops its caches when half of the lease is over");
    while followed.next() == Some(vec![Change::All]) {}
    assert!(followed.next().is_none() && followed.is_lost(), "the mount drops its caches");
    // The store ends the session a little later, and nobody waits for it any more.
    wait_until("the store ends the session", || remote.loopback.stats().expired > 0);
    assert_eq!(remote.loopback.ended(), ["lease"]);
    let other = remote.open();
    other.own().unlink(ROOT_INO, "a").expect("unlinked");
    remote.put("b", b"x");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_node_that_is_cut_off_is_said_to_have_lost_its_lease_also_if_it_owes_acknowledgements() {
    let terms = node_testing::Terms { lease: Duration::from_millis(1500), ..Default::default() };
    let remote = Remote::new(Loopback::new(terms));
    let weather = Weather::default();
    let session = remote.lasting(&weather);
    let _unread = session.changes();
    weather.fall_silent();
    remote.put("a", b"x");
    wait_until("the change was answered, so the session is ended", || !remote.loopback.ended().is_empty());
    assert_eq!(remote.loopback.ended(), ["lease"]);
}

#[test]
fn the_locks_of_a_node_that_is_cut_off_pass_on_with_its_lease() {
    let terms = node_testing::Terms { lease: Duration::from_millis(1500), ..Default::default() };
    let remote = Remote::new(Loopback::new(terms));
    let weather = Weather::default();
    let (session, other) = (remote.lasting(&weather), remote.open());
    let mut told = other.changes();
    let by = LockOwner { owner: 1, handle: 2, pid: 3 };
    let lock = Lock { kind: LockKind::Whole, mode: LockMode::Exclusive, range: LockRange::ALL };
    let set = |session: &FileSession, ticket: u64| session.own().lock(7u64, by, lock, ticket).expect("an answer");
    assert!(session.keeps_locks() && other.keeps_locks());
    assert_eq!(set(&session, 0), Locked::Granted);
    assert_eq!((set(&other, 0), set(&other, 8)), (Locked::Refused, Locked::Waits));
    weather.fall_silent();
    let start = Instant::now();
    loop {
        let batch = told.next().expect("the changes go on");
        told.acknowledge();
        if batch.contains(&Change::LockGranted { ticket: 8 }) {
            break;
        }
    }
    let waited = start.elapsed();
    assert!(waited >= terms.lease / 2, "the node may still have believed in its lock: {waited:?}");
    assert!(matches!(session.own().lock(7u64, by, lock, 0u64), Err(Error::Posix(Posix::Stale))));
    assert!(!other.own().unlock(7u64, 1u64, LockKind::Whole, LockRange::ALL).expect("unlocked"));
}

#[test]
fn a_node_that_comes_back_again_and_again_and_acknowledges_nothing_loses_its_session() {
    let terms = node_testing::Terms { lease: Duration::from_millis(1500), ..Default::default() };
    let remote = Remote::new(Loopback::new(terms));
    let weather = Weather::default();
    let session = remote.lasting(&weather);
    let _unread = session.changes();
    std::thread::scope(|threads| {
        let put = threads.spawn(|| remote.put("a", b"x"));
        let (start, mut cut) = (Instant::now(), None);
        while remote.loopback.stats().expired == 0 {
            assert!(start.elapsed() < Duration::from_secs(10), "the change waits for as long as the node comes back");
            // Each time it is connected again, it has a moment to ask for its session.
            let reconnects = session.link().expect("it is on another machine").reconnects;
            if cut != Some(reconnects) {
                std::thread::sleep(Duration::from_millis(50));
                weather.cut_after(0);
                cut = Some(reconnects);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        put.join().expect("the change is answered");
    });
    assert_eq!(remote.loopback.ended(), ["behind"]);
}

#[test]
fn a_session_goes_on_with_empty_caches_after_a_restart_that_takes_longer_than_its_lease() {
    let terms = node_testing::Terms { lease: Duration::from_millis(600), ..Default::default() };
    let remote = Remote::new(Loopback::patient(terms, Duration::from_secs(60)));
    let session = remote.lasting(&Weather::default());
    let mut followed = session.changes();
    let made = session.own().create(ROOT_INO, "a", OWNER).expect("created");
    std::thread::scope(|threads| {
        let reading = threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            session.own().attr(made.ino)
        });
        remote.loopback.restart(Duration::from_millis(1500));
        assert!(reading.join().expect("it ends").is_ok(), "a call waits for the store");
    });
    // The answer to the call may overtake the answer that opens the session again.
    wait_until("the lease is new", || session.cacheable() != Some(Duration::ZERO));
    session.own().append(made.ino, b"x").expect("appended");
    let mut seen = followed.next().expect("the changes go on");
    while !seen.contains(&Change::All) {
        seen = followed.next().expect("the changes go on");
    }
    session.own().close_writer(made.ino, true).expect("closed");
    session.end();
}
