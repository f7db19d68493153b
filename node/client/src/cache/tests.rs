//! Tests of the cache: what it answers, and what it must not.

use objstore_base::clock::Timestamp;
use objstore_files::{AttributeOp, ContentOp, DirEntry, Flags, Ownership, SetAttr, WhichAcl, XattrMode};

use super::*;

const DIRECTORY: u64 = 1;
const KERNEL: Option<RequestId> = Some(RequestId { unique: 2, resent: false });
const OWNER: Ownership = Ownership { uid: 0, gid: 0, mode: 0o644, umask: 0 };

fn attr(ino: u64, kind: Kind, size: u64) -> Attr {
    let time = Timestamp::from_parts(7, 0);
    let (mode, uid, gid, nlink, blocks, rdev) = (0o644, 0, 0, 1, 0, 0);
    Attr { ino, kind, mode, uid, gid, nlink, size, blocks, rdev, atime: time, mtime: time, ctime: time, btime: time }
}

fn file(ino: u64) -> Reply {
    Reply::Attr(attr(ino, Kind::File, 0))
}

fn lookup(name: &str) -> Op<'_> {
    NameOp::Lookup { parent: DIRECTORY, name: name.into() }.into()
}

fn create(name: &str) -> Op<'_> {
    NameOp::Create { parent: DIRECTORY, name: name.into(), owner: OWNER }.into()
}

fn write(ino: u64) -> Op<'static> {
    ContentOp::Write { ino, offset: 0, kill_privileges: false }.into()
}

fn ok(reply: Reply) -> Result<Answer> {
    Ok(Answer { reply, recorded: false })
}

fn absent() -> Result<Answer> {
    Err(Posix::NotFound.into())
}

fn cache() -> Cache {
    let cache = Cache::default();
    cache.follow();
    cache
}

impl Cache {
    /// A call has an answer that brings these attributes.
    fn answered(&self, begun: Begun, op: &Op<'_>, (answer, attrs): (&Result<Answer>, &[Attr]), by: Option<RequestId>) {
        self.finish(begun, op, (answer, &Besides { attrs: attrs.to_vec(), traits: Vec::new() }), by);
    }

    /// A call that is sent and answered.
    fn call(&self, op: &Op<'_>, answer: &Result<Answer>) {
        let begun = self.begin(op);
        self.answered(begun, op, (answer, &[]), KERNEL);
    }

    /// What is answered here: the inode, or 0 for an absent name.
    fn here(&self, op: &Op<'_>) -> Option<u64> {
        match self.answer(op)? {
            Ok(Answer { reply: Reply::Attr(attr), .. }) => Some(attr.ino),
            Ok(Answer { reply: Reply::Number(ino), .. }) => Some(ino),
            Err(Error::Posix(Posix::NotFound | Posix::NoData)) => Some(0),
            other => panic!("{other:?}"),
        }
    }

    /// A directory of this session, which is known as a whole.
    fn with_whole(self) -> Self {
        let entries = vec![DirEntry { name: "listed".into(), ino: 9, kind: Kind::File }];
        let read = NameOp::ReadDir { ino: DIRECTORY, after: None, limit: 9 };
        self.call(&read.into(), &ok(Reply::Names(Names { entries, next: None })));
        self
    }
}

#[test]
fn what_was_looked_up_is_answered_until_it_changes() {
    let cache = cache();
    assert_eq!(cache.here(&lookup("a")), None);
    cache.call(&lookup("a"), &ok(file(5)));
    cache.call(&lookup("b"), &absent());
    assert_eq!((cache.here(&lookup("a")), cache.here(&lookup("b"))), (Some(5), Some(0)));
    cache.changed(&[Change::Entry { parent: DIRECTORY, name: "b".into() }]);
    assert_eq!((cache.here(&lookup("a")), cache.here(&lookup("b"))), (Some(5), None));
    cache.changed(&[Change::Attributes { ino: 5 }]);
    assert_eq!(cache.here(&lookup("a")), None);
    cache.call(&AttributeOp::Attr { ino: 5 }.into(), &ok(file(5)));
    assert_eq!(cache.here(&lookup("a")), Some(5), "the name still leads there");
    cache.changed(&[Change::Entry { parent: DIRECTORY, name: "a".into() }]);
    assert_eq!((cache.here(&lookup("a")), cache.here(&AttributeOp::Attr { ino: 5 }.into())), (None, None));
    cache.call(&lookup("a"), &ok(file(5)));
    cache.changed(&[Change::All]);
    assert_eq!(cache.here(&lookup("a")), None);
}

