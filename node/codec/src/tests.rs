//! Round trips of generated values, changed bytes, and hostile lengths.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use objstore_base::acl::{Acl, Hidden};
use objstore_base::clock::Timestamp;
use objstore_base::error::{Error, Noun, Posix, with_source};
use objstore_files::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::message::{self, Arguments};
use crate::session::LOOKUPS_PER_CALL;
use crate::{
    CALL_BYTES_MAX, CHANGES_PAGE_MAX, NAMES_PAGE_MAX, decode_call, decode_changes, decode_reply, encode_call,
    encode_changes, encode_failure, encode_reply, within_one_reply,
};

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zé.]{0,12}", Just("x".repeat(NAME_BYTES_MAX))]
}

fn kind() -> impl Strategy<Value = Kind> {
    use Kind::*;
    prop::sample::select(vec![File, Directory, Symlink, Fifo, Socket, CharDevice, BlockDevice])
}

fn entry() -> impl Strategy<Value = DirEntry> {
    (name(), any::<u64>(), kind()).prop_map(|(name, ino, kind)| DirEntry { name, ino, kind })
}

fn owner() -> impl Strategy<Value = Ownership> {
    any::<[u32; 4]>().prop_map(|[uid, gid, mode, umask]| Ownership { uid, gid, mode, umask })
}

