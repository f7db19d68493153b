//! Multipart uploads.

use std::sync::Arc;

use super::test_store::{Later, TestStore, bucket_request, find, key, md5, name};
use crate::error::{Error, Noun};
use crate::name::BucketName;
use crate::store::*;
use crate::volume::SetAttr;

const MIB: usize = 1 << 20;

#[test]
fn only_parts_named_in_order_become_the_object() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("parts");
    let upload = test.begin_upload(&bucket, "k");
    let complete = |parts: &[(u32, &str)]| {
        test.run(test.store.complete_upload(CompleteUpload {
            upload: upload.clone(),
            parts: parts.iter().map(|(number, etag)| (*number, (*etag).to_owned())).collect(),
            condition: Condition::default(),
            checksums: Vec::new(),
        }))
    };
    let large = test.put_part(&upload, 2, &vec![2; 5 * MIB]).unwrap();
    let small = test.put_part(&upload, 5, b"end").unwrap();
    test.put_part(&upload, 9, b"unnamed").unwrap();
    for number in [0, 10_001] {
        assert!(matches!(test.put_part(&upload, number, b"x"), Err(Error::Invalid { what: "part number", .. })));
    }
    assert!(matches!(complete(&[]), Err(Error::Invalid { what: "part order", .. })));
    assert!(matches!(complete(&[(5, &small.etag), (2, &large.etag)]), Err(Error::Invalid { what: "part order", .. })));
    assert!(matches!(complete(&[(2, &small.etag)]), Err(Error::NotFound { noun: Noun::Part, .. })));
    assert!(matches!(complete(&[(3, &small.etag)]), Err(Error::NotFound { noun: Noun::Part, .. })));
    let small_first = complete(&[(5, &small.etag), (9, &md5(b"unnamed"))]);
    assert!(matches!(small_first, Err(Error::Invalid { what: "part size", .. })));
    let made = complete(&[(2, &large.etag), (5, &small.etag)]).unwrap();
    assert_eq!((made.size, made.parts), (5 * MIB as u64 + 3, 2));
    assert!(made.etag.ends_with("-2"));
    assert_eq!(test.get(&bucket, "k").unwrap(), [vec![2; 5 * MIB], b"end".to_vec()].concat());
    assert!(matches!(complete(&[(5, &small.etag)]), Err(Error::NotFound { noun: Noun::Upload, .. })));
    test.audit_collected();
}

#[test]
fn parts_and_uploads_are_listed_in_pages() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("pages");
    let mut uploads: Vec<UploadRef> =
        ["a", "a", "b/x", "b/y", "c"].iter().map(|at| test.begin_upload(&bucket, at)).collect();
    // By key, then by the time they were begun: which is the order they were begun in here.
    uploads.sort_by_key(|upload| upload.key.to_string());
    let list = |after: Option<&str>, delimiter: Option<&str>, limit| List {
        prefix: String::new(),
        delimiter: delimiter.map(str::to_owned),
        after: after.map(str::to_owned),
        limit,
    };
    for limit in 1..6 {
        let (mut found, mut after) = (Vec::new(), None::<(String, String)>);
        loop {
            let asked = list(after.as_ref().map(|(key, _)| key.as_str()), None, limit);
            let page = test.store.uploads(&bucket, &asked, after.as_ref().map(|(_, id)| id.as_str())).unwrap();
            assert!(page.uploads.len() <= limit);
            found.extend(page.uploads.into_iter().map(|upload| upload.id));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, uploads.iter().map(|upload| upload.id.clone()).collect::<Vec<_>>(), "{limit}");
    }
    let (mut found, mut after) = (Vec::new(), None::<(String, String)>);
    loop {
        let asked = list(after.as_ref().map(|(key, _)| key.as_str()), Some("/"), 1);
        let page = test.store.uploads(&bucket, &asked, after.as_ref().map(|(_, id)| id.as_str())).unwrap();
        found.extend(page.uploads.into_iter().map(|upload| upload.key).chain(page.prefixes));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, ["a", "a", "b/", "c"]);

    for number in [3, 1, 7] {
        test.put_part(&uploads[0], number, b"x").unwrap();
    }
    let page = test.store.parts(&uploads[0], 0, 2).unwrap();
    assert_eq!((page.parts.iter().map(|part| part.number).collect::<Vec<_>>(), page.next), (vec![1, 3], Some(3)));
    let page = test.store.parts(&uploads[0], 3, 2).unwrap();
    assert_eq!((page.parts.iter().map(|part| part.number).collect::<Vec<_>>(), page.next), (vec![7], None));
}

