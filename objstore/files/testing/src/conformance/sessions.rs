//! Sessions: their description, changes by other clients and their acknowledgement, refused changes and callers.

use std::sync::mpsc;
use std::time::Duration;

use objstore_base::error::{Error, Posix};
use objstore_files::{
    Answer, Change, Changes, Context, FileService, FileSession, Make, NameOp, Op, ROOT_INO, RequestId, SetAttr,
};

use super::{OWNER, Subject, Test, file, refused};

pub(super) const TESTS: &[(&str, Test)] = &[
    ("a session is what it says", a_session_is_what_it_says),
    ("changes of others arrive in their order", changes_of_others_arrive),
    ("a change is answered after every other session has dropped it", a_change_waits_for_the_acknowledgement),
    ("an object is acknowledged after every session has dropped it", an_object_waits_for_the_acknowledgement),
    ("a session that is read-only changes nothing", a_read_only_session_changes_nothing),
    ("a call of another session is refused", a_call_of_another_session_is_refused),
    ("an answer of another operation is no answer", an_answer_of_another_operation_is_no_answer),
];

fn a_session_is_what_it_says(subject: &dyn Subject) {
    let (session, other, persistent) = (subject.open(), subject.open(), subject.open_persistent());
    let about = *session.about();
    assert_eq!((about.id, about.inherited, about.read_only, about.root), (None, false, false, ROOT_INO));
    assert_ne!(about.number, other.about().number);
    assert_eq!((about.bucket_id, about.life), (other.about().bucket_id, other.about().life));
    let id = persistent.about().id.expect("an id");
    assert_eq!(persistent.about().number, id.get());
    assert!(subject.open_read_only().about().read_only);
    session.own().open_before(vec![ROOT_INO]).expect("named");
    session.own().probe_result(77u64, false).expect("answered");
    persistent.end();
}

/// The changes up to the one that is awaited.
fn until(changes: &mut Box<dyn Changes>, awaited: &Change) -> Vec<Change> {
    let mut seen = Vec::new();
    while !seen.contains(awaited) {
        seen.extend(changes.next().expect("the stream goes on"));
        changes.acknowledge();
    }
    seen
}

fn changes_of_others_arrive(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let mut changes = session.changes();
    file(&session.own(), "own");
    let entry = |name: &str| Change::Entry { parent: ROOT_INO, name: name.into() };
    let (ino, seen) = std::thread::scope(|threads| {
        // Each answer waits for the acknowledgement.
        let changing = threads.spawn(|| {
            let ino = file(&other.own(), "a");
            other.own().write(ino, 0u64, false, b"x").expect("written");
            other.own().set_attr(ino, SetAttr { mode: Some(0o600), ..SetAttr::default() }).expect("set");
            other.own().unlink(ROOT_INO, "a").expect("unlinked");
            file(&other.own(), "last");
            ino
        });
        let seen = until(&mut changes, &entry("last"));
        (changing.join().expect("changed"), seen)
    });
    assert!(!seen.contains(&entry("own")), "its own changes it knows: {seen:?}");
    let at = |change: &Change| seen.iter().position(|other| other == change).expect("it is reported");
    assert!(at(&entry("a")) < at(&Change::Attributes { ino }), "{seen:?}");
    session.close_changes();
    assert!(changes.next().is_none() && !changes.is_lost());
}

fn a_change_waits_for_the_acknowledgement(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let mut changes = session.changes();
    let entry = Change::Entry { parent: ROOT_INO, name: "a".into() };
    std::thread::scope(|threads| {
        let (done, answered) = mpsc::channel();
        let other = &other;
        threads.spawn(move || {
            file(&other.own(), "a");
            done.send(()).expect("the test waits for it");
        });
        let mut seen = Vec::new();
        while !seen.contains(&entry) {
            assert!(answered.try_recv().is_err(), "{seen:?}");
            changes.acknowledge();
            seen.extend(changes.next().expect("the stream goes on"));
        }
        assert!(answered.recv_timeout(Duration::from_millis(100)).is_err(), "it is not acknowledged");
        session.own().lookup(ROOT_INO, "a").expect("what only counts waits for nobody");
        changes.acknowledge();
        answered.recv_timeout(Duration::from_secs(30)).expect("it is acknowledged");
    });
    session.close_changes();
}

fn an_object_waits_for_the_acknowledgement(subject: &dyn Subject) {
    let session = subject.open();
    let mut changes = session.changes();
    std::thread::scope(|threads| {
        let (done, answered) = mpsc::channel();
        threads.spawn(move || {
            subject.put("a", b"x");
            done.send(()).expect("the test waits for it");
        });
        let mut batch = changes.next().expect("the change");
        while let [Change::Sharing { .. }] = batch[..] {
            changes.acknowledge();
            batch = changes.next().expect("the change");
        }
        assert!(batch.contains(&Change::Entry { parent: ROOT_INO, name: "a".into() }), "{batch:?}");
        assert!(answered.recv_timeout(Duration::from_millis(100)).is_err(), "it is not acknowledged");
        let found = session.own().lookup(ROOT_INO, "a").expect("the object is there already");
        assert_eq!(session.own().read(found.ino, 0u64, 9u32).expect("its content"), &b"x"[..]);
        changes.acknowledge();
        answered.recv_timeout(Duration::from_secs(30)).expect("it is acknowledged");
    });
}

fn a_read_only_session_changes_nothing(subject: &dyn Subject) {
    let ino = file(&subject.open().own(), "a");
    let session = subject.open_read_only();
    let files = session.own();
    assert_eq!(files.lookup(ROOT_INO, "a").expect("it is found").ino, ino);
    refused(files.make(ROOT_INO, "b", Make::File, OWNER), Posix::ReadOnly);
    refused(files.write(ino, 0u64, false, b"x"), Posix::ReadOnly);
    refused(files.append(ino, b"x"), Posix::ReadOnly);
    refused(files.set_attr(ino, SetAttr::default()), Posix::ReadOnly);
    refused(files.unlink(ROOT_INO, "a"), Posix::ReadOnly);
}

fn a_call_of_another_session_is_refused(subject: &dyn Subject) {
    let (session, other) = (subject.open(), subject.open());
    let context = Context { session: other.about().number, caller: None, request: None };
    let refused = session.execute(&context, NameOp::Parent { ino: ROOT_INO }.into(), &[]);
    assert!(matches!(refused, Err(Error::Invalid { what: "session", .. })), "{refused:?}");
    let context = Context { session: session.about().number, ..context };
    session.execute(&context, NameOp::Parent { ino: ROOT_INO }.into(), &[]).expect("its own");
}

/// A service that answers every call with the parent of the root.
struct Confused(FileSession);

impl FileService for Confused {
    fn about(&self) -> objstore_files::About {
        *self.0.about()
    }

    fn call(&self, context: &Context, _: Op<'_>, _: &[u8]) -> objstore_base::error::Result<Answer> {
        self.0.execute(context, NameOp::Parent { ino: ROOT_INO }.into(), &[])
    }

    fn answered(&self, request: RequestId) {
        self.0.answered(request);
    }

    fn changes(&self) -> Box<dyn Changes> {
        self.0.changes()
    }

    fn close_changes(&self) {
        self.0.close_changes();
    }

    fn end(&self) {
        self.0.end();
    }
}

fn an_answer_of_another_operation_is_no_answer(subject: &dyn Subject) {
    let confused = FileSession::new(Confused(subject.open()));
    let found = confused.own().lookup(ROOT_INO, "a");
    assert!(matches!(&found, Err(Error::Indeterminate { why }) if why.contains("lookup")), "{found:?}");
}
