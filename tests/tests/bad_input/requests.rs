//! Requests to S3 that no SDK sends: signed well, and still none that can be answered. Spoilt signatures: `signatures`.

use crate::support::*;

#[test]
fn odd_requests_are_refused() {
    let Some(python) = python() else { skip!("boto3 is missing: run tests/setup.sh") };
    run_script(&python, &Server::start(), "odd_requests.py", &[]);
}
