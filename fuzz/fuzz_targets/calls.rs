//! Fuzzes the requests of the CSI controller service.
#![no_main]

use std::sync::OnceLock;

use csi::fuzzed::Calls;

static CALLS: OnceLock<Calls> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CALLS.get_or_init(Calls::start).call(bytes));
