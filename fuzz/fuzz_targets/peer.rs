//! Frames between a node and a store.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node_wire::fuzzed::peer(bytes));
