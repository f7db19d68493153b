//! Disks: what makes a bucket a block volume. CSI v1.12, VolumeCapability.BlockVolume.
//!
//! - A block volume is a bucket with the file [`DISK`] at its top, whose size is the volume's and whose bytes are the
//!   device's. S3 reads and writes it as an object of that key.
//! - A volume made by this driver is for mounts or for devices, for ever: an attribute of its bucket says which. Any
//!   other bucket that has the file may be published as a device.
//! - The whole size of the file counts against the quota from the beginning, so a quota of that size admits every write
//!   to the device.

use objstore::store::Bucket;
use tonic::Status;

use crate::capability::Kind;
use crate::capacity::Range;
use crate::is_provisioned;

/// The name of the file, and the key of the object.
pub(crate) const DISK: &str = "disk.img";
/// Sizes of disks are multiples of this, the largest block of a device.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// The size of a disk whose claim says none.
const DEFAULT_BYTES: u64 = 1 << 30;
/// The largest size: that of a file.
pub(crate) const BYTES_MAX: u64 = i64::MAX as u64 / BLOCK_BYTES * BLOCK_BYTES;

/// The bucket attribute that says how workloads see a volume.
pub(crate) const ACCESS: &str = "csi.access";
/// The value of [`ACCESS`] for a block volume.
pub(crate) const BLOCK: &str = "block";

/// Whether the bucket was made as a block volume.
pub(crate) fn is_block(bucket: &Bucket) -> bool {
    bucket.attributes.get(ACCESS).is_some_and(|access| access == BLOCK)
}

/// Why a volume that was made for one kind of use is refused for the other.
pub(crate) fn other_kind(bucket: &Bucket, driver_name: &str, kind: Kind) -> Option<String> {
    let name = &bucket.name;
    match kind {
        Kind::Mount if is_block(bucket) => {
            Some(format!("volume \"{name}\" is a block volume; use it with volumeMode Block"))
        }
        Kind::Block if is_provisioned(bucket, driver_name) && !is_block(bucket) => {
            Some(format!("volume \"{name}\" is not a block volume; use it with volumeMode Filesystem"))
        }
        Kind::Mount | Kind::Block => None,
    }
}

/// The size of a new disk within the bounds. `source_bytes`: the size of the disk that it is a copy of.
pub(crate) fn size(range: Range, source_bytes: Option<u64>) -> Result<u64, Status> {
    let asked = range.quota().unwrap_or_else(|| source_bytes.unwrap_or(DEFAULT_BYTES));
    // A limit without a requirement is not exceeded; a requirement is met in whole blocks.
    let size = match range.required() {
        None if range.quota().is_some() => asked / BLOCK_BYTES * BLOCK_BYTES,
        _ => asked.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX),
    };
    if size == 0 || size > BYTES_MAX || range.is_exceeded_by(Some(size)) {
        return Err(Status::out_of_range(format!(
            "a block volume has a multiple of {BLOCK_BYTES} bytes, at most {BYTES_MAX}: the capacity_range has room for none"
        )));
    }
    match source_bytes {
        Some(source) if source > size => Err(Status::out_of_range(format!(
            "a volume of {size} bytes is too small for the {source} bytes of its source; request a larger one"
        ))),
        _ => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use proto::csi::v1::CapacityRange;

    use super::*;

    fn of(required_bytes: i64, limit_bytes: i64, source: Option<u64>) -> Option<u64> {
        size(Range::parse(Some(&CapacityRange { required_bytes, limit_bytes })).unwrap(), source).ok()
    }

    #[test]
    fn a_disk_has_whole_blocks_within_the_bounds() {
        assert_eq!(of(0, 0, None), Some(DEFAULT_BYTES));
        assert_eq!(of(1, 0, None), Some(4096));
        assert_eq!(of(8192, 8192, None), Some(8192));
        assert_eq!(of(0, 10_000, None), Some(8192), "a limit is not exceeded");
        assert_eq!(of(5000, 6000, None), None, "no multiple lies between");
        assert_eq!(of(0, 100, None), None);
        assert_eq!(of(i64::MAX, 0, None), None);
    }

    #[test]
    fn a_copy_is_as_large_as_its_source_or_larger() {
        assert_eq!(of(0, 0, Some(8192)), Some(8192));
        assert_eq!(of(0, 0, Some(8000)), Some(8192), "the last block is filled");
        assert_eq!(of(16384, 0, Some(8192)), Some(16384));
        assert_eq!(of(4096, 0, Some(8192)), None);
    }
}
