//! Parsing of lifecycle rules, with AWS's checks.

use std::collections::{BTreeMap, BTreeSet};

use objstore::store::{LifecycleFilter, LifecycleRule};
use s3s::dto::{
    self, ExpirationStatus, LifecycleExpiration, LifecycleRuleAndOperator, LifecycleRuleFilter,
    NoncurrentVersionExpiration, Tag, Timestamp,
};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::error::{Detail as _, not_offered, refuse, says};

const RULES_MAX: usize = 1_000;
const ID_CHARS_MAX: usize = 255;
const PREFIX_BYTES_MAX: usize = 1_024;
const TAG_CHARS_MAX: (usize, usize) = (128, 256);
const NEWER_MAX: i32 = 100;

/// Checks the rules of a configuration; rules without an id get one.
pub(super) fn rules(given: Vec<dto::LifecycleRule>) -> S3Result<Vec<LifecycleRule>> {
    match given.len() {
        0 => return Err(malformed("Give at least one Rule.")),
        1..=RULES_MAX => {}
        _ => return Err(bad_request(format!("A bucket has at most {RULES_MAX} lifecycle rules."))),
    }
    let mut parsed = given.into_iter().map(rule).collect::<S3Result<Vec<_>>>()?;
    give_ids(&mut parsed)?;
    Ok(parsed)
}

fn give_ids(rules: &mut [LifecycleRule]) -> S3Result<()> {
    let mut used = BTreeSet::new();
    for rule in rules.iter().filter(|rule| !rule.id.is_empty()) {
        if !used.insert(rule.id.clone()) {
            return Err(bad("Rule ID must be unique. Found same ID for more than one rule"));
        }
    }
    let mut number = 0;
    for rule in rules.iter_mut().filter(|rule| rule.id.is_empty()) {
        while rule.id.is_empty() {
            number += 1;
            let id = format!("rule-{number}");
            if used.insert(id.clone()) {
                rule.id = id;
            }
        }
    }
    Ok(())
}

fn rule(given: dto::LifecycleRule) -> S3Result<LifecycleRule> {
    let id = given.id.unwrap_or_default();
    if id.chars().count() > ID_CHARS_MAX {
        return Err(bad(format!("ID length should not exceed allowed limit of {ID_CHARS_MAX}")));
    }
    let enabled = match given.status.as_str() {
        ExpirationStatus::ENABLED => true,
        ExpirationStatus::DISABLED => false,
        _ => return Err(malformed("Status is Enabled or Disabled.")),
    };
    let dates = given.transitions.iter().flatten().filter_map(|transition| transition.date.as_ref());
    dates.map(midnight).collect::<S3Result<Vec<_>>>()?;
    if given.transitions.is_some() || given.noncurrent_version_transitions.is_some() {
        return Err(not_offered("A transition to another storage class"));
    }
    let mut rule = LifecycleRule {
        id,
        enabled,
        filter: Some(filter_or_prefix(given.filter, given.prefix)?),
        ..LifecycleRule::default()
    };
    if let Some(expiration) = given.expiration {
        set_expiration(&mut rule, &expiration)?;
    }
    if let Some(expiration) = given.noncurrent_version_expiration {
        set_noncurrent(&mut rule, &expiration)?;
    }
    if let Some(abort) = given.abort_incomplete_multipart_upload {
        let days = abort.days_after_initiation.ok_or_else(|| malformed("DaysAfterInitiation is missing."))?;
        rule.abort_upload_days = Some(positive("DaysAfterInitiation", days)?);
    }
    check_actions(&rule)?;
    Ok(rule)
}

fn set_expiration(rule: &mut LifecycleRule, given: &LifecycleExpiration) -> S3Result<()> {
    match (given.days, &given.date, given.expired_object_delete_marker) {
        (Some(days), None, None) => rule.expire_days = Some(positive("Days", days)?),
        (None, Some(date), None) => rule.expire_date = Some(midnight(date)?),
        (None, None, Some(markers)) => rule.expire_markers = Some(markers),
        _ => return Err(malformed("Expiration has one of Days, Date and ExpiredObjectDeleteMarker.")),
    }
    Ok(())
}

fn set_noncurrent(rule: &mut LifecycleRule, given: &NoncurrentVersionExpiration) -> S3Result<()> {
    let days = given.noncurrent_days.ok_or_else(|| malformed("NoncurrentDays is missing."))?;
    rule.noncurrent_days = Some(positive("NoncurrentDays", days)?);
    rule.noncurrent_kept = match given.newer_noncurrent_versions {
        None => None,
        Some(newer @ 1..=NEWER_MAX) => Some(newer.unsigned_abs()),
        Some(_) => return Err(bad(format!("NewerNoncurrentVersions is 1 to {NEWER_MAX}."))),
    };
    Ok(())
}