#[test]
fn a_reply_that_a_change_overtook_is_not_kept() {
    for change in [
        Change::Entry { parent: DIRECTORY, name: "a".into() },
        Change::Content { ino: 5 },
        Change::Attributes { ino: 5 },
        Change::All,
    ] {
        let cache = cache();
        let begun = cache.begin(&lookup("a"));
        cache.changed(std::slice::from_ref(&change));
        cache.answered(begun, &lookup("a"), (&ok(file(5)), &[]), KERNEL);
        assert_eq!(cache.here(&lookup("a")), None, "{change:?}");
    }
    let cache = cache();
    let (create, other) = (create("a"), create("b"));
    let begun = cache.begin(&create);
    cache.changed(&[Change::Entry { parent: DIRECTORY, name: "a".into() }]);
    cache.answered(begun, &create, (&ok(file(5)), &[]), KERNEL);
    assert_eq!(cache.here(&lookup("a")), None, "another session has replaced it since");
    let begun = cache.begin(&other);
    cache.changed(&[Change::Content { ino: 6 }]);
    cache.answered(begun, &other, (&ok(file(6)), &[]), KERNEL);
    assert_eq!(cache.here(&lookup("b")), None, "another session has written to it since");
}

#[test]
fn nothing_is_kept_or_served_while_a_call_of_this_session_changes_it() {
    let cache = cache();
    cache.call(&lookup("a"), &ok(file(5)));
    let before = cache.begin(&AttributeOp::Attr { ino: 5 }.into());
    let writing = cache.begin(&write(5));
    assert_eq!(cache.here(&lookup("a")), None);
    let during = cache.begin(&AttributeOp::Attr { ino: 5 }.into());
    cache.answered(before, &AttributeOp::Attr { ino: 5 }.into(), (&ok(file(5)), &[]), KERNEL);
    assert_eq!(cache.here(&lookup("a")), None);
    cache.answered(writing, &write(5), (&ok(Reply::Done(())), &[]), KERNEL);
    cache.answered(during, &AttributeOp::Attr { ino: 5 }.into(), (&ok(file(5)), &[]), KERNEL);
    assert_eq!(cache.here(&lookup("a")), None, "it may be older than the write");
    cache.call(&AttributeOp::Attr { ino: 5 }.into(), &ok(file(5)));
    assert_eq!(cache.here(&lookup("a")), Some(5));
    let set = AttributeOp::SetAttr { ino: 5, set: SetAttr::default() }.into();
    cache.call(&set, &ok(Reply::Attr(attr(5, Kind::File, 77))));
    let Some(Ok(Answer { reply: Reply::Attr(seen), .. })) = cache.answer(&lookup("a")) else { panic!("not kept") };
    assert_eq!(seen.size, 77);
}

#[test]
fn attributes_that_are_told_with_a_change_are_kept_unless_something_else_concerned_them() {
    let directory = || AttributeOp::Attr { ino: DIRECTORY }.into();
    let told = [attr(DIRECTORY, Kind::Directory, 3), attr(77, Kind::File, 3)];
    let answer = ok(file(5));
    let cache = cache();
    cache.answered(cache.begin(&create("a")), &create("a"), (&answer, &told), KERNEL);
    assert_eq!(cache.here(&directory()), Some(DIRECTORY));
    assert_eq!(cache.here(&AttributeOp::Attr { ino: 77 }.into()), None, "the call does not concern it");
    let (first, second) = (cache.begin(&create("b")), cache.begin(&create("c")));
    cache.answered(first, &create("b"), (&answer, &told), KERNEL);
    assert_eq!(cache.here(&directory()), None, "another name is being created");
    cache.answered(second, &create("c"), (&answer, &told), KERNEL);
    assert_eq!(cache.here(&directory()), None, "it may be from before the first");
    let begun = cache.begin(&create("d"));
    cache.changed(&[Change::Attributes { ino: DIRECTORY }]);
    cache.answered(begun, &create("d"), (&answer, &told), KERNEL);
    assert_eq!(cache.here(&directory()), None);
    cache.answered(cache.begin(&write(5)), &write(5), (&ok(Reply::Done(())), &[attr(5, Kind::File, 9)]), KERNEL);
    assert_eq!(cache.here(&AttributeOp::Attr { ino: 5 }.into()), Some(5));
}

