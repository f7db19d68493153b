//! Values of records, of every family.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| objstore::fuzzed::record(bytes));
