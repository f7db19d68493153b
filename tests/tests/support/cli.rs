//! The command line for tests: results as JSON, refusals as text, and accounts with keys.

use std::time::Duration;

use serde_json::Value;
use tests::prelude::*;

/// The time limit of a command, long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a server that died may own its store, and more.
const LEASE_MAX: Duration = Duration::from_secs(60);

/// Runs a command that has to succeed with `--output json`, and returns its output, or null if there is none.
#[track_caller]
pub fn json(server: &Server, args: &[&str]) -> Value {
    let outcome = cli(server, &[args, &["--output", "json"]].concat());
    assert!(outcome.status.success(), "{outcome}");
    match outcome.stdout.as_str() {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {outcome}")),
    }
}

/// Runs a command that has to end with `status`, and returns its one line on stderr.
#[track_caller]
pub fn refusal(server: &Server, args: &[&str], status: i32) -> String {
    let outcome = cli(server, args);
    assert_eq!(outcome.status.code(), Some(status), "{outcome}");
    assert!(outcome.stdout.is_empty(), "a refusal prints nothing on stdout: {outcome}");
    if status == 1 {
        assert_eq!(outcome.stderr.lines().count(), 1, "a refusal is one line: {outcome}");
        assert!(outcome.stderr.starts_with("amphora: "), "{outcome}");
    }
    outcome.stderr
}

/// Runs a command, which may fail.
#[track_caller]
pub fn cli(server: &Server, args: &[&str]) -> Outcome {
    match run(&mut server.cli(args), LIMIT) {
        Ok(outcome) => outcome,
        Err(error) => panic!("{error}"),
    }
}

/// Verifies the store as an operator would; the server must not be running.
#[track_caller]
pub fn check_store(server: &Server) {
    let arguments = server.check_arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--output", "json"]).collect();
    // A killed server owns a store that others could open until the end of its lease.
    let is_owned = |outcome: &Outcome| outcome.stderr.contains("owns this store");
    let outcome = wait_until(LEASE_MAX, || Some(cli(server, &arguments)).filter(|outcome| !is_owned(outcome)));
    let outcome = outcome.expect("the lease ends");
    assert!(outcome.status.success(), "{outcome}");
    let checked: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    assert_eq!(checked["clean"], true, "{checked}");
}

/// Creates an account with a key.
#[track_caller]
pub fn account(server: &Server, name: &str) -> Credentials {
    json(server, &["account", "create", name]);
    key_of(&json(server, &["key", "create", "--account", name]))
}

/// The key that `key create` or `key rotate` printed.
#[track_caller]
pub fn key_of(printed: &Value) -> Credentials {
    let text = |field: &str| printed[field].as_str().unwrap_or_else(|| panic!("no {field} was printed")).to_owned();
    Credentials { access_key_id: text("accessKeyId"), secret_access_key: text("secretAccessKey") }
}

/// The output of all list commands, which a refused request must not change.
#[track_caller]
pub fn listings(server: &Server) -> String {
    let lists = ["bucket", "account", "key", "grant", "snapshot", "volume"];
    lists.map(|noun| format!("{noun}: {}\n", json(server, &[noun, "list"]))).concat()
}
