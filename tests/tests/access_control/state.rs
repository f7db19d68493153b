//! The state that a refused request must not change: content of the buckets, their settings, and uploads in progress.

use super::callers::{BUCKET, Caller, FOREIGN_BUCKET, World};
use crate::signatures::Request;

const OF_BUCKETS: [&str; 11] = [
    "versions=",
    "uploads=",
    "versioning=",
    "tagging=",
    "cors=",
    "lifecycle=",
    "policy=",
    "publicAccessBlock=",
    "ownershipControls=",
    "object-lock=",
    "acl=",
];
const OF_OBJECTS: [(&str, &str); 5] =
    [("k", "tagging="), ("k", "retention="), ("held", "tagging="), ("held", "retention="), ("held", "legal-hold=")];

/// The state of `vessel`, the foreign bucket and `more`, and the list of buckets.
pub fn of(world: &World, more: Option<&str>) -> Vec<String> {
    let mut state = vec![answer_to_root(world, "/", "")];
    for query in OF_BUCKETS {
        state.push(answer_to_root(world, &format!("/{BUCKET}"), query));
    }
    for (key, query) in OF_OBJECTS {
        state.push(answer_to_root(world, &format!("/{BUCKET}/{key}"), query));
    }
    for bucket in [Some(FOREIGN_BUCKET), more].into_iter().flatten() {
        for query in &OF_BUCKETS[..2] {
            state.push(answer_to_root(world, &format!("/{bucket}"), query));
        }
    }
    state
}

/// The answer to root, without the parts that differ between two equivalent answers.
fn answer_to_root(world: &World, path: &str, query: &str) -> String {
    let answer = world.send(Caller::Root, &Request::new("GET", path).query(query));
    let body = answer.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    match answer.code.as_str() {
        "" => format!("{path}?{query}: {body}"),
        code => format!("{path}?{query}: {code}"),
    }
}
