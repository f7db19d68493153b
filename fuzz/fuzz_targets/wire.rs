//! Fuzzes whole requests to an endpoint without access control: XML bodies, queries and chunks.
#![no_main]

use std::sync::OnceLock;

use s3::fuzzed::Endpoint;

static ENDPOINT: OnceLock<Endpoint> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ENDPOINT.get_or_init(Endpoint::start).ask(bytes));
