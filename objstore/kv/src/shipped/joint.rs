//! Where a copy and the log part, which the owner of the log finds out before it continues.
//!
//! | the copy | what is done |
//! | --- | --- |
//! | ends within the log, with the log's entry | the later entries are replayed |
//! | ends after the log, and keeps the entries that the log lacks | these are appended |
//! | ends with a batch that the log does not have, as another server wrote meanwhile | it is made again |
//! | ends before the log's first entry | it is made again from a checkpoint |
//! | has acknowledged batches that the log lost | it is refused, and kept |

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use objstore_log::{Limit, Log, Tail};

use super::entry::{self, Chain};
use super::failed;
use super::position::{Position, unshipped_key};
use crate::txn::Read;

/// How a copy continues.
pub(super) enum Joint {
    /// With the entries of the log after its last batch.
    Replay,
    /// The log continues with these entries of the copy.
    Append(Vec<Bytes>),
    /// Not at all: the entries between were trimmed.
    Behind,
    /// Not at all: another server wrote other batches, or the entries that it keeps are damaged.
    Parted,
}

/// Compares a copy that stands at `position` with the log, which the caller owns.
pub(super) fn joint(view: &dyn Read, log: &dyn Log, tail: Tail, position: &Position) -> Result<Joint> {
    if position.last + 1 < tail.first {
        return Ok(Joint::Behind);
    }
    if position.last >= tail.next {
        return ahead(view, log, tail, position);
    }
    let here = content(log, tail, position.last)?;
    Ok(if here == position.chain { Joint::Replay } else { Joint::Parted })
}

/// The content of the log's entry `number`, which may be the one before its first.
fn content(log: &dyn Log, tail: Tail, number: u64) -> Result<Chain> {
    let read = |number| -> Result<Option<Bytes>> {
        let entries = log.read_from(number, Limit { entries: 1, bytes: 1 }).map_err(failed)?;
        Ok(entries.into_iter().next().map(|entry| entry.body))
    };
    if number >= tail.first {
        let body = read(number)?;
        return body.map(|body| entry::chain(&body)).ok_or_else(|| lacking(number));
    }
    match read(number + 1)? {
        Some(body) => Ok(entry::decode(number + 1, &body)?.0),
        None if number == 0 => Ok(Chain::FIRST),
        None => Err(lacking(number + 1)),
    }
}

pub(super) fn lacking(number: u64) -> Error {
    Error::corrupt("the log", format!("an entry {number}"), "none")
}

/// A copy that ends after the log: it has to keep what the log lacks.
fn ahead(view: &dyn Read, log: &dyn Log, tail: Tail, position: &Position) -> Result<Joint> {
    let mut bodies = Vec::new();
    for number in tail.next..=position.last {
        let Some(body) = view.get(&unshipped_key(number))? else {
            let (next, last) = (tail.next, position.last);
            let why = format!(
                "the log ends before entry {next}, and this server has acknowledged batches up to {last}: the log has \
                 lost entries, perhaps as an older state of it was restored; restore the newer one"
            );
            return Err(Error::Unusable { why });
        };
        bodies.push(body);
    }
    let mut before = content(log, tail, tail.next - 1)?;
    for (number, body) in (tail.next..).zip(&bodies) {
        match entry::decode(number, body) {
            Ok((follows, _)) if follows == before => before = entry::chain(body),
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(Joint::Parted),
            Err(error) => return Err(error),
        }
    }
    Ok(Joint::Append(bodies))
}
