//! Requests that are sent again: each gets its first outcome, and is not executed twice.

use objstore_base::error::Result;
use objstore_files::{Caller, Class, FileSession, Files, Make, Op, ROOT_INO, Rename, RenameMode, RequestId, XattrMode};

use super::{OWNER, Subject, Test, file, make};

pub(super) const TESTS: &[(&str, Test)] = &[
    ("a request that is sent again is not done again", a_request_that_is_sent_again_is_not_done_again),
    ("only what is recorded says so", only_what_is_recorded_says_so),
];

const CALLER: Caller = Caller { uid: 5, gid: 6, pid: 0 };

/// Requests of a kernel, numbered as it numbers them.
struct Kernel<'a> {
    session: &'a FileSession,
    last: u64,
    done: Vec<&'static str>,
}

impl Kernel<'_> {
    /// Sends a request, and again after its reply was lost: both times the answer is the same. Sent as another request,
    /// it is refused or does more.
    fn twice<T: PartialEq + std::fmt::Debug>(&mut self, name: &'static str, call: impl Fn(&Files<'_>) -> Result<T>) {
        self.last += 2;
        let sent = |resent| RequestId { unique: self.last, resent };
        let first = self.session.serving(CALLER, sent(false));
        let outcome = call(&first).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(first.recorded(), Some(sent(false)), "{name} is recorded");
        let second = self.session.serving(CALLER, sent(true));
        let again = call(&second).unwrap_or_else(|error| panic!("{name}, sent again: {error}"));
        assert_eq!(again, outcome, "{name}");
        self.session.answered(sent(true));
        self.done.push(name);
    }
}

fn a_request_that_is_sent_again_is_not_done_again(subject: &dyn Subject) {
    let session = subject.open_persistent();
    let mut kernel = Kernel { session: &session, last: 0, done: Vec::new() };
    let files = session.own();
    kernel.twice("make", |files| files.make(ROOT_INO, "dir", Make::Directory, OWNER).map(|made| made.ino));
    kernel.twice("create", |files| files.create(ROOT_INO, "a", OWNER).map(|made| made.ino));
    let ino = files.lookup(ROOT_INO, "a").expect("created").ino;
    kernel.twice("append", |files| files.append(ino, b"once"));
    assert_eq!(files.attr(ino).expect("attributes").size, 4);
    kernel.twice("link", |files| files.link(ino, ROOT_INO, "b").map(|linked| linked.ino));
    assert_eq!(files.attr(ino).expect("attributes").nlink, 2);
    kernel.twice("set_xattr", |files| files.set_xattr(ino, "user.a", &b"1"[..], XattrMode::Create));
    kernel.twice("remove_xattr", |files| files.remove_xattr(ino, "user.a"));
    let exchange = Rename {
        from_parent: ROOT_INO,
        from_name: "b".into(),
        to_parent: ROOT_INO,
        to_name: "dir".into(),
        mode: RenameMode::Exchange,
    };
    kernel.twice("rename", |files| files.rename(exchange.clone()));
    assert_eq!(files.lookup(ROOT_INO, "dir").expect("swapped once").ino, ino);
    kernel.twice("unlink", |files| files.unlink(ROOT_INO, "dir"));
    kernel.twice("remove_dir", |files| files.remove_dir(ROOT_INO, "b"));
    kernel.twice("create_nameless", |files| files.create_nameless(ROOT_INO, OWNER, true).map(|made| made.ino));
    kernel.done.sort_unstable();
    let mut once: Vec<_> = Op::all().filter(|(_, class)| *class == Class::Once).map(|(name, _)| name).collect();
    once.sort_unstable();
    assert_eq!(kernel.done, once, "every operation that is done once is tried");
    session.end();
}

fn only_what_is_recorded_says_so(subject: &dyn Subject) {
    let (session, persistent) = (subject.open(), subject.open_persistent());
    let request = RequestId { unique: 2, resent: false };
    let ends_with_the_process = session.serving(CALLER, request);
    make(&ends_with_the_process, "a", Make::File);
    assert_eq!(ends_with_the_process.recorded(), None);
    let reads = persistent.serving(CALLER, request);
    let ino = reads.lookup(ROOT_INO, "a").expect("found").ino;
    reads.write(ino, 0u64, false, b"x").expect("written");
    assert_eq!(reads.recorded(), None, "a repetition of these is harmless");
    file(&persistent.own(), "b");
    assert_eq!(persistent.own().recorded(), None);
    persistent.end();
}