fn acl() -> impl Strategy<Value = Acl> {
    // u::rwx,u:ID:r-x,g::r-x,m::rwx,o::---
    any::<u16>().prop_map(|id| {
        let entry = |tag: u16, allowed: u16, id: u32| {
            [&tag.to_le_bytes()[..], &allowed.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let entries =
            [entry(1, 7, none), entry(2, 5, id.into()), entry(4, 5, none), entry(16, 7, none), entry(32, 0, none)];
        Acl::parse(&[&[2, 0, 0, 0][..], &entries.concat()].concat()).unwrap().unwrap()
    })
}

fn set_attr() -> impl Strategy<Value = SetAttr> {
    let times = (option::of(any::<i64>()), option::of(any::<i64>()));
    (option::of(any::<u32>()), option::of(any::<u32>()), option::of(any::<u64>()), times, any::<[bool; 3]>()).prop_map(
        |(mode, gid, size, (atime, mtime), [touches, kill_privileges, outsider])| SetAttr {
            mode,
            uid: gid.map(|gid| gid ^ 1),
            gid,
            size,
            atime: atime.map(Timestamp),
            mtime: mtime.map(Timestamp),
            touches,
            kill_privileges,
            outsider,
        },
    )
}

fn make() -> impl Strategy<Value = Make> {
    prop_oneof![
        Just(Make::File),
        Just(Make::Directory),
        "[a-z/]{1,40}".prop_map(Make::Symlink),
        (kind(), any::<u32>()).prop_map(|(kind, device)| Make::Special(kind, device)),
    ]
}

fn rename() -> impl Strategy<Value = Rename> {
    let mode = prop_oneof![
        Just(RenameMode::Replace),
        Just(RenameMode::NoReplace),
        Just(RenameMode::Exchange),
        (owner(), any::<bool>()).prop_map(|(owner, replace)| RenameMode::Whiteout { owner, replace }),
    ];
    (any::<u64>(), name(), any::<u64>(), name(), mode).prop_map(|(from_parent, from_name, to_parent, to_name, mode)| {
        Rename { from_parent, from_name, to_parent, to_name, mode }
    })
}

fn names_op() -> BoxedStrategy<Op<'static>> {
    let ino = any::<u64>();
    let in_parent = || (any::<u64>(), name().prop_map(Cow::Owned));
    prop_oneof![
        in_parent().prop_map(|(parent, name)| NameOp::Lookup { parent, name }),
        (ino, vec(entry(), 0..5), any::<bool>()).prop_map(|(parent, entries, listed)| NameOp::LookupAll {
            parent,
            entries: entries.into(),
            listed
        }),
        ino.prop_map(|ino| NameOp::Pin { ino }),
        (ino, any::<u64>()).prop_map(|(ino, count)| NameOp::Forget { ino, count }),
        ino.prop_map(|ino| NameOp::Parent { ino }),
        ino.prop_map(|ino| NameOp::Path { ino }),
        (ino, option::of(name()), 1..=NAMES_MAX).prop_map(|(ino, after, limit)| NameOp::ReadDir { ino, after, limit }),
        ino.prop_map(|ino| NameOp::ReadLink { ino }),
        (in_parent(), make(), owner()).prop_map(|((parent, name), what, owner)| NameOp::Make {
            parent,
            name,
            what,
            owner
        }),
        (in_parent(), owner()).prop_map(|((parent, name), owner)| NameOp::Create { parent, name, owner }),
        (ino, owner(), any::<bool>()).prop_map(|(parent, owner, linkable)| NameOp::CreateNameless {
            parent,
            owner,
            linkable
        }),
        (ino, in_parent()).prop_map(|(ino, (parent, name))| NameOp::Link { ino, parent, name }),
        in_parent().prop_map(|(parent, name)| NameOp::Unlink { parent, name }),
        in_parent().prop_map(|(parent, name)| NameOp::RemoveDir { parent, name }),
        rename().prop_map(|rename| NameOp::Rename { rename }),
    ]
    .prop_map(Op::Names)
    .boxed()
}

fn attributes_op() -> BoxedStrategy<Op<'static>> {
    let ino = any::<u64>();
    let named = || (any::<u64>(), name().prop_map(Cow::Owned));
    let which = || prop::sample::select(vec![WhichAcl::Access, WhichAcl::Default]);
    let mode = prop::sample::select(vec![XattrMode::Any, XattrMode::Create, XattrMode::Replace]);
    let flags =
        any::<[bool; 3]>().prop_map(|[immutable, append_only, no_dump]| Flags { immutable, append_only, no_dump });
    let how = any::<[bool; 3]>()
        .prop_map(|[kill_setgid, users, groups]| SetAcl { kill_setgid, hidden: Hidden { users, groups } });
    prop_oneof![
        ino.prop_map(|ino| AttributeOp::Attr { ino }),
        (ino, set_attr()).prop_map(|(ino, set)| AttributeOp::SetAttr { ino, set }),
        (ino, any::<bool>()).prop_map(|(ino, kill)| AttributeOp::LosePrivileges { ino, kill }),
        ino.prop_map(|ino| AttributeOp::Flags { ino }),
        (ino, flags).prop_map(|(ino, flags)| AttributeOp::SetFlags { ino, flags }),
        named().prop_map(|(ino, name)| AttributeOp::Xattr { ino, name }),
        ino.prop_map(|ino| AttributeOp::Xattrs { ino }),
        (named(), vec(any::<u8>(), 0..40), mode).prop_map(|((ino, name), value, mode)| AttributeOp::SetXattr {
            ino,
            name,
            value: value.into(),
            mode
        }),
        named().prop_map(|(ino, name)| AttributeOp::RemoveXattr { ino, name }),
        (ino, which()).prop_map(|(ino, which)| AttributeOp::Acl { ino, which }),
        (ino, which(), acl(), how).prop_map(|(ino, which, acl, how)| AttributeOp::SetAcl { ino, which, acl, how }),
        (ino, which()).prop_map(|(ino, which)| AttributeOp::RemoveAcl { ino, which }),
        Just(AttributeOp::Space {}),
    ]
    .prop_map(Op::Attributes)
    .boxed()
}

