//! The tests of both handles once more, on stores whose metadata is in PostgreSQL and whose content is in S3.
//!
//! - This test program runs itself with the places in its environment ([`tests::shared_store`]).
//! - `cargo verify --full takeover::suite` runs all modules, otherwise those in [`SMALL`]; `AMPHORA_TEST_SHARED='handles::
//!   csi::'` names others.

use std::process::Command;
use std::time::Duration;

use tests::shared_store::{CONTENT, CONTENT_BUCKET, METADATA};

use crate::support::postgres::Postgres;
use crate::support::*;

/// The modules of a usual run.
const SMALL: [&str; 4] = ["s3_clients::boto3", "handles::", "csi::sanity", "workloads::calls"];

/// The modules of a full run. The others copy, damage or measure the data folder, need no store, or choose theirs.
const FULL: [&str; 16] = [
    "access_control::",
    "cosi::",
    "csi::",
    "errors::",
    "faults::full_mount",
    "handles::",
    "kill::",
    "mount::",
    "mounting::",
    "network::",
    "outlive::",
    "races::",
    "requests::",
    "s3_clients::",
    "signatures::",
    "workloads::",
];

/// What is not for such a store.
const SKIPPED: [&str; 1] = [
    // They are about `master.key` in the data folder, which is a copy here (`takeover::mounts` rotates it).
    "access_control::master::",
];

#[test]
fn the_tests_of_both_handles_pass_with_metadata_in_postgresql_and_content_in_s3() {
    if std::env::var_os(METADATA).is_some() {
        skip!("these are the tests that it runs");
    }
    let (postgres, _data) = need!(Postgres::of_metadata());
    let content = Server::start();
    make_bucket(&content, "content", &[]);
    let key = content.credentials();
    let chosen = std::env::var("AMPHORA_TEST_SHARED").unwrap_or_default();
    let mut skipped = SKIPPED.to_vec();
    let modules: Vec<&str> = match chosen.split_whitespace().collect::<Vec<_>>() {
        chosen if !chosen.is_empty() => chosen,
        _ if is_full() => FULL.to_vec(),
        _ => {
            // Mounts of this machine are enough for a usual run.
            skipped.push("from_another_machine");
            SMALL.to_vec()
        }
    };
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(modules).args(skipped.iter().flat_map(|name| ["--skip", name])).arg("--test-threads=1");
    command.env(METADATA, postgres.url()).env(CONTENT, content.s3()).env(CONTENT_BUCKET, "content");
    command.env("AWS_ACCESS_KEY_ID", key.access_key_id).env("AWS_SECRET_ACCESS_KEY", key.secret_access_key);
    // Their sizes are those of a usual run, and this program counts its own skips alone.
    command.env_remove("AMPHORA_FULL").env_remove(tests::skip::SKIPS_FILE);
    let outcome = run(&mut command, Duration::from_secs(if is_full() { 7200 } else { 1200 }));
    let output = outcome.unwrap_or_else(|error| panic!("{error}")).ok();
    let summary = output.lines().find(|line| line.starts_with("test result:")).expect("a summary");
    super::report(&format!("on PostgreSQL and S3: {summary}"));
}
