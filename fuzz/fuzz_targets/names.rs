//! Names, paths and mount options as sidecars hand them on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| csi::fuzzed::names(bytes));