/// MD5 alone.
struct Md5Only(md5::Md5);

impl PartHash for Md5Only {
    fn update(&mut self, data: &[u8]) {
        md5::Digest::update(&mut self.0, data);
    }

    fn finish(self: Box<Self>) -> (String, Vec<Checksum>) {
        let sum = md5::Digest::finalize(self.0);
        let proved = Checksum { algorithm: "SHA1".into(), value: "proved while it was read".into() };
        (hex_simd::encode_to_string(sum, hex_simd::AsciiCase::Lower), vec![proved])
    }
}

fn copy_part(test: &TestStore, upload: &UploadRef, from: &str, range: Option<(u64, u64)>) -> crate::Result<PartInfo> {
    let request = CopyPart {
        upload: upload.clone(),
        number: 1,
        source_bucket: upload.bucket.clone(),
        source_key: key(from),
        source_version: None,
        source_condition: Condition::default(),
        range,
    };
    test.run(test.store.copy_part(request, Box::new(Md5Only(Default::default()))))
}

#[test]
fn a_part_can_be_a_range_of_any_object() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("ranges");
    let data: Vec<u8> = (0..300 << 10).map(|at: u32| (at / 7) as u8).collect();
    for (at, size) in [("inline", 1000), ("packed", 50 << 10), ("file", 300 << 10)] {
        test.put(&bucket, at, &data[..size]).unwrap();
    }
    let volume = test.mount(&bucket);
    let sparse = super::test_store::make_file(&volume, volume.root(), "sparse").unwrap();
    volume.write(sparse, 0, &data[..100], false).unwrap();
    volume.set_attr(sparse, SetAttr { size: Some(30 << 10), ..SetAttr::default() }).unwrap();
    let holes = find(&volume, "file").unwrap();
    volume.set_attr(holes, SetAttr { size: Some(200 << 10), ..SetAttr::default() }).unwrap();
    volume.set_attr(holes, SetAttr { size: Some(300 << 10), ..SetAttr::default() }).unwrap();
    for at in ["inline", "packed", "file", "sparse"] {
        let whole = test.get(&bucket, at).unwrap();
        for range in [None, Some((0, 1)), Some((50, 900)), Some((whole.len() as u64 - 1, 1)), Some((7, 0))] {
            let upload = test.begin_upload(&bucket, "made");
            let part = copy_part(&test, &upload, at, range).unwrap();
            let (offset, length) = range.unwrap_or((0, whole.len() as u64));
            let expected = &whole[offset as usize..(offset + length) as usize];
            assert_eq!((part.size, part.etag.clone()), (length, md5(expected)), "{at} {range:?}");
            assert_eq!(part.checksums.len(), 1, "{at} {range:?}");
            test.complete(&upload, &[&part]).unwrap();
            assert_eq!(test.get(&bucket, "made").unwrap(), expected, "{at} {range:?}");
        }
        let upload = test.begin_upload(&bucket, "made");
        let past = copy_part(&test, &upload, at, Some((1, whole.len() as u64)));
        assert!(matches!(past, Err(Error::Invalid { .. })), "{at}");
        test.run(test.store.abort_upload(&upload)).unwrap();
    }
    volume.write(holes, 3, b"the part keeps what it was made of", false).unwrap();
    test.audit_collected();
}

#[test]
fn an_upload_ends_with_its_bucket() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("gone");
    let upload = test.begin_upload(&bucket, "k");
    test.put_part(&upload, 1, &vec![1; MIB]).unwrap();
    test.run(test.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    test.bucket("gone");
    assert!(matches!(test.put_part(&upload, 1, b"x"), Err(Error::NotFound { noun: Noun::Upload, .. })));
    test.audit_collected();
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), []);
}

fn parts_of(test: &TestStore, bucket: &BucketName, at: &str) -> Vec<(u32, u64, u64)> {
    let (_, reader) = test.store.open_object(bucket, &key(at), None).unwrap();
    reader.parts().unwrap().into_iter().map(|part| (part.number, part.offset, part.size)).collect()
}

