//! Fuzzes requests to STS, and the tokens, keys and policies in them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| s3::fuzzed::sts(bytes));
