//! Calls of mounts on other machines that are sent again: after the store's process died, and by the node's next process.

use node_session::Incarnation;
use node_session::slot::{Begin, Table};
use objstore_base::acl::Acl;
use objstore_files::{
    Allocate, Answer, AttributeOp, ContentOp, Context, Flags, NameOp, Op, OpenOp, Rename, RenameMode, RequestId,
    SetAcl, SetAttr, WhichAcl, XattrMode,
};
use objstore_files_testing::write_reply;

use super::remote::{ID, call, context, create, in_slot, ino, opening};
use super::test_store::{TestStore, by_root, find};
use crate::error::Result;
use crate::store::{List, ListVersions, SetBucket, Versioning};
use crate::volume::{Make, OpenRemote, ROOT_INO, RemoteSession, SlotCall};

/// What a server of the store would do with a call that is sent to it.
fn begun(session: &RemoteSession, slot: SlotCall) -> Begin {
    Table::new(ID, 64, Incarnation(1)).begin(session, Incarnation(1), slot.call, slot.digest)
}

#[test]
fn a_call_of_class_set_is_answered_from_its_record_after_the_store_died() {
    let set = |set| AttributeOp::SetAttr { ino: 0, set };
    let write = |offset| ContentOp::Write { ino: 0, offset, kill_privileges: false };
    let entries = [(1, 7), (2, 6), (4, 5), (0x10, 5), (0x20, 4)];
    let entry = |(tag, allowed): (u8, u8)| [tag, 0, allowed, 0, tag, tag, tag, tag];
    let acl = Acl::parse(&[vec![2, 0, 0, 0], entries.map(entry).concat()].concat()).unwrap().unwrap();
    let how = Allocate::PunchHole;
    let ops: Vec<(&str, Op<'static>)> = vec![
        ("a write into a small file", write(1).into()),
        ("a write into a file with a blob", write(9000).into()),
        ("pages of a mapping", ContentOp::WriteBack { ino: 0, offset: 9100, kill_privileges: true }.into()),
        ("a mode", set(SetAttr { mode: Some(0o640), ..SetAttr::default() }).into()),
        ("a size", set(SetAttr { size: Some(9050), ..SetAttr::default() }).into()),
        ("flags", AttributeOp::SetFlags { ino: 0, flags: Flags { no_dump: true, ..Flags::default() } }.into()),
        ("privileges", AttributeOp::LosePrivileges { ino: 0, kill: true }.into()),
        ("an ACL", AttributeOp::SetAcl { ino: 0, which: WhichAcl::Access, acl, how: SetAcl::default() }.into()),
        ("no ACL", AttributeOp::RemoveAcl { ino: 0, which: WhichAcl::Access }.into()),
        ("a hole", ContentOp::Allocate { ino: 0, how, offset: 0, len: 64 }.into()),
    ];
    let mut test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let mut session = test.remote(&bucket);
    let file = ino(call(&session, Some(in_slot(0, 1)), create("a"), b"").unwrap());
    for (sequence, (what, op)) in (2..).zip(ops) {
        let (op, slot) = (of_inode(op, file), in_slot(0, sequence));
        assert_eq!(begun(&session, slot), Begin::Run, "{what}");
        let answer = session.execute(&context(&session), Some(slot), op, b"from the first machine").unwrap();
        assert!(answer.recorded, "{what}");
        drop(session);
        test = test.killed(&[]);
        session = test.remote_again();
        let again = begun(&session, slot);
        let expected = write_reply(&answer.reply);
        assert!(matches!(&again, Begin::Replay(reply) if *reply == expected), "{what}: {again:?}");
        let recorded = session.recorded().unwrap();
        assert_eq!(recorded.iter().map(|(call, _)| call.sequence).collect::<Vec<_>>(), [sequence], "{what}");
    }
    test.store.end_remote(ID).unwrap();
    drop(session);
    test.audit_collected();
}

/// The operation on this inode.
fn of_inode(op: Op<'static>, file: u64) -> Op<'static> {
    let mut op = op;
    match &mut op {
        Op::Attributes(
            AttributeOp::SetAttr { ino, .. }
            | AttributeOp::SetFlags { ino, .. }
            | AttributeOp::LosePrivileges { ino, .. }
            | AttributeOp::SetAcl { ino, .. }
            | AttributeOp::RemoveAcl { ino, .. },
        )
        | Op::Content(
            ContentOp::Write { ino, .. } | ContentOp::WriteBack { ino, .. } | ContentOp::Allocate { ino, .. },
        ) => *ino = file,
        other => panic!("{other:?}"),
    }
    op
}

#[test]
fn a_write_that_is_sent_again_after_a_restart_undoes_no_write_of_others() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let session = test.remote(&bucket);
    let file = ino(call(&session, Some(in_slot(0, 1)), create("a"), b"").unwrap());
    let write = ContentOp::Write { ino: file, offset: 6000, kill_privileges: false };
    call(&session, Some(in_slot(0, 2)), write, b"first").unwrap();
    let local = test.mount(&bucket);
    local.write(find(&local, "a").unwrap(), 6000, b"later", false).unwrap();
    drop((session, local));
    let test = test.killed(&[]);
    let session = test.remote_again();
    // The node of the first write had no answer and sends it again.
    if begun(&session, in_slot(0, 2)) == Begin::Run {
        call(&session, Some(in_slot(0, 2)), write, b"first").unwrap();
    }
    assert_eq!(&test.get(&bucket, "a").unwrap()[6000..], b"later");
}

