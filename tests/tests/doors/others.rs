//! References to other accounts' resources in requests on one's own bucket: sources of copies, uploads and versions.

use super::state;
use super::who::{BUCKET, FOREIGN_BUCKET, FOREIGN_SNAPSHOT, SNAPSHOT, Who, World, between};
use crate::signatures::Request;

const DENIED: (u16, &str) = (403, "AccessDenied");

/// Makes requests that must be refused, and compares the state before and after.
#[track_caller]
fn refused(world: &World, cases: &[(Who, Request, (u16, &str))]) {
    let before = state::of(world, None);
    let mut wrong = Vec::new();
    for (who, request, expected) in cases {
        let answer = world.send(*who, request);
        if (answer.status, answer.code.as_str()) != *expected {
            let Request { method, path, query, headers, .. } = request;
            wrong.push(format!("{who:?} {method} {path}?{query} {headers:?}: {answer}; expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(state::of(world, None), before);
}

fn begin(world: &World, who: Who, path: &str) -> String {
    let begun = world.must(who, &Request::new("POST", path).query("uploads="));
    between(&begun.text, "<UploadId>", "</UploadId>").to_owned()
}

/// The id of the version that a put creates.
fn version(world: &World, who: Who, path: &str) -> String {
    let put = world.must(who, &Request::new("PUT", path).body("a version"));
    let head = put.text.lines().find_map(|line| line.strip_prefix("x-amz-version-id: "));
    head.expect("the bucket keeps versions").trim().to_owned()
}

#[test]
fn copies_read_only_what_their_maker_may_read() {
    let world = World::new();
    let upload = begin(&world, Who::Both, &format!("/{BUCKET}/mpu"));
    let own = begin(&world, Who::Foreign, &format!("/{FOREIGN_BUCKET}/mpu"));
    let mut cases = Vec::new();
    let mut copy = |who, bucket: &str, upload: &str, source: &str, expected| {
        let object = Request::new("PUT", format!("/{bucket}/stolen")).header("x-amz-copy-source", source);
        let part = Request::new("PUT", format!("/{bucket}/mpu")).query(&format!("partNumber=1&uploadId={upload}"));
        cases.push((who, object, expected));
        cases.push((who, part.header("x-amz-copy-source", source), expected));
    };
    let no_bucket = (404, "NoSuchBucket");
    for (source, expected) in [
        (format!("/{FOREIGN_BUCKET}/secret"), DENIED),
        (format!("{FOREIGN_BUCKET}/secret"), DENIED),
        (format!("/{FOREIGN_BUCKET}/%73ecret"), DENIED),
        (format!("/{FOREIGN_BUCKET}/secret?versionId=null"), DENIED),
        // The answer does not show either whether a key exists.
        (format!("/{FOREIGN_BUCKET}/absent"), DENIED),
        (format!("/{FOREIGN_SNAPSHOT}/secret"), DENIED),
        ("/no-such-bucket/secret".to_owned(), no_bucket),
    ] {
        copy(Who::Both, BUCKET, &upload, &source, expected);
        copy(Who::Writer, BUCKET, &upload, &source, expected);
    }
    for source in [format!("/{BUCKET}/k"), format!("/{SNAPSHOT}/k"), format!("/{BUCKET}/absent")] {
        copy(Who::Foreign, FOREIGN_BUCKET, &own, &source, DENIED);
        copy(Who::Writer, BUCKET, &upload, &source, DENIED);
        copy(Who::Ungranted, BUCKET, &upload, &source, DENIED);
    }
    refused(&world, &cases);
    let allowed = Request::new("PUT", format!("/{BUCKET}/mine")).header("x-amz-copy-source", format!("/{SNAPSHOT}/k"));
    world.must(Who::Both, &allowed);
}

#[test]
fn an_upload_belongs_to_its_bucket_and_key() {
    let world = World::new();
    let here = begin(&world, Who::Both, &format!("/{BUCKET}/mpu"));
    let foreign = begin(&world, Who::Foreign, &format!("/{FOREIGN_BUCKET}/mpu"));
    let no_upload = (404, "NoSuchUpload");
    let complete = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"0\"</ETag></Part>\
                    </CompleteMultipartUpload>";
    let mut cases = Vec::new();
    for (who, path, upload, expected) in [
        (Who::Both, format!("/{BUCKET}/mpu"), &foreign, no_upload),
        (Who::Both, format!("/{BUCKET}/stolen"), &here, no_upload),
        (Who::Foreign, format!("/{FOREIGN_BUCKET}/mpu"), &here, no_upload),
        (Who::Foreign, format!("/{BUCKET}/mpu"), &here, DENIED),
        (Who::Both, format!("/{FOREIGN_BUCKET}/mpu"), &foreign, DENIED),
        (Who::Both, format!("/{SNAPSHOT}/mpu"), &here, DENIED),
    ] {
        let query = format!("uploadId={upload}");
        let part = format!("partNumber=1&{query}");
        let source = if who == Who::Both { format!("/{BUCKET}/k") } else { format!("/{FOREIGN_BUCKET}/secret") };
        cases.extend([
            (who, Request::new("PUT", path.clone()).query(&part).body("part"), expected),
            (who, Request::new("PUT", path.clone()).query(&part).header("x-amz-copy-source", source), expected),
            (who, Request::new("POST", path.clone()).query(&query).body(complete), expected),
            (who, Request::new("DELETE", path.clone()).query(&query), expected),
        ]);
        // A snapshot has no uploads to list, and callers that may read it may learn that.
        if path != format!("/{SNAPSHOT}/mpu") {
            cases.push((who, Request::new("GET", path).query(&query), expected));
        }
    }
    refused(&world, &cases);
}

#[test]
fn a_version_belongs_to_its_key() {
    let world = World::new();
    let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let versioning = Request::new("PUT", format!("/{FOREIGN_BUCKET}")).query("versioning=").body(enabled);
    world.must(Who::Foreign, &versioning);
    let here = version(&world, Who::Both, &format!("/{BUCKET}/k"));
    let foreign = version(&world, Who::Foreign, &format!("/{FOREIGN_BUCKET}/secret"));
    let no_version = (404, "NoSuchVersion");
    let mut cases = Vec::new();
    for (who, path, version, expected) in [
        (Who::Both, format!("/{BUCKET}/k"), &foreign, no_version),
        (Who::Both, format!("/{BUCKET}/other"), &here, no_version),
        (Who::Both, format!("/{FOREIGN_BUCKET}/secret"), &foreign, DENIED),
        (Who::Foreign, format!("/{BUCKET}/k"), &here, DENIED),
        (Who::Writer, format!("/{BUCKET}/k"), &here, DENIED),
    ] {
        let query = format!("versionId={version}");
        cases.push((who, Request::new("GET", path.clone()).query(&query), expected));
        cases.push((who, Request::new("GET", path.clone()).query(&format!("tagging=&{query}")), expected));
        let target = if who == Who::Foreign { FOREIGN_BUCKET } else { BUCKET };
        let copy = Request::new("PUT", format!("/{target}/stolen"));
        cases.push((who, copy.header("x-amz-copy-source", format!("{path}?{query}")), expected));
    }
    refused(&world, &cases);
    // Deleting a version that the key does not have succeeds, and deletes nothing (S3 API, DeleteObject).
    let before = state::of(&world, None);
    for (path, version) in [(format!("/{BUCKET}/k"), &foreign), (format!("/{BUCKET}/other"), &here)] {
        world.must(Who::Both, &Request::new("DELETE", path).query(&format!("versionId={version}")));
    }
    assert_eq!(state::of(&world, None), before);
}

#[test]
fn snapshots_are_read_by_those_who_read_their_bucket_and_changed_by_nobody() {
    let world = World::new();
    let get = || Request::new("GET", format!("/{SNAPSHOT}/k"));
    let put = || Request::new("PUT", format!("/{SNAPSHOT}/k")).body("changed");
    let delete = || Request::new("DELETE", format!("/{SNAPSHOT}/k"));
    for who in [Who::Root, Who::Owner, Who::Keeper, Who::Both, Who::Reader] {
        world.must(who, &get());
    }
    let mut cases = Vec::new();
    for who in [Who::Writer, Who::Foreign, Who::Ungranted, Who::Anonymous, Who::Expired] {
        cases.push((who, get(), DENIED));
    }
    for who in super::who::EVERYBODY {
        cases.extend([(who, put(), who.refusal()), (who, delete(), who.refusal())]);
    }
    refused(&world, &cases);
    assert!(world.must(Who::Root, &get()).text.ends_with("content of k"));
}

#[test]
fn a_list_of_buckets_shows_only_ones_own() {
    let world = World::new();
    for (who, here, foreign) in [
        (Who::Root, true, true),
        (Who::Owner, true, false),
        (Who::Reader, true, false),
        (Who::Writer, true, false),
        (Who::Foreign, false, true),
        (Who::Ungranted, false, false),
    ] {
        let told = world.must(who, &Request::new("GET", "/")).text;
        let shows = |bucket: &str| told.contains(&format!("<Name>{bucket}</Name>"));
        assert_eq!((shows(BUCKET), shows(FOREIGN_BUCKET)), (here, foreign), "{who:?}: {told}");
    }
}
