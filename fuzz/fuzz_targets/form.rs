//! Fuzzes HTML form uploads: the multipart body, the policy, and the XML of tags.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| s3::fuzzed::form(bytes));
