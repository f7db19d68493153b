//! Fuzzes bodies in chunks (aws-chunked).
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| s3::fuzzed::frames(bytes));