fn content_op() -> BoxedStrategy<Op<'static>> {
    let at = || (any::<u64>(), any::<u64>());
    let flagged = || (any::<u64>(), any::<u64>(), any::<bool>());
    let how = prop::sample::select(vec![
        Allocate::Extend,
        Allocate::KeepSize,
        Allocate::PunchHole,
        Allocate::ZeroRange,
        Allocate::ZeroRangeKeepSize,
    ]);
    let spot = || at().prop_map(|(ino, offset)| Spot { ino, offset });
    prop_oneof![
        (at(), 0..=DATA_BYTES_MAX as u32).prop_map(|((ino, offset), len)| ContentOp::Read { ino, offset, len }),
        flagged().prop_map(|(ino, offset, kill_privileges)| ContentOp::Write { ino, offset, kill_privileges }),
        flagged().prop_map(|(ino, offset, kill_privileges)| ContentOp::WriteBack { ino, offset, kill_privileges }),
        any::<u64>().prop_map(|ino| ContentOp::Append { ino }),
        any::<u64>().prop_map(|ino| ContentOp::Recall { ino }),
        flagged().prop_map(|(ino, offset, data)| ContentOp::Seek { ino, offset, data }),
        (at(), how, any::<u64>()).prop_map(|((ino, offset), how, len)| ContentOp::Allocate { ino, how, offset, len }),
        (spot(), spot(), any::<u64>()).prop_map(|(from, to, len)| ContentOp::CopyRange { from, to, len }),
        (any::<u64>(), any::<bool>()).prop_map(|(ino, data_only)| ContentOp::Sync { ino, data_only }),
        Just(ContentOp::SyncVolume {}),
    ]
    .prop_map(Op::Content)
    .boxed()
}

fn opens_op() -> BoxedStrategy<Op<'static>> {
    let flagged = || (any::<u64>(), any::<bool>());
    let handled = || (any::<u64>(), any::<u64>());
    prop_oneof![
        flagged().prop_map(|(ino, appends)| OpenOp::CheckOpen { ino, appends }),
        any::<u64>().prop_map(|ino| OpenOp::OpenWriter { ino }),
        flagged().prop_map(|(ino, inherited)| OpenOp::CloseWriter { ino, inherited }),
        handled().prop_map(|(ino, handle)| OpenOp::Closing { ino, handle }),
        handled().prop_map(|(ino, handle)| OpenOp::Closed { ino, handle }),
        Just(OpenOp::KeepsVersions {}),
        vec(any::<u64>(), 0..5).prop_map(|inos| OpenOp::OpenBefore { inos: inos.into() }),
        flagged().prop_map(|(ino, held)| OpenOp::ProbeResult { ino, held }),
    ]
    .prop_map(Op::Opens)
    .boxed()
}

fn lock_mode() -> impl Strategy<Value = LockMode> {
    prop::sample::select(vec![LockMode::Shared, LockMode::Exclusive])
}

fn lock_range() -> impl Strategy<Value = LockRange> {
    any::<[u64; 2]>().prop_map(|[a, b]| LockRange::new(a.min(b), a.max(b)).unwrap())
}

fn lock() -> impl Strategy<Value = Lock> {
    let kind = prop::sample::select(vec![LockKind::Ranges, LockKind::Whole]);
    (kind, lock_mode(), lock_range()).prop_map(|(kind, mode, range)| Lock { kind, mode, range })
}

fn lock_op() -> BoxedStrategy<Op<'static>> {
    let numbers = any::<[u64; 3]>;
    prop_oneof![
        (numbers(), lock()).prop_map(|([ino, owner, _], lock)| LockOp::Test { ino, owner, lock }),
        (numbers(), any::<[u64; 2]>(), lock()).prop_map(|([ino, owner, handle], [pid, ticket], lock)| {
            LockOp::Set { ino, by: LockOwner { owner, handle, pid: pid as u32 }, lock, ticket }
        }),
        (numbers(), lock())
            .prop_map(|([ino, owner, _], Lock { kind, range, .. })| { LockOp::Unset { ino, owner, kind, range } }),
        numbers().prop_map(|[ino, owner, _]| LockOp::Release { ino, closed: LockRelease::Descriptor { owner } }),
        numbers().prop_map(|[ino, owner, handle]| {
            LockOp::Release { ino, closed: LockRelease::Description { owner, handle } }
        }),
        any::<u64>().prop_map(|ticket| LockOp::Cancel { ticket }),
        any::<u64>().prop_map(|after| LockOp::Files { after }),
    ]
    .prop_map(Op::Locks)
    .boxed()
}

