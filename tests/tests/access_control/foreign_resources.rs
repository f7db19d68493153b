//! References to other accounts' resources in requests on one's own bucket: sources of copies, uploads and versions.

use super::callers::{BUCKET, Caller, FOREIGN_BUCKET, FOREIGN_SNAPSHOT, SNAPSHOT, World, between};
use super::state;
use crate::signatures::Request;

const DENIED: (u16, &str) = (403, "AccessDenied");

/// Makes requests that must be refused, and compares the state before and after.
#[track_caller]
fn refused(world: &World, cases: &[(Caller, Request, (u16, &str))]) {
    let before = state::of(world, None);
    let mut wrong = Vec::new();
    for (caller, request, expected) in cases {
        let answer = world.send(*caller, request);
        if (answer.status, answer.code.as_str()) != *expected {
            let Request { method, path, query, headers, .. } = request;
            wrong.push(format!("{caller:?} {method} {path}?{query} {headers:?}: {answer}; expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(state::of(world, None), before);
}

fn begin(world: &World, caller: Caller, path: &str) -> String {
    let begun = world.must(caller, &Request::new("POST", path).query("uploads="));
    between(&begun.text, "<UploadId>", "</UploadId>").to_owned()
}

/// The id of the version that a put creates.
fn version(world: &World, caller: Caller, path: &str) -> String {
    let put = world.must(caller, &Request::new("PUT", path).body("a version"));
    let head = put.text.lines().find_map(|line| line.strip_prefix("x-amz-version-id: "));
    head.expect("the bucket keeps versions").trim().to_owned()
}

#[test]
fn copies_read_only_what_their_caller_may_read() {
    let world = World::new();
    let upload = begin(&world, Caller::Both, &format!("/{BUCKET}/mpu"));
    let own = begin(&world, Caller::Foreign, &format!("/{FOREIGN_BUCKET}/mpu"));
    let mut cases = Vec::new();
    let mut copy = |caller, bucket: &str, upload: &str, source: &str, expected| {
        let object = Request::new("PUT", format!("/{bucket}/stolen")).header("x-amz-copy-source", source);
        let part = Request::new("PUT", format!("/{bucket}/mpu")).query(&format!("partNumber=1&uploadId={upload}"));
        cases.push((caller, object, expected));
        cases.push((caller, part.header("x-amz-copy-source", source), expected));
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
        copy(Caller::Both, BUCKET, &upload, &source, expected);
        copy(Caller::Writer, BUCKET, &upload, &source, expected);
    }
    for source in [format!("/{BUCKET}/k"), format!("/{SNAPSHOT}/k"), format!("/{BUCKET}/absent")] {
        copy(Caller::Foreign, FOREIGN_BUCKET, &own, &source, DENIED);
        copy(Caller::Writer, BUCKET, &upload, &source, DENIED);
        copy(Caller::Ungranted, BUCKET, &upload, &source, DENIED);
    }
    refused(&world, &cases);
    let allowed = Request::new("PUT", format!("/{BUCKET}/mine")).header("x-amz-copy-source", format!("/{SNAPSHOT}/k"));
    world.must(Caller::Both, &allowed);
}

#[test]
fn an_upload_belongs_to_its_bucket_and_key() {
    let world = World::new();
    let here = begin(&world, Caller::Both, &format!("/{BUCKET}/mpu"));
    let foreign = begin(&world, Caller::Foreign, &format!("/{FOREIGN_BUCKET}/mpu"));
    let no_upload = (404, "NoSuchUpload");
    let complete = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"0\"</ETag></Part>\
                    </CompleteMultipartUpload>";
    let mut cases = Vec::new();
    for (caller, path, upload, expected) in [
        (Caller::Both, format!("/{BUCKET}/mpu"), &foreign, no_upload),
        (Caller::Both, format!("/{BUCKET}/stolen"), &here, no_upload),
        (Caller::Foreign, format!("/{FOREIGN_BUCKET}/mpu"), &here, no_upload),
        (Caller::Foreign, format!("/{BUCKET}/mpu"), &here, DENIED),
        (Caller::Both, format!("/{FOREIGN_BUCKET}/mpu"), &foreign, DENIED),
        (Caller::Both, format!("/{SNAPSHOT}/mpu"), &here, DENIED),
    ] {
        let query = format!("uploadId={upload}");
        let part = format!("partNumber=1&{query}");
        let source = if caller == Caller::Both { format!("/{BUCKET}/k") } else { format!("/{FOREIGN_BUCKET}/secret") };
        cases.extend([
            (caller, Request::new("PUT", path.clone()).query(&part).body("part"), expected),
            (caller, Request::new("PUT", path.clone()).query(&part).header("x-amz-copy-source", source), expected),
            (caller, Request::new("POST", path.clone()).query(&query).body(complete), expected),
            (caller, Request::new("DELETE", path.clone()).query(&query), expected),
        ]);
        // A snapshot has no uploads to list, and callers that may read it may learn that.
        if path != format!("/{SNAPSHOT}/mpu") {
            cases.push((caller, Request::new("GET", path).query(&query), expected));
        }
    }
    refused(&world, &cases);
}

#[test]
fn a_version_belongs_to_its_key() {
    let world = World::new();
    let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let versioning = Request::new("PUT", format!("/{FOREIGN_BUCKET}")).query("versioning=").body(enabled);
    world.must(Caller::Foreign, &versioning);
    let here = version(&world, Caller::Both, &format!("/{BUCKET}/k"));
    let foreign = version(&world, Caller::Foreign, &format!("/{FOREIGN_BUCKET}/secret"));
    let no_version = (404, "NoSuchVersion");
    let mut cases = Vec::new();
    for (caller, path, version, expected) in [
        (Caller::Both, format!("/{BUCKET}/k"), &foreign, no_version),
        (Caller::Both, format!("/{BUCKET}/other"), &here, no_version),
        (Caller::Both, format!("/{FOREIGN_BUCKET}/secret"), &foreign, DENIED),
        (Caller::Foreign, format!("/{BUCKET}/k"), &here, DENIED),
        (Caller::Writer, format!("/{BUCKET}/k"), &here, DENIED),
    ] {
        let query = format!("versionId={version}");
        cases.push((caller, Request::new("GET", path.clone()).query(&query), expected));
        cases.push((caller, Request::new("GET", path.clone()).query(&format!("tagging=&{query}")), expected));
        let target = if caller == Caller::Foreign { FOREIGN_BUCKET } else { BUCKET };
        let copy = Request::new("PUT", format!("/{target}/stolen"));
        cases.push((caller, copy.header("x-amz-copy-source", format!("{path}?{query}")), expected));
    }
    refused(&world, &cases);
    // Deleting a version that the key does not have succeeds, and deletes nothing (S3 API, DeleteObject).
    let before = state::of(&world, None);
    for (path, version) in [(format!("/{BUCKET}/k"), &foreign), (format!("/{BUCKET}/other"), &here)] {
        world.must(Caller::Both, &Request::new("DELETE", path).query(&format!("versionId={version}")));
    }
    assert_eq!(state::of(&world, None), before);
}

#[test]
fn snapshots_are_readable_like_their_bucket_and_never_change() {
    let world = World::new();
    let get = || Request::new("GET", format!("/{SNAPSHOT}/k"));
    let put = || Request::new("PUT", format!("/{SNAPSHOT}/k")).body("changed");
    let delete = || Request::new("DELETE", format!("/{SNAPSHOT}/k"));
    for caller in [Caller::Root, Caller::Owner, Caller::Keeper, Caller::Both, Caller::Reader] {
        world.must(caller, &get());
    }
    let mut cases = Vec::new();
    for caller in [Caller::Writer, Caller::Foreign, Caller::Ungranted, Caller::Anonymous, Caller::Expired] {
        cases.push((caller, get(), DENIED));
    }
    for caller in super::callers::CALLERS {
        cases.extend([(caller, put(), caller.refusal()), (caller, delete(), caller.refusal())]);
    }
    refused(&world, &cases);
    assert!(world.must(Caller::Root, &get()).text.ends_with("content of k"));
}

#[test]
fn a_list_of_buckets_shows_only_those_of_the_caller() {
    let world = World::new();
    for (caller, here, foreign) in [
        (Caller::Root, true, true),
        (Caller::Owner, true, false),
        (Caller::Reader, true, false),
        (Caller::Writer, true, false),
        (Caller::Foreign, false, true),
        (Caller::Ungranted, false, false),
    ] {
        let listed = world.must(caller, &Request::new("GET", "/")).text;
        let shows = |bucket: &str| listed.contains(&format!("<Name>{bucket}</Name>"));
        assert_eq!((shows(BUCKET), shows(FOREIGN_BUCKET)), (here, foreign), "{caller:?}: {listed}");
    }
}
