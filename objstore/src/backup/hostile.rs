//! Malformed backup repositories: each is refused with a message before anything of it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;

use super::chunks::Reader;
use super::folder::Folder;
use super::format::{BlobEntry, Chunk, Entry, Grant, Piece};
use super::fuzzed::{Given, fill};
use super::{Backup, Progress, ProgressSink, create, newest, restore};
use crate::error::Result;
use crate::record::key::tag;
use crate::record::settings::Settings;
use crate::store::GRANTS_MAX;
use crate::tests::test_store::*;
use crate::volume::ROOT_INO;

fn quiet() -> ProgressSink {
    Arc::new(|_: Progress| Ok(()))
}

/// A backup of the test bucket `jar`, decomposed, with its content as one chunk.
fn taken_apart(test: &TestStore) -> Given {
    let dir = tempfile::tempdir().unwrap();
    let folder = Arc::new(Folder::for_writing(dir.path()).unwrap());
    test.run(create(&test.store, &name("jar"), &folder, &quiet())).unwrap();
    let mut manifest = folder.manifest("jar", &newest(&folder, "jar").unwrap()).unwrap();
    let (chunks_of_blobs, chunks_of_records) = (manifest.blobs.split_off(0), manifest.records.split_off(0));
    let mut given = Given { manifest: Some(manifest), ..Given::default() };
    let mut records = Reader::new(&folder, &chunks_of_records);
    given.records.extend(std::iter::from_fn(|| records.next::<Entry>().unwrap()));
    let (mut blobs, mut offsets) = (Reader::new(&folder, &chunks_of_blobs), BTreeMap::new());
    while let Some(mut blob) = blobs.next::<BlobEntry>().unwrap() {
        for piece in blob.pieces.iter_mut().filter(|piece| !piece.hash.is_empty()) {
            piece.offset += *offsets.entry(piece.hash.clone()).or_insert_with(|| {
                let end = given.content.len() as u64;
                given.content.extend(folder.content(&piece.hash).unwrap());
                end
            });
        }
        given.blobs.push(blob);
    }
    given
}

fn bring_back(test: &TestStore, given: Given) -> Result<Backup> {
    let dir = tempfile::tempdir().unwrap();
    let folder = Arc::new(Folder::for_writing(dir.path()).unwrap());
    fill(&folder, dir.path(), given).unwrap();
    test.run(restore(&test.store, &folder, ("jar", "id"), &name("again"), &quiet()))
}

/// A word of the expected error, and the damage to the repository.
type Odd = (&'static str, fn(&mut Given));

const ODD: [Odd; 25] = [
    ("bytes they count", |given| given.blobs[0].length = u64::MAX),
    ("bytes they count", |given| given.blobs[0].length += 1),
    ("bytes they count", |given| {
        let hole = Piece { hash: Vec::new(), offset: 0, length: u64::MAX / 2 };
        given.blobs[0].pieces.extend([hole.clone(), hole.clone(), hole]);
    }),
    ("bytes they count", |given| given.blobs[0].pieces[0].hash.clear()),
    ("rising id", |given| given.blobs.push(given.blobs[0].clone())),
    ("in their order", |given| given.records.push(given.records[0].clone())),
    ("in their order", |given| given.records.reverse()),
    ("records of a bucket", |given| given.records[0].kind = u32::from(tag::BLOB)),
    ("records of a bucket", |given| given.records[0].kind += 0x100),
    ("an inode of a backup", |given| given.records[0].value = vec![0xff; 9]),
    ("can have", |given| given.records[0].key.truncate(7)),
    ("can have", |given| given.records[0].key.push(0)),
    ("can have", |given| given.records[0].key.fill(0)),
    ("can have", |given| manifest(given).next_ino = 2),
    ("can have", |given| name_of_first(given, b"../../etc/passwd\0")),
    ("can have", |given| name_of_first(given, b"without an end")),
    ("the next inode", |given| manifest(given).next_ino = u64::MAX),
    ("the next inode", |given| manifest(given).next_version = 0),
    ("settings of a backup", |given| manifest(given).settings = vec![0xff; 9]),
    ("10000 grants", |given| manifest(given).grants = vec![Grant::default(); GRANTS_MAX as usize + 1]),
    ("bucket name", |given| manifest(given).bucket = "../jar".into()),
    ("10000 accounts in the policy", |given| {
        let policy_accounts = (0..=GRANTS_MAX).map(|at| (format!("account-{at}"), at)).collect();
        manifest(given).settings = Settings { policy_accounts, ..Settings::default() }.encode_to_vec();
    }),
    ("files it counts", |given| manifest(given).objects += 1),
    ("files it counts", |given| manifest(given).bytes -= 1),
    ("blobs it refers to", |given| drop(given.blobs.pop())),
];

fn manifest(given: &mut Given) -> &mut super::format::Manifest {
    given.manifest.as_mut().unwrap()
}

fn name_of_first(given: &mut Given, name: &[u8]) {
    let mut names = given.records.iter_mut().filter(|record| record.kind == u32::from(tag::DIRENT));
    names.next().unwrap().key.splice(8.., name.iter().copied());
}

#[test]
fn what_no_store_writes_is_refused_and_nothing_of_it_is_left() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "a/packed", &[7; 5000]).unwrap();
    test.put(&bucket, "inline", b"small").unwrap();
    let volume = test.mount(&bucket);
    let sparse = volume.create(ROOT_INO, "sparse", by_root(0o600)).unwrap().ino;
    volume.write(sparse, 1 << 20, b"behind a hole", false).unwrap();
    volume.forget(sparse, 1);
    drop(volume);
    let good = taken_apart(&test);
    let (files, accounts) = (test.store.core.blobs.file_ids().unwrap(), test.store.accounts().unwrap());
    for (at, (said, change)) in ODD.iter().enumerate() {
        let mut odd = good.clone();
        change(&mut odd);
        let error = bring_back(&test, odd).unwrap_err().to_string();
        assert!(error.contains(said), "{at}: {error}");
    }
    let mut odd = good.clone();
    manifest(&mut odd).blobs.push(Chunk { hash: b"../../../etc/passwd".to_vec(), length: 1 });
    assert!(bring_back(&test, odd).unwrap_err().to_string().contains("none"), "names of files are hexadecimal");
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), files);
    assert_eq!(test.store.accounts().unwrap(), accounts);
    assert!(test.store.core.meta.snapshot().scan(&[tag::RESTORE], &[tag::RESTORE + 1], 1).unwrap().is_empty());
    bring_back(&test, good).unwrap();
    assert_eq!(test.get(&name("again"), "a/packed").unwrap(), [7; 5000]);
    assert_eq!(crate::tests::audit::faults(&test.store), Vec::<String>::new());
}