/// Uploads an object of two parts, numbered 3 and 7.
fn upload_two(test: &TestStore, bucket: &BucketName, at: &str) -> CompletedUpload {
    let upload = test.begin_upload(bucket, at);
    let first = test.put_part(&upload, 3, &vec![3; 5 * MIB]).unwrap();
    let last = test.put_part(&upload, 7, b"end").unwrap();
    test.complete(&upload, &[&first, &last]).unwrap()
}

#[test]
fn an_object_knows_its_parts_until_its_content_changes() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("known");
    let five = 5 * MIB as u64;
    let parts = [(3, 0, five), (7, five, 3)];
    for at in ["file", "dir/marker/", "replaced", "deleted"] {
        upload_two(&test, &bucket, at);
        assert_eq!(parts_of(&test, &bucket, at), parts, "{at}");
    }
    test.audit();
    let monday = test.snapshot(&bucket, "monday");
    let clone = test.clone_of(Source::Snapshot("monday".into()), "clone");

    test.put(&bucket, "replaced", b"whole").unwrap();
    test.delete(&bucket, "deleted").unwrap();
    let copied = test.copy((&bucket, "file"), (&bucket, "copy")).unwrap();
    assert_eq!((copied.parts, parts_of(&test, &bucket, "copy")), (None, vec![]));
    let volume = test.mount(&bucket);
    volume.write(find(&volume, "file").unwrap(), 1, b"x", false).unwrap();
    assert_eq!(parts_of(&test, &bucket, "file"), []);
    upload_two(&test, &bucket, "dir/marker/");
    test.delete(&clone, "dir/marker/").unwrap();
    test.put(&clone, "dir/marker/", b"").unwrap();
    for at in ["file", "replaced", "deleted"] {
        assert_eq!(parts_of(&test, &monday, at), parts, "{at}");
        assert_eq!(parts_of(&test, &clone, at), parts, "{at}");
    }
    assert_eq!(parts_of(&test, &clone, "dir/marker/"), []);
    assert_eq!(parts_of(&test, &bucket, "dir/marker/"), parts);
    drop(volume);
    test.audit_collected();
    test.run(test.store.delete_snapshot("monday")).unwrap();
    test.run(test.store.delete_bucket(&clone, Deletion::Force)).unwrap();
    test.run(test.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    test.audit_collected();
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), []);
}

#[test]
fn a_completion_asked_for_again_gets_the_same_answer() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("again");
    let upload = test.begin_upload(&bucket, "k");
    let part = test.put_part(&upload, 1, b"one").unwrap();
    let first = test.complete(&upload, &[&part]).unwrap();
    // Whatever became of the object, and after a restart.
    test.put(&bucket, "k", b"another").unwrap();
    let test = test.reopen();
    assert_eq!(test.complete(&upload, &[&part]).unwrap(), first);
    assert_eq!(test.get(&bucket, "k").unwrap(), b"another");
    let condition = Condition { if_none_match: Some(EntityTags::Any), ..Condition::default() };
    let again = CompleteUpload {
        upload: upload.clone(),
        parts: vec![(1, part.etag.clone())],
        condition,
        checksums: Vec::new(),
    };
    assert_eq!(test.run(test.store.complete_upload(again)).unwrap(), first);
    let gone = |error: crate::Error| matches!(error, Error::NotFound { noun: Noun::Upload, .. });
    let other = PartInfo { number: 2, ..part.clone() };
    assert!(test.complete(&upload, &[&other]).is_err_and(gone));
    assert!(test.put_part(&upload, 1, b"late").is_err_and(gone));
    assert!(test.run(test.store.abort_upload(&upload)).is_err_and(gone));
    test.run(test.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    test.bucket("again");
    assert!(test.complete(&upload, &[&part]).is_err_and(gone));
    test.audit_collected();
}

#[test]
fn completions_are_forgotten_after_a_day() {
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let clock = Arc::new(Later::default());
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("day");
    let upload = test.begin_upload(&bucket, "k");
    let part = test.put_part(&upload, 1, b"one").unwrap();
    test.complete(&upload, &[&part]).unwrap();
    clock.advance(day - std::time::Duration::from_secs(60));
    test.collect();
    test.complete(&upload, &[&part]).unwrap();
    clock.advance(std::time::Duration::from_secs(3600));
    test.collect();
    let gone = test.complete(&upload, &[&part]);
    assert!(matches!(gone, Err(Error::NotFound { noun: Noun::Upload, .. })));
    test.audit_collected();
}

