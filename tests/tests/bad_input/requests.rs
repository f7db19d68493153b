//! Correctly signed S3 requests that no SDK sends and that cannot be answered. For wrong signatures see `signatures`.

use crate::support::*;

#[test]
fn malformed_requests_are_refused() {
    let Some(python) = python() else { skip!("boto3 is missing: run tests/setup.sh") };
    run_script(&python, &Server::start(), "odd_requests.py", &[]);
}
