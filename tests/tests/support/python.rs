//! Python scripts of `tests/python`, run with the interpreter that has boto3.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::prelude::*;

/// A script's limit: the slowest lists 5,000 keys hundreds of times.
const LIMIT: Duration = Duration::from_secs(240);

/// Runs a script with the keys it needs; fails with its output if it does.
#[track_caller]
pub fn run_script(python: &Path, server: &Server, script: &str, keys: &[(&str, &Credentials)]) {
    let mut command = Command::new(python);
    command.arg(repo().join("tests/python").join(script)).env("AMPHORA_S3", server.s3());
    // No compiled files in the tree, and nothing from the settings of whoever runs this.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("AWS_CONFIG_FILE", "/nonexistent");
    command.env("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true");
    for (name, key) in keys.iter().copied().chain([("ROOT", &server.credentials())]) {
        let pair = format!("{}:{}", key.access_key_id, key.secret_access_key);
        command.env(format!("AMPHORA_KEY_{name}"), pair);
    }
    let outcome = match run(&mut command, LIMIT) {
        Ok(outcome) => outcome,
        Err(error) => panic!("{error}"),
    };
    let text = format!("{script}: {}\n{}\n{}", outcome.status, outcome.stdout, outcome.stderr);
    assert!(outcome.status.success(), "{text}");
    assert!(outcome.stdout.lines().any(|line| line.ends_with("checks passed")), "{text}");
}
