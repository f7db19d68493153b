//! Lifecycle rules in the form of responses.

use objstore::clock::Timestamp;
use objstore::store::{LifecycleFilter, LifecycleRule};
use s3s::dto::{
    self, AbortIncompleteMultipartUpload, ExpirationStatus, LifecycleExpiration, LifecycleRuleAndOperator,
    LifecycleRuleFilter, NoncurrentVersionExpiration, Tag,
};

use crate::response::time;

/// A rule as it was set.
pub(super) fn rule(rule: &LifecycleRule) -> dto::LifecycleRule {
    let status = if rule.enabled { ExpirationStatus::ENABLED } else { ExpirationStatus::DISABLED };
    let (filter, prefix) = filter(rule.filter.clone().unwrap_or_default());
    dto::LifecycleRule {
        abort_incomplete_multipart_upload: rule
            .abort_upload_days
            .map(|days| AbortIncompleteMultipartUpload { days_after_initiation: Some(number(days)) }),
        expiration: expiration(rule),
        filter,
        id: Some(rule.id.clone()),
        noncurrent_version_expiration: rule.noncurrent_days.map(|days| NoncurrentVersionExpiration {
            newer_noncurrent_versions: rule.noncurrent_kept.map(number),
            noncurrent_days: Some(number(days)),
        }),
        noncurrent_version_transitions: None,
        prefix,
        status: ExpirationStatus::from_static(status),
        transitions: None,
    }
}

fn expiration(rule: &LifecycleRule) -> Option<LifecycleExpiration> {
    let any = rule.expire_days.is_some() || rule.expire_date.is_some() || rule.expire_markers.is_some();
    any.then(|| LifecycleExpiration {
        date: rule.expire_date.map(|date| time(Timestamp(date))),
        days: rule.expire_days.map(number),
        expired_object_delete_marker: rule.expire_markers,
    })
}

/// The filter; or the prefix in the rule itself, for the older form.
fn filter(filter: LifecycleFilter) -> (Option<LifecycleRuleFilter>, Option<String>) {
    if filter.bare_prefix {
        return (None, filter.prefix);
    }
    let mut tags = filter.tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) });
    let (above, below) = (filter.size_above.map(size), filter.size_below.map(size));
    let written = if filter.and {
        let tags: Vec<Tag> = tags.collect();
        let and = LifecycleRuleAndOperator {
            object_size_greater_than: above,
            object_size_less_than: below,
            prefix: filter.prefix,
            tags: (!tags.is_empty()).then_some(tags),
        };
        LifecycleRuleFilter { and: Some(and), ..LifecycleRuleFilter::default() }
    } else {
        LifecycleRuleFilter {
            and: None,
            object_size_greater_than: above,
            object_size_less_than: below,
            prefix: filter.prefix,
            tag: tags.next(),
        }
    };
    (Some(written), None)
}

fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn size(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
