//! Fuzzes Kubernetes Secrets with an access key.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| csi::fuzzed::secret(bytes));