#[test]
fn a_name_that_is_not_in_a_whole_directory_is_absent() {
    let cache = cache().with_whole();
    assert_eq!((cache.here(&lookup("a")), cache.here(&lookup("listed"))), (Some(0), None));
    assert_eq!(cache.here(&lookup(&"x".repeat(256))), None, "the store refuses it");
    cache.call(&create("a"), &ok(file(5)));
    assert_eq!(cache.here(&lookup("a")), Some(5));
    cache.call(&create("a"), &Err(Posix::Exists.into()));
    assert_eq!(cache.here(&lookup("a")), None, "the kernel looks again after EEXIST");
    cache.changed(&[Change::Entry { parent: DIRECTORY, name: "new".into() }]);
    assert_eq!((cache.here(&lookup("new")), cache.here(&lookup("b"))), (None, Some(0)));
    cache.call(&NameOp::Unlink { parent: DIRECTORY, name: "listed".into() }.into(), &ok(Reply::Done(())));
    assert_eq!(cache.here(&lookup("listed")), None, "a key that it hid may appear");
    let made = NameOp::Make { parent: DIRECTORY, name: "dir".into(), what: Make::Directory, owner: OWNER };
    cache.call(&made.into(), &ok(Reply::Attr(attr(6, Kind::Directory, 0))));
    let below = NameOp::Lookup { parent: 6, name: "x".into() }.into();
    assert_eq!((cache.here(&below), cache.here(&NameOp::Parent { ino: 6 }.into())), (Some(0), Some(DIRECTORY)));
    cache.changed(&[Change::Content { ino: 6 }]);
    assert_eq!(cache.here(&below), None);
    cache.changed(&[Change::Entry { parent: DIRECTORY, name: "dir".into() }]);
    assert_eq!(cache.here(&NameOp::Parent { ino: 6 }.into()), None);
}

#[test]
fn a_listing_that_a_change_overtook_is_no_whole_directory() {
    let cache = cache();
    let read = NameOp::ReadDir { ino: DIRECTORY, after: None, limit: 9 }.into();
    let begun = cache.begin(&read);
    cache.changed(&[Change::Entry { parent: DIRECTORY, name: "a".into() }]);
    cache.answered(begun, &read, (&ok(Reply::Names(Names::default())), &[]), KERNEL);
    assert_eq!(cache.here(&lookup("a")), None);
    let page = Names { entries: Vec::new(), next: Some("m".into()) };
    cache.call(&read, &ok(Reply::Names(page)));
    assert_eq!(cache.here(&lookup("a")), None, "there are more pages");
}

#[test]
fn references_that_the_store_did_not_count_are_returned_here() {
    let cache = cache();
    cache.call(&lookup("a"), &ok(file(5)));
    assert_eq!((cache.here(&lookup("a")), cache.here(&lookup("a"))), (Some(5), Some(5)));
    assert_eq!(cache.forget(5, 1), 0);
    assert_eq!(cache.here(&lookup("a")), Some(5));
    cache.call(&AttributeOp::Attr { ino: 5 }.into(), &ok(Reply::Attr(Attr { nlink: 0, ..attr(5, Kind::File, 0) })));
    assert_eq!(cache.forget(5, 3), 1, "one of them is the store's, and a file without names is not kept");
    assert_eq!(cache.here(&lookup("a")), None, "the store has no reference of this session any more");
    assert_eq!(cache.forget(77, 4), 4);
}

