//! Fuzzes the keys of metadata records, and POSIX access control lists.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| objstore::fuzzed::layout(bytes));
