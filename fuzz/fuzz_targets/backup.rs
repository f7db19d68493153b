//! Fuzzes reading a backup repository with arbitrary files.
#![no_main]

use std::sync::OnceLock;

use objstore::fuzzed::Restoring;

static RESTORING: OnceLock<Restoring> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| RESTORING.get_or_init(Restoring::start).restore(bytes));
