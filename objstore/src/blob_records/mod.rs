//! The records of blobs: how many records refer to each, where its bytes lie, and its checksums.
//!
//! - They know no bucket and no tree. The operation that adds or drops a reference gives its transaction.

mod read;
mod refs;

pub(crate) use read::{run_at, to_usize, verified_at, verified_blob};
pub(crate) use refs::{
    add_in_place, blob as blob_record, copy_sums, count_segment, drop_sums, forget_sums, move_packed, put_blob,
    release, retain,
};
