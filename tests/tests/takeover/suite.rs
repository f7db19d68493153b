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

/// The modules of a full run.
const FULL: [&str; 14] = [
    "access_control::",
    "cosi::",
    "csi::",
    "errors::",
    "handles::",
    "kill::",
    "mount::",
    "mounting::",
    "outlive::",
    "races::",
    "requests::",
    "s3_clients::",
    "signatures::",
    "workloads::",
];

/// What is not for such a store yet.
const SKIPPED: [&str; 25] = [
    // Their mounts are on another machine, and the volume listener of such a store needs a certificate.
    "from_another_machine",
    "access_control::secrets::secrets_appear_only_in_their_files",
    "csi::block::two_nodes_read_what_the_other_wrote_to_a_disk",
    "csi::remote::",
    "mounting::another_machine::",
    "mounting::away::",
    "mounting::certificates::",
    "mounting::closes::",
    "mounting::operators::",
    // They end with `amphora check` of the data folder, which is a copy here.
    "access_control::master::",
    "csi::block::a_device_and_an_object_have_the_same_bytes",
    "csi::block::a_full_disk_stays_within_its_quota_and_discards_give_space_back",
    "csi::block::devices_and_file_systems_on_them_survive_kills_of_the_server",
    "csi::groups::",
    "kill::mount::",
    "mounting::grants::a_mount_with_a_revoked_grant_answers_eacces_also_after_a_restart",
    "outlive::an_unmount_works_after_any_process_died",
    "outlive::no_program_notices_an_upgrade_or_an_orderly_restart",
    "outlive::no_program_notices_servers_that_are_killed_as_they_begin",
    "outlive::no_program_notices_that_the_server_was_killed",
    "outlive::undelivered::",
    "workloads::storm::",
    // They fill the disk of the data folder, or damage files in it.
    "faults::",
    "csi::damaged::",
    "csi::lost::",
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
    let modules: Vec<&str> = match chosen.split_whitespace().collect::<Vec<_>>() {
        chosen if !chosen.is_empty() => chosen,
        _ if is_full() => FULL.to_vec(),
        _ => SMALL.to_vec(),
    };
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(modules).args(SKIPPED.iter().flat_map(|name| ["--skip", name])).arg("--test-threads=1");
    command.env(METADATA, postgres.url()).env(CONTENT, content.s3()).env(CONTENT_BUCKET, "content");
    command.env("AWS_ACCESS_KEY_ID", key.access_key_id).env("AWS_SECRET_ACCESS_KEY", key.secret_access_key);
    // Their sizes are those of a usual run, and this program counts its own skips alone.
    command.env_remove("AMPHORA_FULL").env_remove(tests::skip::SKIPS_FILE);
    let outcome = run(&mut command, Duration::from_secs(if is_full() { 7200 } else { 1200 }));
    let output = outcome.unwrap_or_else(|error| panic!("{error}")).ok();
    let summary = output.lines().find(|line| line.starts_with("test result:")).expect("a summary");
    super::report(&format!("on PostgreSQL and S3: {summary}"));
}
