//! Multipart uploads.

use super::rig::{Rig, find, key, md5};
use crate::error::{Error, Noun};
use crate::store::*;
use crate::volume::SetAttr;

const MIB: usize = 1 << 20;

#[test]
fn only_parts_named_in_order_become_the_object() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("parts");
    let upload = rig.begin_upload(&bucket, "k");
    let complete = |parts: &[(u32, &str)]| {
        rig.run(rig.store.complete_upload(CompleteUpload {
            upload: upload.clone(),
            parts: parts.iter().map(|(number, etag)| (*number, (*etag).to_owned())).collect(),
            condition: Condition::default(),
            checksums: Vec::new(),
        }))
    };
    let large = rig.put_part(&upload, 2, &vec![2; 5 * MIB]).unwrap();
    let small = rig.put_part(&upload, 5, b"end").unwrap();
    rig.put_part(&upload, 9, b"unnamed").unwrap();
    for number in [0, 10_001] {
        assert!(matches!(rig.put_part(&upload, number, b"x"), Err(Error::Invalid { what: "part number", .. })));
    }
    assert!(matches!(complete(&[]), Err(Error::Invalid { what: "part order", .. })));
    assert!(matches!(complete(&[(5, &small.etag), (2, &large.etag)]), Err(Error::Invalid { what: "part order", .. })));
    assert!(matches!(complete(&[(2, &small.etag)]), Err(Error::NotFound { noun: Noun::Part, .. })));
    assert!(matches!(complete(&[(3, &small.etag)]), Err(Error::NotFound { noun: Noun::Part, .. })));
    let small_first = complete(&[(5, &small.etag), (9, &md5(b"unnamed"))]);
    assert!(matches!(small_first, Err(Error::Invalid { what: "part size", .. })));
    let made = complete(&[(2, &large.etag), (5, &small.etag)]).unwrap();
    assert_eq!((made.size, made.parts), (5 * MIB as u64 + 3, Some(2)));
    assert!(made.etag.ends_with("-2"));
    assert_eq!(rig.get(&bucket, "k").unwrap(), [vec![2; 5 * MIB], b"end".to_vec()].concat());
    assert!(matches!(complete(&[(5, &small.etag)]), Err(Error::NotFound { noun: Noun::Upload, .. })));
    rig.audit_collected();
}

#[test]
fn parts_and_uploads_are_listed_in_pages() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("pages");
    let mut uploads: Vec<UploadRef> =
        ["a", "a", "b/x", "b/y", "c"].iter().map(|at| rig.begin_upload(&bucket, at)).collect();
    uploads.sort_by_key(|upload| (upload.key.to_string(), upload.id.clone()));
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
            let page = rig.store.uploads(&bucket, &asked, after.as_ref().map(|(_, id)| id.as_str())).unwrap();
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
        let page = rig.store.uploads(&bucket, &asked, after.as_ref().map(|(_, id)| id.as_str())).unwrap();
        found.extend(page.uploads.into_iter().map(|upload| upload.key).chain(page.prefixes));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, ["a", "a", "b/", "c"]);

    for number in [3, 1, 7] {
        rig.put_part(&uploads[0], number, b"x").unwrap();
    }
    let page = rig.store.parts(&uploads[0], 0, 2).unwrap();
    assert_eq!((page.parts.iter().map(|part| part.number).collect::<Vec<_>>(), page.next), (vec![1, 3], Some(3)));
    let page = rig.store.parts(&uploads[0], 3, 2).unwrap();
    assert_eq!((page.parts.iter().map(|part| part.number).collect::<Vec<_>>(), page.next), (vec![7], None));
}

fn copy_part(rig: &Rig, upload: &UploadRef, from: &str, range: Option<(u64, u64)>) -> crate::Result<PartInfo> {
    rig.run(rig.store.copy_part(CopyPart {
        upload: upload.clone(),
        number: 1,
        source_bucket: upload.bucket.clone(),
        source_key: key(from),
        source_version: None,
        source_condition: Condition::default(),
        range,
    }))
}

#[test]
fn a_part_can_be_a_range_of_any_object() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("ranges");
    let data: Vec<u8> = (0..300 << 10).map(|at: u32| (at / 7) as u8).collect();
    for (at, size) in [("inline", 1000), ("packed", 50 << 10), ("file", 300 << 10)] {
        rig.put(&bucket, at, &data[..size]).unwrap();
    }
    let volume = rig.mount(&bucket);
    let sparse = super::rig::make_file(&volume, volume.root(), "sparse").unwrap();
    volume.write(sparse, 0, &data[..100], false).unwrap();
    volume.set_attr(sparse, SetAttr { size: Some(30 << 10), ..SetAttr::default() }).unwrap();
    let holes = find(&volume, "file").unwrap();
    volume.set_attr(holes, SetAttr { size: Some(200 << 10), ..SetAttr::default() }).unwrap();
    volume.set_attr(holes, SetAttr { size: Some(300 << 10), ..SetAttr::default() }).unwrap();
    for at in ["inline", "packed", "file", "sparse"] {
        let whole = rig.get(&bucket, at).unwrap();
        for range in [None, Some((0, 1)), Some((50, 900)), Some((whole.len() as u64 - 1, 1)), Some((7, 0))] {
            let upload = rig.begin_upload(&bucket, "made");
            let part = copy_part(&rig, &upload, at, range).unwrap();
            let (offset, length) = range.unwrap_or((0, whole.len() as u64));
            let expected = &whole[offset as usize..(offset + length) as usize];
            assert_eq!((part.size, part.etag.clone()), (length, md5(expected)), "{at} {range:?}");
            rig.complete(&upload, &[&part]).unwrap();
            assert_eq!(rig.get(&bucket, "made").unwrap(), expected, "{at} {range:?}");
        }
        let upload = rig.begin_upload(&bucket, "made");
        let past = copy_part(&rig, &upload, at, Some((1, whole.len() as u64)));
        assert!(matches!(past, Err(Error::Invalid { .. })), "{at}");
        rig.run(rig.store.abort_upload(&upload)).unwrap();
    }
    volume.write(holes, 3, b"the part keeps what it was made of", false).unwrap();
    rig.audit_collected();
}

#[test]
fn an_upload_ends_with_its_bucket() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("gone");
    let upload = rig.begin_upload(&bucket, "k");
    rig.put_part(&upload, 1, &vec![1; MIB]).unwrap();
    rig.run(rig.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    rig.bucket("gone");
    assert!(matches!(rig.put_part(&upload, 1, b"x"), Err(Error::NotFound { noun: Noun::Upload, .. })));
    rig.audit_collected();
    assert_eq!(rig.store.core.blobs.file_ids().unwrap(), []);
}
