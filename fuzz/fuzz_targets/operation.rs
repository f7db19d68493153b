//! Heads of calls and replies between a node and a store, errors, changes and sessions.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node_codec::fuzzed::operation(bytes));