#[test]
fn a_part_that_comes_after_the_abort_leaves_nothing() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("late");
    let upload = test.begin_upload(&bucket, "k");
    test.put_part(&upload, 1, &vec![1; MIB]).unwrap();
    // Staged, as a body that was received while the upload was aborted.
    for size in [100, 50 << 10, MIB] {
        let content = test.run(test.store.stage(vec![2; size].into())).unwrap();
        let _ = test.run(test.store.abort_upload(&upload));
        let put = PutPart { upload: upload.clone(), number: 1, content, etag: "x".into(), checksums: Vec::new() };
        let late = test.run(test.store.put_part(put));
        assert!(matches!(late, Err(Error::NotFound { noun: Noun::Upload, .. })));
    }
    test.audit_collected();
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), []);
    assert_eq!(test.store.usage(&bucket).unwrap().upload_bytes, 0);
}

#[test]
fn a_crash_leaves_an_upload_whole_or_completed() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("crash");
    let upload = test.begin_upload(&bucket, "k");
    let first = test.put_part(&upload, 1, &vec![1; 5 * MIB]).unwrap();
    let last = test.put_part(&upload, 2, b"end").unwrap();
    test.put_part(&upload, 3, &vec![3; MIB]).unwrap();
    let before = test.folder_copy();
    let made = test.complete(&upload, &[&first, &last]).unwrap();
    let after = test.folder_copy();
    drop(test);

    let again = TestStore::at(before).unwrap();
    assert!(again.get(&bucket, "k").is_err());
    again.audit_collected();
    assert_eq!(again.complete(&upload, &[&first, &last]).unwrap().etag, made.etag);
    again.audit_collected();
    let again = TestStore::at(after).unwrap();
    assert_eq!(again.get(&bucket, "k").unwrap().len(), 5 * MIB + 3);
    assert_eq!(again.complete(&upload, &[&first, &last]).unwrap(), made);
    again.audit_collected();
}

#[test]
fn what_an_upload_takes_is_held_against_the_quota_once() {
    let test = TestStore::in_memory();
    let quota = CreateBucket { quota_bytes: Some(11 * MIB as u64), ..bucket_request("full") };
    test.run(test.store.create_bucket(quota)).unwrap();
    let bucket = name("full");
    let upload = test.begin_upload(&bucket, "k");
    let first = test.put_part(&upload, 1, &vec![1; 5 * MIB]).unwrap();
    let last = test.put_part(&upload, 2, &vec![2; 5 * MIB]).unwrap();
    test.put_part(&upload, 3, &vec![3; MIB]).unwrap();
    assert!(matches!(test.put_part(&upload, 4, b"x"), Err(Error::QuotaExceeded { .. })));
    test.put_part(&upload, 3, &vec![4; MIB]).unwrap();
    test.complete(&upload, &[&first, &last]).unwrap();
    let usage = test.store.usage(&bucket).unwrap();
    assert_eq!((usage.bytes, usage.upload_bytes), (10 * MIB as u64, 0));
    test.audit_collected();
}

#[test]
fn a_page_of_uploads_reads_in_proportion_to_what_it_shows() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("many");
    for at in 0..300 {
        test.begin_upload(&bucket, &format!("a/{at:03}"));
    }
    test.begin_upload(&bucket, "b");
    let list = |after: Option<&str>, limit| List {
        delimiter: Some("/".into()),
        after: after.map(str::to_owned),
        limit,
        ..List::default()
    };
    let page = test.store.uploads(&bucket, &list(None, 10), None).unwrap();
    assert_eq!((page.prefixes.as_slice(), page.uploads.len(), page.next), (["a/".to_owned()].as_slice(), 1, None));
    let page = test.store.uploads(&bucket, &list(Some("a/299"), 10), None).unwrap();
    assert_eq!((page.prefixes.len(), page.uploads.len()), (0, 1));
    let page = test.store.uploads(&bucket, &List { prefix: "a/29".into(), limit: 3, ..List::default() }, None).unwrap();
    let keys: Vec<&str> = page.uploads.iter().map(|upload| upload.key.as_str()).collect();
    assert_eq!((keys, page.next.map(|(key, _)| key)), (vec!["a/290", "a/291", "a/292"], Some("a/292".into())));
}
