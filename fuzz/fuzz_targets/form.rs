//! Forms, their policies, the XML of their tags.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| s3::fuzzed::form(bytes));
