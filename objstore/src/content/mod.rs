//! File content: where the bytes of a file lie, and reading and changing them.
//!
//! - Up to [`INLINE_MAX`] bytes lie in the inode's record. S3 packs up to [`PACKED_MAX`] in segments. Larger content,
//!   and content that outgrows the record through a mount, has a separate blob file.
//! - A blob written by S3 has checksums and never changes. A blob is changed in place only if it is the in-place blob
//!   (`in_place`) of an inode that the writing branch wrote, and nothing else refers to it; otherwise new bytes go to a new
//!   in-place blob, and extents record which bytes lie where.
//! - A blob's bytes are on disk before the record that refers to it is committed.
//! - Removal is the reverse: first the record moves to the trash, then the bytes are removed.

mod damage;
mod durable;
mod etag;
mod flush;
mod mapped_writes;
mod part;
mod plan;
mod ranges;
mod reader;
mod staged;

pub use crate::blob::{BLOCK_BYTES, Block};
pub(crate) use crate::blob_records::{
    add_in_place, blob_record, drop_sums, forget_sums, move_packed, release, retain, verified_blob,
};
pub(crate) use damage::refuse_damaged;
pub(crate) use durable::bring_to_disk;
pub(crate) use etag::multipart_etag;
pub(crate) use flush::recover as settle_left;
pub(crate) use mapped_writes::{recover as recover_mapped_writable, sweep as sweep_mapped_writable};
pub use part::{Checksum, ObjectPart};
pub(crate) use plan::{Piece, Plan, share_range};
pub use ranges::RANGE_BLOCK_BYTES;
pub use reader::Reader;
pub use staged::{StageWriter, Staged};
pub(crate) use staged::{in_blob, pack_all, stage, take_staged};

/// The most bytes kept in an inode's record.
pub const INLINE_MAX: usize = 4 << 10;
/// The most bytes S3 packs in a segment.
pub const PACKED_MAX: usize = 128 << 10;
