//! Fuzzes the packets and the records of the fd holder.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuse::fuzzed::holder(bytes));
