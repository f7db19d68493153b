//! Capacity ranges: the sizes that a request allows for a volume.
//!
//! - The size of a volume is the quota of its bucket; a bucket without a quota satisfies any size.

use proto::csi::v1::CapacityRange;
use tonic::Status;

/// Bounds in bytes; `None` means unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    required: Option<u64>,
    limit: Option<u64>,
}

impl Range {
    /// Parses the bounds; without any, every size is allowed (CSI v1.12, CreateVolume).
    pub(crate) fn parse(given: Option<&CapacityRange>) -> Result<Self, Status> {
        let given = given.copied().unwrap_or_default();
        let range = Self {
            required: bound("required_bytes", given.required_bytes)?,
            limit: bound("limit_bytes", given.limit_bytes)?,
        };
        match (range.required, range.limit) {
            (Some(required), Some(limit)) if required > limit => Err(Status::invalid_argument(format!(
                "capacity_range requires {required} bytes, above its limit of {limit}"
            ))),
            _ => Ok(range),
        }
    }

    /// The quota for a new volume.
    pub(crate) fn quota(self) -> Option<u64> {
        self.required.or(self.limit)
    }

    /// The smallest size.
    pub(crate) fn required(self) -> Option<u64> {
        self.required
    }

    /// Whether a volume with this quota is within the bounds.
    pub(crate) fn admits(self, quota: Option<u64>) -> bool {
        let enough = self.required.is_none_or(|required| quota.is_none_or(|quota| quota >= required));
        enough && !self.is_exceeded_by(quota)
    }

    /// Whether a volume with this quota is too large.
    pub(crate) fn is_exceeded_by(self, quota: Option<u64>) -> bool {
        self.limit.is_some_and(|limit| quota.is_none_or(|quota| quota > limit))
    }
}

fn bound(field: &str, bytes: i64) -> Result<Option<u64>, Status> {
    match u64::try_from(bytes) {
        Ok(0) => Ok(None),
        Ok(bytes) => Ok(Some(bytes)),
        Err(_) => Err(Status::invalid_argument(format!("capacity_range.{field} is {bytes}; it must not be negative"))),
    }
}

/// A number of bytes in CSI's signed type.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(required_bytes: i64, limit_bytes: i64) -> Result<Range, Status> {
        Range::parse(Some(&CapacityRange { required_bytes, limit_bytes }))
    }

    #[test]
    fn the_quota_is_what_is_required_or_else_the_limit() {
        assert_eq!(Range::parse(None).unwrap().quota(), None);
        assert_eq!(range(10, 0).unwrap().quota(), Some(10));
        assert_eq!(range(10, 20).unwrap().quota(), Some(10));
        assert_eq!(range(0, 20).unwrap().quota(), Some(20));
    }

    #[test]
    fn impossible_bounds_are_refused() {
        for (required, limit) in [(-1, 0), (0, -1), (20, 10)] {
            assert_eq!(range(required, limit).unwrap_err().code(), tonic::Code::InvalidArgument);
        }
    }

    #[test]
    fn a_volume_is_compatible_within_the_bounds() {
        assert!(range(0, 0).unwrap().admits(None));
        assert!(range(10, 0).unwrap().admits(None), "without a quota any size fits");
        assert!(range(10, 20).unwrap().admits(Some(10)) && range(10, 20).unwrap().admits(Some(20)));
        assert!(!range(10, 20).unwrap().admits(Some(9)) && !range(10, 20).unwrap().admits(Some(21)));
        assert!(!range(0, 20).unwrap().admits(None));
    }
}
