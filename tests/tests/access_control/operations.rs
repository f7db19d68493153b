//! Every S3 operation as every caller: allowed or refused as the table says, and refused ones change nothing.

use std::collections::BTreeSet;

use super::callers::{BUCKET, CALLERS, Caller, World, between};
use super::state;
use super::table::{Before, POLICY, Row, rows};
use crate::signatures::{Answer, Request};

#[test]
fn the_table_has_every_operation() {
    let ours: BTreeSet<&str> = rows().iter().map(|row| row.name).collect();
    let offered: BTreeSet<&str> = s3::operations().collect();
    assert_eq!(ours, offered, "tests/tests/access_control/table.rs has to have a row for each operation");
}

#[test]
fn every_operation_allows_exactly_the_permitted_callers() {
    check_operations(&World::new(), false, None);
}

/// SDKs name the operation in the URL, which may be another than the one that is requested.
#[test]
fn an_operation_named_in_the_url_allows_nobody() {
    for named in ["PutObject", "GetObject"] {
        check_operations(&World::new(), false, Some(named));
    }
}

/// A policy that applies to no caller, and one that applies to many until a past date, make every decision take another
/// path; the results must be the same.
#[test]
fn a_policy_that_applies_to_nobody_allows_nobody() {
    let world = World::new();
    world.must(Caller::Owner, &Request::new("PUT", format!("/{BUCKET}")).query("policy=").body(POLICY));
    check_operations(&world, true, None);
}

#[track_caller]
fn check_operations(world: &World, with_policy: bool, named: Option<&str>) {
    let mut wrong = Vec::new();
    let mut tried = 0;
    for row in rows() {
        let place = prepare(world, &row);
        let before = state::of(world, place.bucket.as_deref());
        let (allowed, refused): (Vec<Caller>, Vec<Caller>) =
            CALLERS.iter().partition(|caller| row.needs.met_by(**caller));
        for caller in refused {
            tried += 1;
            let answer = world.send(caller, &place.request(&row, named));
            if !is_refusal(&row, caller, &answer, with_policy) {
                wrong.push(format!("{} as {caller:?}: {answer}; expected {:?}", row.name, caller.refusal()));
            }
        }
        let after = state::of(world, place.bucket.as_deref());
        for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
            wrong.push(format!("{}: a refused request changed the state:\n{before}\n{after}", row.name));
        }
        for caller in allowed {
            tried += 1;
            let answer = world.send(caller, &prepare(world, &row).request(&row, named));
            if answer.status >= 300 && row.unset != Some(answer.code.as_str()) {
                wrong.push(format!("{} as {caller:?}: {answer}; it should be allowed", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried} went wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(tried, rows().len() * CALLERS.len());
}

fn is_refusal(row: &Row, caller: Caller, answer: &Answer, with_policy: bool) -> bool {
    let (status, code) = caller.refusal();
    if row.request.method == "HEAD" {
        return answer.status == status;
    }
    // With a policy each key is decided separately, so that the refusal is in the answer.
    let each = with_policy && row.name == "DeleteObjects" && answer.status == 200 && code == "AccessDenied";
    answer.code == code && (answer.status == status || each)
}

/// The values that are filled into a request.
#[derive(Default)]
struct Place {
    bucket: Option<String>,
    upload: String,
    etag: String,
}

impl Place {
    fn request(&self, row: &Row, named: Option<&str>) -> Request {
        let fill = |text: &str| {
            let bucket = self.bucket.as_deref().unwrap_or_default();
            text.replace("{bucket}", bucket).replace("{upload}", &self.upload).replace("{etag}", &self.etag)
        };
        let mut request = row.request.clone();
        request.path = fill(&request.path);
        request.query = fill(&request.query);
        if let Some(named) = named {
            let separator = if request.query.is_empty() { "" } else { "&" };
            request.query += &format!("{separator}x-id={named}");
        }
        request.body = fill(&String::from_utf8(request.body).expect("text")).into_bytes();
        request
    }
}

fn prepare(world: &World, row: &Row) -> Place {
    match row.before {
        Before::Nothing => Place::default(),
        Before::Name => Place { bucket: Some(fresh("made")), ..Place::default() },
        Before::Bucket => {
            let bucket = fresh("doomed");
            world.must(Caller::Owner, &Request::new("PUT", format!("/{bucket}")));
            world.grant(&bucket);
            Place { bucket: Some(bucket), ..Place::default() }
        }
        Before::Upload | Before::Part => {
            let path = format!("/{BUCKET}/mpu");
            let begun = world.must(Caller::Root, &Request::new("POST", path.clone()).query("uploads="));
            let upload = between(&begun.text, "<UploadId>", "</UploadId>").to_owned();
            let mut etag = String::new();
            if row.before == Before::Part {
                let query = format!("partNumber=1&uploadId={upload}");
                let put = world.must(Caller::Root, &Request::new("PUT", path).query(&query).body("part"));
                etag = between(&put.text.to_lowercase(), "etag: \"", "\"").to_owned();
            }
            Place { bucket: None, upload, etag }
        }
    }
}

fn fresh(name: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