#[test]
fn an_inode_that_the_kernel_forgot_is_answered_until_others_change_it() {
    let cache = cache();
    let returned = || std::iter::from_fn(|| cache.forgets.take()).collect::<Vec<_>>();
    for change in [Change::Entry { parent: DIRECTORY, name: "a".into() }, Change::Attributes { ino: 5 }, Change::All] {
        cache.call(&lookup("a"), &ok(file(5)));
        assert_eq!(cache.forget(5, 1), 0, "the node keeps the reference");
        assert_eq!(cache.here(&lookup("a")), Some(5));
        cache.changed(std::slice::from_ref(&change));
        assert_eq!(returned(), [], "the kernel has looked it up");
        assert_eq!(cache.forget(5, 1), 1, "{change:?}");
        cache.call(&lookup("a"), &ok(file(5)));
        cache.call(&lookup("a"), &ok(file(5)));
        assert_eq!(cache.forget(5, 2), 1, "one is enough");
        cache.changed(std::slice::from_ref(&change));
        assert_eq!(returned(), [(5, 1)], "{change:?}");
    }
    cache.call(&lookup("a"), &ok(file(5)));
    assert_eq!(cache.forget(5, 1), 0);
    cache.call(&NameOp::Unlink { parent: DIRECTORY, name: "a".into() }.into(), &ok(Reply::Done(())));
    assert_eq!(returned(), [(5, 1)], "it was removed by this session");
    cache.call(&lookup("a"), &ok(file(5)));
    assert_eq!(cache.forget(5, 1), 0);
    cache.call(&NameOp::Unlink { parent: DIRECTORY, name: "unknown".into() }.into(), &ok(Reply::Done(())));
    assert_eq!(returned(), [(5, 1)], "it may have been this one");
}

/// The kernel returns references with its own that an earlier process answered: the store may have none left.
#[test]
fn a_process_that_took_a_mount_over_keeps_nothing_of_an_inode_that_the_kernel_forgot() {
    let cache = Cache::new(Arc::default(), true);
    cache.follow();
    cache.call(&lookup("a"), &ok(file(5)));
    assert_eq!(cache.here(&lookup("a")), Some(5));
    assert_eq!(cache.forget(5, 4), 3, "one was counted here");
    assert_eq!(cache.here(&lookup("a")), None);
    let entry = DirEntry { name: "b".into(), ino: 6, kind: Kind::File };
    let all = || NameOp::LookupAll { parent: DIRECTORY, entries: vec![entry.clone()].into(), listed: false };
    let answer = ok(Reply::Attrs(vec![Ok(attr(6, Kind::File, 0))]));
    cache.fetched(cache.begin(&all().into()), &all().into(), (&answer, &Besides::default()));
    assert_eq!(cache.here(&lookup("b")), Some(6));
    assert_eq!(cache.forget(6, 3), 3, "two of an earlier process, and the one that was fetched");
    assert_eq!(cache.here(&lookup("b")), None);
}

#[test]
fn what_was_fetched_ahead_is_answered_with_references_of_the_node() {
    let cache = cache();
    let entry = |name: &str, ino| DirEntry { name: name.into(), ino, kind: Kind::File };
    let all =
        || NameOp::LookupAll { parent: DIRECTORY, entries: vec![entry("a", 5), entry("b", 6)].into(), listed: false };
    let answer = ok(Reply::Attrs(vec![Ok(attr(5, Kind::File, 0)), Ok(attr(6, Kind::File, 0))]));
    let returned = || std::iter::from_fn(|| cache.forgets.take()).collect::<Vec<_>>();
    let begun = cache.begin(&all().into());
    cache.changed(&[Change::Attributes { ino: 6 }]);
    cache.fetched(begun, &all().into(), (&answer, &Besides::default()));
    assert_eq!(returned(), [(6, 1)], "its attributes are older than a change");
    assert!(cache.answer(&all().into()).is_none(), "not all are known");
    cache.fetched(cache.begin(&all().into()), &all().into(), (&answer, &Besides::default()));
    assert_eq!(returned(), [(5, 1)], "one reference is enough");
    assert!(matches!(cache.answer(&all().into()), Some(Ok(Answer { reply: Reply::Attrs(all), .. })) if all.len() == 2));
    assert_eq!((cache.forget(5, 1), cache.forget(6, 1)), (0, 0), "they were counted here");
    assert_eq!((cache.here(&lookup("a")), cache.here(&lookup("b"))), (Some(5), Some(6)));
    cache.changed(&[Change::Attributes { ino: 5 }, Change::Attributes { ino: 6 }]);
    assert_eq!((cache.forget(5, 1), cache.forget(6, 1)), (1, 1), "the kernel had them");
}

