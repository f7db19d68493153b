//! Fuzzes object keys and bucket names.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| objstore::fuzzed::key(bytes));
