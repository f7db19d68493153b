//! A session of another machine on a directory of a bucket, whose node names inodes as it likes.

use node_session::{CallId, Digest, Incarnation, SessionId};
use objstore_files::{
    AttributeOp, Change, ContentOp, Context, DirEntry, Entries, FileService as _, Kind, NameOp, Op, OpenOp, Reply,
    SetAttr, Spot,
};
use objstore_files_testing::{decoded, write_reply};

use super::test_store::{TestStore, by_root};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::Mode;
use crate::volume::{Make, OpenRemote, ROOT_INO, RemoteSession, Rename, RenameMode, SlotCall, Volume};

const ID: SessionId = SessionId(9 << 100);

/// A node that obeys nothing.
struct Hostile {
    session: RemoteSession,
    sequence: u64,
}

impl Hostile {
    fn open(test: &TestStore, bucket: &BucketName, prefix: &str) -> Self {
        test.run(test.store.create_account("anna", false)).unwrap();
        test.run(test.store.add_grant(bucket, "anna", Mode::ReadWrite)).unwrap();
        let open = OpenRemote {
            id: ID,
            incarnation: Incarnation(1),
            node: "n1".into(),
            bucket: bucket.clone(),
            prefix: prefix.into(),
            read_only: false,
            ticket: None,
            account: Some("anna".into()),
        };
        Self { session: test.store.open_remote(&open).unwrap(), sequence: 0 }
    }

    fn call(&mut self, op: impl Into<Op<'static>>) -> Result<Reply> {
        self.sequence += 1;
        let call = CallId { slot: 0, sequence: self.sequence };
        let slot = SlotCall { call, digest: Digest([9; 16]), encode: write_reply, decode: decoded };
        let context = Context { session: self.session.about().number, caller: None, request: None };
        self.session.execute(&context, Some(slot), op.into(), b"x").map(|answer| answer.reply)
    }

    fn ino(&mut self, op: impl Into<Op<'static>>) -> u64 {
        match self.call(op) {
            Ok(Reply::Attr(attr)) => attr.ino,
            other => panic!("{other:?}"),
        }
    }
}

fn lookup(parent: u64, name: &str) -> NameOp<'static> {
    NameOp::Lookup { parent, name: name.to_owned().into() }
}

fn rename(from_parent: u64, from_name: &str, to_parent: u64, to_name: &str) -> NameOp<'static> {
    let (from_name, to_name) = (from_name.to_owned(), to_name.to_owned());
    NameOp::Rename { rename: Rename { from_parent, from_name, to_parent, to_name, mode: RenameMode::Replace } }
}

/// A directory, and a file in it.
fn folder(volume: &Volume, name: &str) -> (u64, u64) {
    let at = volume.make(ROOT_INO, name, Make::Directory, by_root(0o755)).unwrap().ino;
    let file = volume.make(at, "file", Make::File, by_root(0o644)).unwrap().ino;
    volume.write(file, 0, b"content", false).unwrap();
    (at, file)
}

/// Each call that names `directory` or `file`, which lie outside, beside what lies inside.
fn calls_to(directory: u64, file: u64, inside: u64, own: u64) -> Vec<Op<'static>> {
    let (name, owner) = (|| "new".to_owned().into(), by_root(0o644));
    let spot = |ino| Spot { ino, offset: 0 };
    let listed = DirEntry { name: "file".into(), ino: file, kind: Kind::File };
    let names = [
        lookup(directory, "file"),
        NameOp::LookupAll { parent: directory, entries: Entries::from(vec![listed]), listed: true },
        NameOp::Pin { ino: file },
        NameOp::Parent { ino: directory },
        NameOp::Path { ino: file },
        NameOp::ReadDir { ino: directory, after: None, limit: 10 },
        NameOp::ReadLink { ino: file },
        NameOp::Make { parent: directory, name: name(), what: Make::File, owner },
        NameOp::Create { parent: directory, name: name(), owner },
        NameOp::CreateNameless { parent: directory, owner, linkable: true },
        NameOp::Link { ino: file, parent: inside, name: name() },
        NameOp::Link { ino: own, parent: directory, name: name() },
        NameOp::Unlink { parent: directory, name: "file".to_owned().into() },
        NameOp::RemoveDir { parent: directory, name: name() },
        rename(inside, "file", directory, "new"),
        rename(directory, "file", inside, "new"),
    ];
    let content = [
        ContentOp::Read { ino: file, offset: 0, len: 10 },
        ContentOp::Write { ino: file, offset: 0, kill_privileges: false },
        ContentOp::WriteBack { ino: file, offset: 0, kill_privileges: false },
        ContentOp::Append { ino: file },
        ContentOp::CopyRange { from: spot(file), to: spot(own), len: 7 },
        ContentOp::CopyRange { from: spot(own), to: spot(file), len: 7 },
        ContentOp::Sync { ino: file, data_only: false },
    ];
    let attributes = [
        AttributeOp::Attr { ino: file },
        AttributeOp::SetAttr { ino: directory, set: SetAttr { mode: Some(0), ..SetAttr::default() } },
        AttributeOp::Xattrs { ino: file },
        AttributeOp::RemoveXattr { ino: file, name: "user.a".to_owned().into() },
    ];
    let opens = [OpenOp::OpenWriter { ino: file }, OpenOp::CloseWriter { ino: file, inherited: true }];
    let mut all: Vec<Op<'static>> = names.into_iter().map(Op::from).collect();
    all.extend(content.into_iter().map(Op::from));
    all.extend(attributes.into_iter().map(Op::from));
    all.extend(opens.into_iter().map(Op::from));
    all
}