#[test]
fn a_listing_is_answered_until_a_name_in_it_changes() {
    let read = || NameOp::ReadDir { ino: DIRECTORY, after: None, limit: 9 }.into();
    let is_known = |cache: &Cache| matches!(cache.answer(&read()), Some(Ok(Answer { reply: Reply::Names(_), .. })));
    let cache = cache().with_whole();
    cache.call(&lookup("listed"), &ok(file(9)));
    cache.call(&lookup("absent"), &absent());
    assert!(is_known(&cache), "that was known before");
    cache.call(&write(9), &ok(Reply::Done(())));
    assert!(is_known(&cache));
    assert!(cache.answer(&NameOp::ReadDir { ino: DIRECTORY, after: None, limit: 0 }.into()).is_none());
    let cache = cache.with_whole();
    cache.changed(&[Change::Entry { parent: DIRECTORY, name: "b".into() }]);
    assert!(!is_known(&cache));
    let cache = cache.with_whole();
    cache.call(&create("a"), &ok(file(5)));
    assert!(!is_known(&cache));
    let cache = cache.with_whole();
    cache.changed(&[Change::Content { ino: DIRECTORY }]);
    assert!(!is_known(&cache));
}

#[test]
fn what_is_told_with_a_look_up_is_not_asked_for_until_it_changes() {
    let traits = Traits { no_capabilities: true, no_protection: true, no_access_acl: true, no_default_acl: false };
    let besides = || Besides { attrs: Vec::new(), traits: vec![traits] };
    let acl = |which| AttributeOp::Acl { ino: 5, which }.into();
    let known = |cache: &Cache| {
        let capability = AttributeOp::Xattr { ino: 5, name: CAPABILITIES.into() }.into();
        let check = OpenOp::CheckOpen { ino: 5, appends: false }.into();
        [capability, check, acl(WhichAcl::Access), acl(WhichAcl::Default)].map(|op| cache.answer(&op).is_some())
    };
    let cache = cache();
    cache.finish(cache.begin(&lookup("a")), &lookup("a"), (&ok(file(5)), &besides()), KERNEL);
    assert_eq!(known(&cache), [true, true, true, false]);
    cache.changed(&[Change::Attributes { ino: 5 }]);
    assert_eq!(known(&cache), [false; 4]);
    let begun = cache.begin(&lookup("a"));
    cache.changed(&[Change::Attributes { ino: 5 }]);
    cache.finish(begun, &lookup("a"), (&ok(file(5)), &besides()), KERNEL);
    assert_eq!(known(&cache), [false; 4], "it is older than a change");
}

#[test]
fn an_inode_that_the_kernel_forgot_is_not_kept_by_a_reply_on_its_way() {
    let cache = cache();
    cache.call(&lookup("a"), &ok(file(5)));
    cache.changed(&[Change::Attributes { ino: 5 }]);
    let begun = cache.begin(&AttributeOp::Attr { ino: 5 }.into());
    assert_eq!(cache.forget(5, 1), 1);
    cache.answered(begun, &AttributeOp::Attr { ino: 5 }.into(), (&ok(file(5)), &[]), KERNEL);
    assert_eq!(cache.here(&lookup("a")), None);
    cache.answered(cache.begin(&lookup("b")), &AttributeOp::Attr { ino: 6 }.into(), (&ok(file(6)), &[]), None);
    assert_eq!(cache.here(&AttributeOp::Attr { ino: 6 }.into()), None, "the kernel does not hold it");
}

#[test]
fn a_name_that_is_not_known_may_be_one_of_any_inode() {
    let cache = cache();
    cache.call(&lookup("a"), &ok(file(5)));
    cache.call(&NameOp::Unlink { parent: DIRECTORY, name: "another".into() }.into(), &ok(Reply::Done(())));
    assert_eq!(cache.here(&lookup("a")), None, "its count of names may have changed");
}

