//! The store's header record: its format, how often it was opened, and the numbers it issues.

use prost::Message;

use crate::blob::{BlobId, Opening};
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::record::key::{self, tag};
use crate::record::{FORMAT, Header, MOVED, UNFINISHED, decode};

/// The header; `None` in a new store.
pub(crate) fn read(read: &dyn Read) -> Result<Option<Header>> {
    read.get(&key::header())?.map(|value| decode("the store", &value)).transpose()
}

/// The epoch of the next opening: above the last one's, and above those of all blobs, since one opening may use several
/// epochs.
pub(crate) fn next_epoch(read: &dyn Read) -> Result<u32> {
    let last = read.scan_back(&[tag::BLOB], &key::after_prefix(&[tag::BLOB]), 1)?;
    let blobs = last.first().and_then(|pair| key::u64_at(&pair.key, 1)).map_or(0, |id| BlobId(id).epoch());
    Ok(self::read(read)?.map_or(0, |header| header.epoch).max(blobs) + 1)
}

/// Begins an opening: raises the epoch. `opening` is its name, if its content is in a bucket; without one the last stays.
pub(crate) fn open(txn: &mut dyn Txn, opening: Option<Opening>) -> Result<()> {
    let epoch = next_epoch(&*txn)?;
    let header = read(&*txn)?.unwrap_or(Header { format: FORMAT, next_id: 1, next_trash: 1, ..Header::default() });
    let opening = opening.map_or_else(|| header.opening.clone(), Vec::from);
    put(txn, &Header { epoch, opening, ..header });
    Ok(())
}

/// Refuses a store of another format, one that is not complete yet, and one that was moved to another place.
pub(crate) fn check_format(header: &Header) -> Result<()> {
    let place = header.moved.as_ref().map_or("another place", |moved| &*moved.place);
    let why = match header.format {
        FORMAT => return Ok(()),
        UNFINISHED => format!(
            "the store from {place} was not moved here completely: run the same `amphora migrate` again, which continues"
        ),
        MOVED => format!("this store was moved to {place}: serve it there"),
        format => format!(
            "the data folder holds a store of format {format}, this build reads format {FORMAT}; use the build that made it"
        ),
    };
    Err(Error::Unusable { why })
}

/// A number that was never issued before.
pub(crate) fn next_id(txn: &mut dyn Txn) -> Result<u64> {
    next(txn, |header| &mut header.next_id)
}

/// The next position in the trash.
pub(crate) fn next_trash(txn: &mut dyn Txn) -> Result<u64> {
    next(txn, |header| &mut header.next_trash)
}

fn next(txn: &mut dyn Txn, counter: impl FnOnce(&mut Header) -> &mut u64) -> Result<u64> {
    let mut header = read(&*txn)?.ok_or_else(|| Error::corrupt("the store", "a header", "none"))?;
    let number = {
        let counter = counter(&mut header);
        *counter += 1;
        *counter - 1
    };
    put(txn, &header);
    Ok(number)
}

/// Replaces the header.
pub(crate) fn put(txn: &mut dyn Txn, header: &Header) {
    txn.put(key::header(), header.encode_to_vec());
}