#[test]
fn a_node_reaches_nothing_outside_of_its_directory_by_number() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let volume = test.mount(&bucket);
    let ((inside, own), (outside, secret)) = (folder(&volume, "in"), folder(&volume, "out"));
    let mut node = Hostile::open(&test, &bucket, "in");
    assert_eq!(node.session.about().root, inside);
    assert_eq!(node.ino(lookup(inside, "file")), own);
    for op in calls_to(outside, secret, inside, own).into_iter().chain(calls_to(ROOT_INO, secret, inside, own)) {
        let done = node.call(op.clone());
        assert!(matches!(done, Err(Error::Posix(Posix::Stale))), "{op:?}: {done:?}");
    }
    for name in ["..", ".", "../out/file", "out/file", ""] {
        assert!(node.call(lookup(inside, name)).is_err(), "{name:?}");
    }
    // A number that the peer made up for a name is not believed.
    let listed = DirEntry { name: "file".into(), ino: secret, kind: Kind::File };
    let looked = node.call(NameOp::LookupAll { parent: inside, entries: Entries::from(vec![listed]), listed: true });
    let Ok(Reply::Attrs(found)) = looked else { panic!("{looked:?}") };
    assert_eq!(found[0].as_ref().unwrap().ino, own);
    let parent = node.call(NameOp::Parent { ino: inside }).unwrap();
    assert!(matches!(parent, Reply::Number(above) if above == inside), "{parent:?}");
    assert_eq!(&volume.read(secret, 0, 10).unwrap()[..], b"content");
    assert_eq!(volume.read_dir(outside).unwrap().len(), 1);
    test.store.end_remote(ID).unwrap();
}

#[test]
fn a_node_keeps_what_it_was_handed_and_hears_no_names_of_others() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let volume = test.mount(&bucket);
    let ((inside, own), (outside, _)) = (folder(&volume, "in"), folder(&volume, "out"));
    let mut node = Hostile::open(&test, &bucket, "in");
    let mut changes = node.session.changes();
    assert_eq!(node.ino(lookup(inside, "file")), own);
    let made = node.ino(NameOp::Make {
        parent: inside,
        name: "deep".to_owned().into(),
        what: Make::Directory,
        owner: by_root(0o755),
    });
    node.ino(NameOp::Make { parent: made, name: "a".to_owned().into(), what: Make::File, owner: by_root(0o644) });
    volume
        .rename(Rename {
            from_parent: inside,
            from_name: "file".into(),
            to_parent: outside,
            to_name: "secret name".into(),
            mode: RenameMode::Replace,
        })
        .unwrap();
    let read = ContentOp::Read { ino: own, offset: 0, len: 10 };
    assert!(matches!(node.call(read), Ok(Reply::Data(content)) if &content[..] == b"content"), "as an open file");
    let heard = changes.next().unwrap();
    changes.acknowledge();
    assert!(heard.contains(&Change::Entry { parent: inside, name: "file".into() }), "{heard:?}");
    let names = heard.iter().filter(|change| matches!(change, Change::Entry { parent, .. } if *parent != inside));
    assert_eq!(names.count(), 0, "{heard:?}");
    // After a restart the store does not know what it handed out, and finds it by its place.
    drop((node, changes, volume));
    let test = test.killed(&[]);
    let mut node = Hostile { session: test.store.remote_session(ID).unwrap(), sequence: 10 };
    assert!(node.call(AttributeOp::Attr { ino: made }).is_ok());
    assert!(matches!(node.call(AttributeOp::Attr { ino: outside }), Err(Error::Posix(Posix::Stale))));
    test.store.end_remote(ID).unwrap();
}