fn op() -> impl Strategy<Value = Op<'static>> {
    prop_oneof![names_op(), attributes_op(), content_op(), opens_op(), lock_op()]
}

fn context() -> impl Strategy<Value = Context> {
    let caller = any::<[u32; 3]>().prop_map(|[uid, gid, pid]| Caller { uid, gid, pid });
    let request = (any::<u64>(), any::<bool>()).prop_map(|(unique, resent)| RequestId { unique, resent });
    (any::<u64>(), option::of(caller), option::of(request)).prop_map(|(session, caller, request)| Context {
        session,
        caller,
        request,
    })
}

fn attr() -> impl Strategy<Value = Attr> {
    (any::<[u64; 3]>(), any::<[u32; 5]>(), any::<[i64; 4]>(), kind()).prop_map(
        |([ino, size, blocks], [mode, uid, gid, nlink, rdev], times, kind)| {
            let [atime, mtime, ctime, btime] = times.map(Timestamp);
            Attr { ino, kind, mode, uid, gid, nlink, size, blocks, rdev, atime, mtime, ctime, btime }
        },
    )
}

fn error() -> impl Strategy<Value = Error> {
    let text = || "[a-zé ]{0,20}";
    let number = any::<u64>;
    prop_oneof![
        (text(), option::of(text())).prop_map(|(name, marker)| Error::NotFound { noun: Noun::Key, name, marker }),
        (text(), text()).prop_map(|(name, why)| Error::Exists { noun: Noun::Xattr, name, why }),
        (text(), text()).prop_map(|(name, what)| Error::NotEmpty { name, what }),
        (text(), text()).prop_map(|(name, user)| Error::InUse { noun: Noun::Snapshot, name, user }),
        (text(), text()).prop_map(|(value, why)| Error::invalid("prefix", value, why)),
        (text(), text(), any::<i64>()).prop_map(|(key, version, modified)| Error::DeleteMarker {
            key,
            version,
            modified: Timestamp(modified),
        }),
        text().prop_map(|key| Error::Precondition { condition: "If-Match", key }),
        (text(), number(), number(), number()).prop_map(|(bucket, limit_bytes, used_bytes, asked_bytes)| {
            Error::QuotaExceeded { bucket, limit_bytes, used_bytes, asked_bytes }
        }),
        text().prop_map(|why| Error::Denied { why }),
        Just(Error::Posix(Posix::NotEmpty)),
        number().prop_map(|limit| Error::TooMany { what: "mounts", limit }),
        number().prop_map(|limit| Error::TooDeep { limit }),
        text().prop_map(|what| Error::Busy { what }),
        (text(), text(), text()).prop_map(|(what, expected, found)| Error::corrupt(what, expected, found)),
        text().prop_map(|why| Error::Poisoned { why }),
        text().prop_map(|why| Error::Unusable { why }),
        (text(), 1..40_i32).prop_map(|(what, number)| Error::io(what, std::io::Error::from_raw_os_error(number))),
        (text(), text()).prop_map(|(what, cause)| Error::io(what, std::io::Error::other(cause))),
        text().prop_map(|why| Error::Engine { why }),
        text().prop_map(|why| Error::Indeterminate { why }),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let found = prop_oneof![attr().prop_map(Ok), error().prop_map(Err)];
    let space = any::<[u64; 4]>().prop_map(|[total_bytes, used_bytes, free_bytes, inodes]| {
        Reply::Space(Space { total_bytes, used_bytes, free_bytes, inodes })
    });
    prop_oneof![
        Just(Reply::Done(())),
        attr().prop_map(Reply::Attr),
        vec(found, 0..4).prop_map(Reply::Attrs),
        any::<u64>().prop_map(Reply::Number),
        option::of(any::<u64>()).prop_map(Reply::Offset),
        any::<bool>().prop_map(Reply::Bool),
        (vec(entry(), 0..4), option::of(name())).prop_map(|(entries, next)| Reply::Names(Names { entries, next })),
        name().prop_map(Reply::Text),
        option::of(name()).prop_map(Reply::MaybeText),
        vec(name(), 0..4).prop_map(Reply::Texts),
        vec(any::<u8>(), 0..64).prop_map(|bytes| Reply::Data(bytes.into())),
        any::<bool>().prop_map(|immutable| Reply::Flags(Flags { immutable, append_only: true, no_dump: false })),
        option::of(acl()).prop_map(Reply::Acl),
        space,
        option::of((lock_mode(), lock_range(), any::<u32>()))
            .prop_map(|held| Reply::HeldLock(held.map(|(mode, range, pid)| HeldLock { mode, range, pid }))),
        prop::sample::select(vec![Locked::Granted, Locked::Refused, Locked::Waits, Locked::Deadlock, Locked::TooMany])
            .prop_map(Reply::Locked),
        vec(any::<u64>(), 0..5).prop_map(Reply::Inodes),
    ]
}

proptest! {
    #[test]
    fn calls_come_back_as_they_were_sent(context in context(), op in op()) {
        let head = encode_call(&context, &op);
        prop_assert_eq!(decode_call(&head).unwrap(), (context, op));
    }

    #[test]
    fn replies_come_back_as_they_were_sent(reply in reply(), recorded: bool) {
        let sent = Ok(Answer { reply, recorded });
        let (head, data) = encode_reply(&sent);
        prop_assert_eq!(format!("{:?}", decode_reply(&head, data).unwrap()), format!("{sent:?}"));
    }

    #[test]
    fn errors_come_back_with_their_kind_and_their_message(error in error()) {
        let (head, data) = encode_reply(&Err(error.clone()));
        let back = decode_reply(&head, data).unwrap().unwrap_err();
        prop_assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&error));
        prop_assert_eq!(with_source(&back), with_source(&error));
        if let (Error::Io { source: back, .. }, Error::Io { source, .. }) = (&back, &error) {
            prop_assert_eq!(back.raw_os_error(), source.raw_os_error());
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_read_as_what_they_say(
        context in context(), op in op(), reply in reply(), at: prop::sample::Index, with: u8,
    ) {
        let heads = [encode_call(&context, &op), encode_reply(&Ok(Answer { reply, recorded: false })).0];
        for (kind, head) in heads.into_iter().enumerate() {
            let mut changed = [vec![u8::try_from(kind).unwrap()], head].concat();
            let at = at.index(changed.len()).max(1).min(changed.len() - 1);
            changed[at] ^= with;
            if changed.len() > 1 {
                crate::fuzzed::operation(&changed);
                crate::fuzzed::operation(&changed[..at]);
            }
        }
    }
}

/// Every operation is generated above, and has a number of its own.
#[test]
fn every_operation_crosses() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..4000 {
        let op = op().new_tree(&mut runner).unwrap().current();
        names.insert(op.name());
        numbers.insert(crate::arguments::arguments(&op).0);
    }
    let all: BTreeSet<_> = Op::all().map(|(name, _)| name).collect();
    assert_eq!(names, all);
    assert_eq!(numbers.len(), all.len());
}