#[test]
fn a_new_file_has_no_capabilities_until_a_program_sets_some() {
    let capability = |ino| AttributeOp::Xattr { ino, name: CAPABILITIES.into() }.into();
    let cache = cache();
    assert_eq!(cache.here(&capability(5)), None);
    cache.call(&create("a"), &ok(file(5)));
    cache.call(&write(5), &ok(Reply::Done(())));
    assert_eq!(cache.here(&capability(5)), Some(0));
    let set = AttributeOp::SetXattr { ino: 5, name: CAPABILITIES.into(), value: b"x"[..].into(), mode: XattrMode::Any };
    cache.call(&set.into(), &ok(Reply::Done(())));
    assert_eq!(cache.here(&capability(5)), None);
    cache.call(&capability(5), &Err(Posix::NoData.into()));
    assert_eq!(cache.here(&capability(5)), Some(0));
    cache.changed(&[Change::Attributes { ino: 5 }]);
    assert_eq!(cache.here(&capability(5)), None);
}

#[test]
fn a_new_file_may_be_opened_for_writing_until_a_program_protects_it() {
    let check = |ino, appends| OpenOp::CheckOpen { ino, appends }.into();
    let done = || ok(Reply::Done(()));
    let here = |cache: &Cache, appends| matches!(cache.answer(&check(5, appends)), Some(Ok(_)));
    let cache = cache();
    cache.call(&check(5, true), &done());
    assert!(!here(&cache, true), "it may be append-only");
    cache.call(&create("a"), &ok(file(5)));
    cache.call(&write(5), &done());
    assert!(here(&cache, true) && here(&cache, false));
    cache.call(&AttributeOp::SetFlags { ino: 5, flags: Flags::default() }.into(), &done());
    assert!(!here(&cache, false));
    cache.call(&check(5, false), &done());
    assert!(here(&cache, false));
    cache.changed(&[Change::Attributes { ino: 5 }]);
    assert!(!here(&cache, false));
}

#[test]
fn an_inode_without_an_acl_has_none_until_a_program_sets_one() {
    let acl = |which| AttributeOp::Acl { ino: 5, which }.into();
    let here =
        |cache: &Cache, which| matches!(cache.answer(&acl(which)), Some(Ok(Answer { reply: Reply::Acl(None), .. })));
    let cache = cache();
    cache.call(&acl(WhichAcl::Access), &ok(Reply::Acl(None)));
    assert!(here(&cache, WhichAcl::Access) && !here(&cache, WhichAcl::Default));
    cache.call(&write(5), &ok(Reply::Done(())));
    assert!(here(&cache, WhichAcl::Access));
    cache.call(&AttributeOp::RemoveAcl { ino: 5, which: WhichAcl::Default }.into(), &ok(Reply::Done(())));
    assert!(!here(&cache, WhichAcl::Access));
}

#[test]
fn the_outcome_of_a_request_of_an_earlier_process_is_not_kept() {
    let (cache, create) = (cache(), create("a"));
    let resent = Some(RequestId { unique: 2, resent: true });
    cache.answered(cache.begin(&create), &create, (&ok(file(5)), &[]), resent);
    assert_eq!(cache.here(&lookup("a")), None, "others may have changed it since");
}

#[test]
fn after_estale_and_without_the_changes_nothing_is_known() {
    let cache = cache();
    cache.call(&lookup("a"), &ok(file(5)));
    cache.call(&AttributeOp::Attr { ino: 8 }.into(), &Err(Posix::Stale.into()));
    assert_eq!(cache.here(&lookup("a")), None);
    cache.call(&lookup("a"), &ok(file(5)));
    cache.close();
    assert_eq!(cache.here(&lookup("a")), None);
    cache.call(&lookup("a"), &ok(file(5)));
    assert_eq!(cache.here(&lookup("a")), None, "its changes are not followed");
}

#[test]
fn what_is_kept_is_bounded() {
    let cache = cache();
    for number in 0..300_000_u64 {
        let name = number.to_string();
        let op = NameOp::Lookup { parent: number / 100, name: name.as_str().into() }.into();
        cache.call(&op, &ok(file(number + 2)));
        cache.answer(&op);
    }
    let (names, nodes) = cache.state.lock().sizes();
    assert!(names <= 1 << 17 && nodes <= 2 << 16, "{names} names, {nodes} inodes");
}