fn check_actions(rule: &LifecycleRule) -> S3Result<()> {
    let some = rule.expire_days.is_some()
        || rule.expire_date.is_some()
        || rule.expire_markers.is_some()
        || rule.noncurrent_days.is_some()
        || rule.abort_upload_days.is_some();
    if !some {
        return Err(bad_request("At least one action needs to be specified in a rule"));
    }
    let filter = rule.filter.clone().unwrap_or_default();
    let narrow = [
        (!filter.tags.is_empty(), "Tags"),
        (filter.size_above.is_some() || filter.size_below.is_some(), "object sizes"),
    ];
    for (_, what) in narrow.into_iter().filter(|(set, _)| *set) {
        if rule.abort_upload_days.is_some() {
            return Err(bad_request(format!("AbortIncompleteMultipartUpload cannot be specified with {what}.")));
        }
        if rule.expire_markers.is_some() {
            return Err(bad_request(format!("ExpiredObjectDeleteMarker cannot be specified with {what}.")));
        }
    }
    Ok(())
}

fn filter_or_prefix(filter: Option<LifecycleRuleFilter>, prefix: Option<String>) -> S3Result<LifecycleFilter> {
    let parsed = match (filter, prefix) {
        (Some(filter), None) => parse_filter(filter)?,
        (None, Some(prefix)) => {
            LifecycleFilter { prefix: Some(prefix), bare_prefix: true, ..LifecycleFilter::default() }
        }
        _ => return Err(malformed("A rule has either a Filter or a Prefix.")),
    };
    if parsed.prefix.as_ref().is_some_and(|prefix| prefix.len() > PREFIX_BYTES_MAX) {
        return Err(bad_request(format!("The maximum size of a prefix is {PREFIX_BYTES_MAX}.")));
    }
    if parsed.size_above.zip(parsed.size_below).is_some_and(|(above, below)| below <= above) {
        return Err(bad_request("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'."));
    }
    Ok(parsed)
}

/// Conditions without `And`, which AWS refuses, mean the same as within it: all have to hold.
fn parse_filter(given: LifecycleRuleFilter) -> S3Result<LifecycleFilter> {
    let and = given.and.is_some();
    let outer = LifecycleRuleAndOperator {
        prefix: given.prefix,
        tags: given.tag.map(|tag| vec![tag]),
        object_size_greater_than: given.object_size_greater_than,
        object_size_less_than: given.object_size_less_than,
    };
    let mut filter = LifecycleFilter { and, ..LifecycleFilter::default() };
    for part in [Some(outer), given.and].into_iter().flatten() {
        narrow(&mut filter, part)?;
    }
    Ok(filter)
}

fn narrow(filter: &mut LifecycleFilter, part: LifecycleRuleAndOperator) -> S3Result<()> {
    filter.prefix = match (filter.prefix.take(), part.prefix) {
        (Some(one), Some(other)) if one.starts_with(&other) => Some(one),
        (Some(one), Some(other)) if other.starts_with(&one) => Some(other),
        (Some(_), Some(_)) => return Err(malformed("No key begins with both prefixes of the filter.")),
        (one, other) => one.or(other),
    };
    add_tags(&mut filter.tags, part.tags.into_iter().flatten())?;
    if let Some(size) = part.object_size_greater_than {
        let size = u64::try_from(size).map_err(|_| bad("'ObjectSizeGreaterThan' must not be negative."))?;
        filter.size_above = Some(filter.size_above.unwrap_or(0).max(size));
    }
    if let Some(size) = part.object_size_less_than {
        let size = u64::try_from(size).ok().filter(|size| *size > 0);
        let size = size.ok_or_else(|| bad("'ObjectSizeLessThan' must be positive."))?;
        filter.size_below = Some(filter.size_below.unwrap_or(u64::MAX).min(size));
    }
    Ok(())
}

fn add_tags(tags: &mut BTreeMap<String, String>, given: impl Iterator<Item = Tag>) -> S3Result<()> {
    for tag in given {
        let (name, value) = (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
        let fits = (1..=TAG_CHARS_MAX.0).contains(&name.chars().count()) && value.chars().count() <= TAG_CHARS_MAX.1;
        if !fits {
            let words = "A tag has a key of 1 to 128 and a value of up to 256 letters.";
            return Err(refuse(S3ErrorCode::InvalidTag, words).with("TagKey", name));
        }
        if tags.insert(name, value).is_some() {
            return Err(bad_request("Duplicate Tag Keys are not allowed."));
        }
    }
    Ok(())
}

fn positive(what: &str, days: i32) -> S3Result<u32> {
    u32::try_from(days).ok().filter(|days| *days > 0).ok_or_else(|| bad(format!("'{what}' must be a positive integer")))
}

/// A date in nanoseconds since 1970; it has to be a midnight in UTC.
fn midnight(date: &Timestamp) -> S3Result<i64> {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    let nanos = i64::try_from(time::OffsetDateTime::from(date.clone()).unix_timestamp_nanos());
    let nanos = nanos.map_err(|_| bad("'Date' has to lie between the years 1678 and 2261"))?;
    if nanos % DAY == 0 { Ok(nanos) } else { Err(bad("'Date' must be at midnight GMT")) }
}

fn malformed(words: &str) -> S3Error {
    refuse(S3ErrorCode::MalformedXML, words)
}

fn bad(words: impl Into<String>) -> S3Error {
    says(S3ErrorCode::InvalidArgument, words)
}

fn bad_request(words: impl Into<String>) -> S3Error {
    says(S3ErrorCode::InvalidRequest, words)
}
