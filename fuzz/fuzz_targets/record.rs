//! Fuzzes the values of all kinds of metadata records.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| objstore::fuzzed::record(bytes));
