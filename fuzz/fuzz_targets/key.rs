//! Object keys and names of buckets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| objstore::fuzzed::key(bytes));
