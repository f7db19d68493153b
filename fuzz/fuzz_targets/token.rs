//! Fuzzes continuation tokens of listings.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| s3::fuzzed::token(bytes));
