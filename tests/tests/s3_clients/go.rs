//! minio-go and aws-sdk-go-v2: the program `tests/go/s3clients`.

use crate::support::program::{client, run_checks};
use crate::support::*;

macro_rules! checks {
    ($library:literal, $options:expr) => {
        let program = need!(required("s3clients"));
        run_checks(client(&program, &$options.start()).arg($library));
    };
}

#[test]
fn minio_go_over_http() {
    checks!("minio", Options::default());
}

#[test]
fn minio_go_over_tls() {
    checks!("minio", Options::default().tls());
}

#[test]
fn aws_sdk_go_over_http() {
    checks!("aws", Options::default());
}

#[test]
fn aws_sdk_go_over_tls() {
    checks!("aws", Options::default().tls());
}
