//! Fuzzes the names, paths and mount options that CSI sidecars pass on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| csi::fuzzed::names(bytes));
