//! Stores whose metadata is in PostgreSQL and whose content is in S3, for tests that were written for any store.
//!
//! - A test process whose environment has `AMPHORA_TEST_METADATA`, `AMPHORA_TEST_CONTENT` and
//!   `AMPHORA_TEST_CONTENT_BUCKET` gives each server a database and a prefix of its own there.
//! - They are not removed: what runs the tests deletes the whole PostgreSQL and the whole S3 store.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::child;

/// The URL of a PostgreSQL's database `postgres`, at a Unix socket that lets this user in: `postgres:///postgres?user=U&host=DIR`.
pub const METADATA: &str = "AMPHORA_TEST_METADATA";
/// The endpoint of an S3 store; its key is in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
pub const CONTENT: &str = "AMPHORA_TEST_CONTENT";
/// A bucket there that may be filled.
pub const CONTENT_BUCKET: &str = "AMPHORA_TEST_CONTENT_BUCKET";

/// The variable that the server reads for the PostgreSQL of its metadata.
const METADATA_URL: &str = "AMPHORA_METADATA_URL";
const CONTENT_URL: &str = "AMPHORA_CONTENT_URL";
const CONTENT_ENDPOINT: &str = "AMPHORA_CONTENT_ENDPOINT";

const LIMIT: Duration = Duration::from_secs(60);

static LAST: AtomicU32 = AtomicU32::new(0);

/// The environment of a server of a new store there; empty where the tests use stores on this machine.
///
/// # Errors
/// If PostgreSQL makes no database.
pub(crate) fn environment() -> Result<Vec<(String, String)>, String> {
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(metadata), Some(endpoint), Some(bucket)) = (given(METADATA), given(CONTENT), given(CONTENT_BUCKET))
    else {
        return Ok(Vec::new());
    };
    let name = format!("store_{}_{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
    let mut create = Command::new("psql");
    create.args(["-qX", "-d", &metadata, "-c", &format!("CREATE DATABASE {name}")]);
    drop(child::run(&mut create, LIMIT)?.ok());
    let pairs = [
        (METADATA_URL, metadata.replacen("/postgres?", &format!("/{name}?"), 1)),
        ("AMPHORA_SINGLE_POSTGRES", "true".to_owned()),
        (CONTENT_URL, format!("s3://{bucket}/{name}")),
        (CONTENT_ENDPOINT, endpoint),
    ];
    Ok(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The arguments by which `amphora check` finds the store of a server with this environment; `None` if it is in its data
/// folder.
pub(crate) fn check_arguments(environment: &[(String, String)]) -> Option<Vec<String>> {
    // An empty value is none, as it is for the server.
    let given: Vec<_> = environment.iter().filter(|(_, value)| !value.is_empty()).collect();
    let value = |name: &str| given.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let (metadata, content) = (value(METADATA_URL)?, value(CONTENT_URL)?);
    let mut arguments = vec!["--metadata-url".to_owned(), metadata, "--content-url".to_owned(), content];
    // As much as a check of a data folder reads.
    arguments.push("--checksums".to_owned());
    if let Some(endpoint) = value(CONTENT_ENDPOINT) {
        arguments.extend(["--content-endpoint".to_owned(), endpoint]);
    }
    Some(arguments)
}
