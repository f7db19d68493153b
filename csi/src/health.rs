//! Health of a volume as its store knows it. CSI v1.12, VolumeCondition.
//!
//! - Nothing waits for a mount, so a dead one blocks nobody.
//! - A volume is abnormal if programs that use it would get errors: the store refuses writes, or there is no space left.

use objstore::store::{Bucket, Stats, Usage};
use proto::csi::v1::VolumeCondition;

use crate::{disk, size_limit};

/// What is wrong with a volume, as a message for people.
pub(crate) fn fault(bucket: &Bucket, usage: &Usage, stats: &Stats) -> Option<String> {
    if let Some(why) = &stats.poisoned {
        return Some(format!("the store refuses writes: {why}"));
    }
    if stats.disk_full {
        return Some(
            "the disk of the store is full: only deletions and small changes are possible; free space on it".into(),
        );
    }
    // The disk of a block volume counts as a whole against the quota from the beginning.
    let is_block = disk::is_block(bucket);
    let used_bytes = usage.bytes.saturating_add(usage.upload_bytes);
    let limit_bytes = bucket.quota_bytes.filter(|limit| used_bytes >= *limit && !is_block)?;
    Some(format!("the volume is full: {used_bytes} bytes are used of {limit_bytes}; expand it, or delete files"))
}

/// The condition of a volume with this fault, or of a healthy one.
pub(crate) fn condition(fault: Option<String>, healthy: &str) -> VolumeCondition {
    let abnormal = fault.is_some();
    VolumeCondition { abnormal, message: size_limit::message(fault.unwrap_or_else(|| healthy.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use objstore::clock::Timestamp;
    use objstore::store::Versioning;

    use super::*;

    fn bucket(quota_bytes: Option<u64>, attributes: &[(&str, &str)]) -> Bucket {
        let attributes = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Bucket {
            name: "pvc-1".parse().unwrap(),
            id: 7,
            owner: crate::OWNER.into(),
            quota_bytes,
            versioning: Versioning::Disabled,
            created: Timestamp(0),
            source: None,
            attributes: attributes.collect::<BTreeMap<_, _>>(),
            snapshot: false,
        }
    }

    #[test]
    fn a_volume_is_abnormal_when_programs_would_get_errors() {
        let used = |bytes| Usage { bytes, upload_bytes: 5, ..Usage::default() };
        let said = |bucket: &Bucket, bytes, stats: &Stats| fault(bucket, &used(bytes), stats).unwrap_or_default();
        let (well, quota) = (Stats::default(), bucket(Some(100), &[]));
        assert_eq!(said(&quota, 94, &well), "");
        assert_eq!(said(&bucket(None, &[]), u64::MAX, &well), "");
        assert!(said(&quota, 95, &well).contains("100 bytes are used of 100"));
        assert_eq!(said(&bucket(Some(100), &[("csi.access", "block")]), 100, &well), "");
        assert!(said(&quota, 0, &Stats { disk_full: true, ..Stats::default() }).contains("disk"));
        let poisoned = Stats { poisoned: Some("fsync".into()), ..Stats::default() };
        assert!(said(&quota, 200, &poisoned).contains("refuses writes: fsync"));
        assert!(condition(Some("why".into()), "well").abnormal && !condition(None, "well").abnormal);
    }
}
