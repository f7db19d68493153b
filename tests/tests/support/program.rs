//! S3 clients as child processes, with the server's address and root key; among them the scripts of `tests/python`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::prelude::*;

/// The time limit of a program: the slowest script lists 5,000 keys hundreds of times.
const LIMIT: Duration = Duration::from_secs(240);

/// A client program, run in the server's folder with `AMPHORA_S3` and `AMPHORA_KEY_ROOT` for our own programs, AWS's
/// standard variables for all others, and the CA certificate of a TLS server.
pub fn client(program: &Path, server: &Server) -> Command {
    let Credentials { access_key_id, secret_access_key } = server.credentials();
    let mut command = Command::new(program);
    command.current_dir(server.home().path()).env("HOME", server.home().path());
    command.env("AMPHORA_S3", server.s3()).env("AMPHORA_KEY_ROOT", format!("{access_key_id}:{secret_access_key}"));
    command.env("AWS_ACCESS_KEY_ID", access_key_id).env("AWS_SECRET_ACCESS_KEY", secret_access_key);
    command.env("AWS_DEFAULT_REGION", "us-east-1").env("AWS_REGION", "us-east-1").env("AWS_MAX_ATTEMPTS", "1");
    // The user's own AWS settings are not used.
    command.env("AWS_CONFIG_FILE", "/nonexistent").env("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    command.env("AWS_EC2_METADATA_DISABLED", "true").env_remove("AWS_CA_BUNDLE");
    if let Some(authority) = server.authority() {
        // Python's SDK, then Go and Python itself, then Node.
        for name in ["AWS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"] {
            command.env(name, authority);
        }
    }
    command
}

/// Runs a client that has to succeed; returns its stdout.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    match run(command, LIMIT) {
        Ok(outcome) => outcome.ok(),
        Err(error) => panic!("{error}"),
    }
}

/// Runs a client that has to fail; returns all its output.
#[track_caller]
pub fn fail(command: &mut Command) -> String {
    let outcome = run(command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(!outcome.status.success(), "it should have failed: {outcome}");
    outcome.stdout + &outcome.stderr
}

/// Runs a program of checks, whose output ends with `N of N checks passed`.
#[track_caller]
pub fn run_checks(command: &mut Command) {
    let stdout = succeed(command);
    assert!(stdout.lines().any(|line| line.ends_with("checks passed")), "{stdout}");
}

/// Runs a script of `tests/python` with the keys it needs; a failure shows its output.
#[track_caller]
pub fn run_script(python: &Path, server: &Server, script: &str, keys: &[(&str, &Credentials)]) {
    let mut command = client(python, server);
    // No compiled files in the source tree.
    command.arg(repo().join("tests/python").join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    if let Some(website) = server.ready().get("website") {
        command.env("AMPHORA_WEBSITE", website);
    }
    for (name, key) in keys.iter().copied() {
        command.env(format!("AMPHORA_KEY_{name}"), format!("{}:{}", key.access_key_id, key.secret_access_key));
    }
    run_checks(&mut command);
}
