//! The bodies of the fuzz targets (`fuzz/`): decoders of bytes from the kernel and from the fd holder, called with
//! arbitrary bytes.
//!
//! - Each function accepts any bytes and panics only where a guarantee is broken.
//! - The corpora run as ordinary tests, here and in the crates of the protocol and of the holder.

#[cfg(feature = "fuzzing")]
pub use super::wire::fuzzed::request;

use crate::holder::Record;

/// Packets between a server and its fd holder, and records of mounts.
#[cfg(feature = "fuzzing")]
pub fn holder(bytes: &[u8]) {
    fuse_holder::fuzzed::packets(bytes);
    record(bytes);
}

/// Records of mounts. What decodes must encode to bytes that decode to the same value.
fn record(bytes: &[u8]) {
    if let Some(record) = Record::decode(bytes) {
        let again = Record::decode(&record.encode()).map(|again| again.encode());
        assert_eq!(again, Some(record.encode()), "it is read as it was written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpora_break_no_promise() {
        corpora::run("holder", record);
    }
}
