//! Packets of the holder, and its records.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuse::fuzzed::holder(bytes));