/// A call for a request of the kernel.
fn asked(
    session: &RemoteSession,
    slot: SlotCall,
    (unique, resent): (u64, bool),
    op: impl Into<Op<'static>>,
    data: &[u8],
) -> Result<Answer> {
    let context = Context { request: Some(RequestId { unique, resent }), ..context(session) };
    session.execute(&context, Some(slot), op.into(), data)
}

#[test]
fn a_request_that_the_kernel_sends_again_to_the_nodes_next_process_is_done_once() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let first = test.remote(&bucket);
    let ticket = test.run(test.store.ticket(&bucket, "n1")).unwrap().reveal().to_owned();
    let file = ino(asked(&first, in_slot(0, 1), (2, false), create("a"), b"").unwrap().reply);
    let parent = ROOT_INO;
    let rename = Rename {
        from_parent: parent,
        from_name: "b".into(),
        to_parent: parent,
        to_name: "moved".into(),
        mode: RenameMode::Replace,
    };
    let (name, value) = ("user.x".into(), b"1".to_vec().into());
    let ops: Vec<(Op<'static>, &[u8])> = vec![
        (create("b").into(), b""),
        (NameOp::Make { parent, name: "d".into(), what: Make::Directory, owner: by_root(0o755) }.into(), b""),
        (NameOp::Link { ino: file, parent, name: "c".into() }.into(), b""),
        (NameOp::Rename { rename }.into(), b""),
        (NameOp::Unlink { parent, name: "c".into() }.into(), b""),
        (NameOp::RemoveDir { parent, name: "d".into() }.into(), b""),
        (AttributeOp::SetXattr { ino: file, name, value, mode: XattrMode::Create }.into(), b""),
        (ContentOp::Append { ino: file }.into(), b"once"),
        (ContentOp::Write { ino: file, offset: 5000, kill_privileges: false }.into(), b"there"),
        (ContentOp::Append { ino: file }.into(), b"twice"),
        (AttributeOp::SetAttr { ino: file, set: SetAttr { mode: Some(0o600), ..SetAttr::default() } }.into(), b""),
    ];
    let mut open = opening(&bucket, Some(ticket));
    for (number, (op, data)) in (1..).zip(ops) {
        // Each process has slots of its own.
        let slot = |incarnation: Incarnation| in_slot(64 * (incarnation.0 % 16) as u32, number + 1);
        let session = test.store.open_remote(&open).unwrap();
        let unique = 2 * number + 2;
        let before = asked(&session, slot(open.incarnation), (unique, false), op.clone(), data).unwrap();
        assert!(before.recorded, "the node keeps the slot until the kernel has the answer: {op:?}");
        open.incarnation = Incarnation(open.incarnation.0 + 1);
        let next = test.store.open_remote(&open).unwrap();
        let again = asked(&next, slot(open.incarnation), (unique, true), op.clone(), data).unwrap();
        assert_eq!(write_reply(&again.reply), write_reply(&before.reply), "{op:?}");
    }
    let local = test.mount(&bucket);
    let names: Vec<_> = local.read_dir(ROOT_INO).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "moved"]);
    let content = test.get(&bucket, "a").unwrap();
    assert_eq!((&content[..4], &content[5000..]), (&b"once"[..], &b"theretwice"[..]));
    drop((local, first));
    test.store.end_remote(ID).unwrap();
    test.audit_collected();
}

#[test]
fn a_write_that_the_kernel_sends_again_begins_no_second_version() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let set = SetBucket { versioning: Some(Versioning::Enabled), ..SetBucket::default() };
    test.run(test.store.set_bucket(&bucket, set)).unwrap();
    test.put(&bucket, "f", &[1; 9000]).unwrap();
    let session = test.remote(&bucket);
    let ticket = test.run(test.store.ticket(&bucket, "n1")).unwrap().reveal().to_owned();
    let lookup = NameOp::Lookup { parent: ROOT_INO, name: "f".into() };
    let file = ino(call(&session, None, lookup, b"").unwrap());
    call(&session, None, OpenOp::OpenWriter { ino: file }, b"").unwrap();
    let write = ContentOp::Write { ino: file, offset: 10, kill_privileges: false };
    asked(&session, in_slot(64, 1), (4, false), write, b"once").unwrap();
    drop(session);
    // The store dies too, so that nothing in memory says that the version is open.
    let test = test.killed(&[]);
    let all = ListVersions { list: List { limit: 100, ..List::default() }, after_version: None };
    let versions = || test.store.list_versions(&bucket, &all).unwrap().versions.len();
    let before = versions();
    let open = OpenRemote { incarnation: Incarnation(2), ..opening(&bucket, Some(ticket)) };
    let session = test.store.open_remote(&open).unwrap();
    asked(&session, in_slot(128, 2), (4, true), write, b"once").unwrap();
    assert_eq!((versions(), before), (2, 2));
    test.store.end_remote(ID).unwrap();
    drop(session);
    test.audit_collected();
}