#[test]
fn the_longest_calls_fit_their_bound() {
    let context = Context { session: u64::MAX, caller: None, request: None };
    let entry = DirEntry { name: "x".repeat(NAME_BYTES_MAX), ino: u64::MAX, kind: Kind::File };
    let entries = vec![entry; LOOKUPS_PER_CALL];
    let lookup: Op<'_> = NameOp::LookupAll { parent: u64::MAX, entries: entries.into(), listed: true }.into();
    let open: Op<'_> = OpenOp::OpenBefore { inos: vec![u64::MAX; INODES_MAX].into() }.into();
    for op in [lookup, open] {
        let head = encode_call(&context, &op);
        assert_eq!(decode_call(&head).unwrap().1, op);
        assert!(head.len() < CALL_BYTES_MAX / 4 * 3, "{}", head.len());
    }
}

fn refusal(operation: u32, arguments: Arguments) -> Error {
    let head = message::Call { operation, arguments: Some(arguments), ..Default::default() };
    decode_call(&prost::Message::encode_to_vec(&head)).expect_err("it is refused")
}

#[test]
fn hostile_lengths_and_numbers_are_refused() {
    let arguments = Arguments { ino: 1, name: "a".into(), ..Default::default() };
    let long = Arguments { name: "x".repeat(NAME_BYTES_MAX + 1), ..arguments.clone() };
    assert!(matches!(refusal(1, long), Error::Posix(Posix::NameTooLong)));
    let many = Arguments { entries: vec![Default::default(); LOOKUPS_PER_CALL + 1], ..arguments.clone() };
    assert!(matches!(refusal(2, many), Error::Invalid { what: "names to look up", .. }));
    let nothing = Arguments { len: 0, ..arguments.clone() };
    assert!(matches!(refusal(7, nothing), Error::Invalid { what: "number of names", .. }));
    let huge = Arguments { len: DATA_BYTES_MAX as u64 + 1, ..arguments.clone() };
    assert!(matches!(refusal(201, huge), Error::Invalid { what: "length of a read", .. }));
    let value = Arguments { value: vec![0; XATTR_BYTES_MAX + 1], choice: 1, ..arguments.clone() };
    assert!(matches!(refusal(108, value), Error::Posix(Posix::NoSpace)));
    assert!(matches!(refusal(9, arguments.clone()), Error::Invalid { what: "kind to create", .. }));
    for number in [0, 99, 199, 299, 999, u32::MAX] {
        let refused = refusal(number, arguments.clone()).to_string();
        assert!(refused.contains(&format!("\"{number}\"")) && refused.contains("upgrade"), "{refused}");
    }
    assert!(matches!(decode_call(&vec![0; CALL_BYTES_MAX + 1]), Err(Error::Invalid { what: "head of a call", .. })));
    let data = Bytes::from(vec![0; DATA_BYTES_MAX + 1]);
    let (head, _) = encode_reply(&Ok(Answer { reply: Reply::Data(Bytes::new()), recorded: false }));
    assert!(decode_reply(&head, data).is_err());
    let changes = vec![Change::Content { ino: 1 }; CHANGES_PAGE_MAX + 1];
    assert!(
        decode_changes(&encode_changes(&changes)).is_err() && decode_changes(&encode_changes(&changes[1..])).is_ok()
    );
}

#[test]
fn a_recall_keeps_its_place_among_changes_and_its_number() {
    let changes = [Change::Content { ino: 7 }, Change::Recall { grant: 3 << 32 | 1 }, Change::All];
    assert_eq!(decode_changes(&encode_changes(&changes)).unwrap(), changes);
}

#[test]
fn a_listing_is_asked_for_in_pages() {
    let asked = NameOp::ReadDir { ino: 1, after: None, limit: NAMES_MAX }.into();
    let expected: Op<'_> = NameOp::ReadDir { ino: 1, after: None, limit: NAMES_PAGE_MAX }.into();
    assert_eq!(within_one_reply(asked), expected);
}

#[test]
fn long_texts_of_errors_are_cut() {
    let error = Error::Denied { why: "é".repeat(crate::bounds::TEXT_BYTES_MAX) };
    let Ok(Error::Denied { why }) = crate::decode_failure(&encode_failure(&error)) else { panic!("a denial") };
    assert!(why.len() <= crate::bounds::TEXT_BYTES_MAX && why.starts_with("éé"));
}
