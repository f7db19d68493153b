//! The bodies of the fuzz targets (`fuzz/`): decoders of bytes from the kernel and from the fd holder, called with
//! arbitrary bytes.
//!
//! - Each function accepts any bytes and panics only where a guarantee is broken.
//! - The corpora run as ordinary tests, below.

use std::collections::BTreeMap;

pub use super::wire::fuzzed::request;
use crate::holder::Record;

/// Packets between a server and its fd holder, and records of mounts. What decodes must encode to bytes that decode to
/// the same value.
pub fn holder(bytes: &[u8]) {
    fuse_holder::fuzzed::packets(bytes);
    if let Some(record) = Record::decode(bytes) {
        let again = Record::decode(&record.encode()).map(|again| again.encode());
        assert_eq!(again, Some(record.encode()), "it is read as it was written");
    }
}

/// The targets by name.
pub fn targets() -> BTreeMap<&'static str, fn(&[u8])> {
    BTreeMap::from([("request", request as fn(&[u8])), ("holder", holder)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpora_break_no_promise() {
        for (name, target) in targets() {
            corpora::run(name, target);
        }
    }
}
