//! Reading all records of a kind.

use crate::error::Result;
use crate::meta::{Pair, Read};
use crate::record::key;

/// Pairs read at a time.
const CHUNK: usize = 512;

/// All pairs whose keys begin with `prefix`, for kinds of records with few entries.
pub(crate) fn all(read: &dyn Read, prefix: &[u8]) -> Result<Vec<Pair>> {
    let end = key::after_prefix(prefix);
    let mut from = prefix.to_vec();
    let mut pairs = Vec::new();
    loop {
        let chunk = read.scan(&from, &end, CHUNK)?;
        let more = chunk.len() == CHUNK;
        pairs.extend(chunk);
        match pairs.last() {
            Some(last) if more => from = [&last.key[..], &[0]].concat(),
            _ => return Ok(pairs),
        }
    }
}
