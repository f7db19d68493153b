//! Whole requests to an endpoint that lets everybody in: XML bodies, queries and frames as operations take them.
#![no_main]

use std::sync::OnceLock;

use s3::fuzzed::Endpoint;

static ENDPOINT: OnceLock<Endpoint> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ENDPOINT.get_or_init(Endpoint::start).ask(bytes));
