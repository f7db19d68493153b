//! Fuzzes heads of S3 requests: query, Range, copy sources, signatures, checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| s3::fuzzed::head(bytes));
