//! Fuzzes bucket policies.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| s3::fuzzed::policy(bytes));
