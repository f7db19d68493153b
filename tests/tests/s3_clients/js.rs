//! aws-sdk-js v3: the script `tests/js/clients.cjs`.

use crate::support::program::{client, run_checks};
use crate::support::*;

macro_rules! checks {
    ($options:expr) => {
        let (node, modules) = need!(node());
        let server = $options.start();
        let mut command = client(&node, &server);
        run_checks(command.arg(repo().join("tests/js/clients.cjs")).env("NODE_PATH", modules));
    };
}

#[test]
fn aws_sdk_js_over_http() {
    checks!(Options::default());
}

#[test]
fn aws_sdk_js_over_tls() {
    checks!(Options::default().tls());
}
