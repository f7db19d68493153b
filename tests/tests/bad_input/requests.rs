//! Requests to S3 that no SDK sends: signatures that do not hold, and well signed ones that cannot be.

use crate::support::*;

#[test]
fn spoilt_signatures_are_refused() {
    let Some(python) = python() else { skip!("boto3 is missing: run tests/setup.sh") };
    run_script(&python, &Server::start(), "signatures.py", &[]);
}

#[test]
fn odd_requests_are_refused() {
    let Some(python) = python() else { skip!("boto3 is missing: run tests/setup.sh") };
    run_script(&python, &Server::start(), "odd_requests.py", &[]);
}
