//! What a BucketClass sets for new buckets beside quota and versioning: anonymous access, object lock, expiry.
//!
//! - Anonymous access is a bucket policy for everyone. The bucket's public access block stays on for access control
//!   lists and for later policies: only this policy opens the bucket.
//! - These are first settings. The owner of the bucket may change them, and a repeated request changes nothing.

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{LifecycleFilter, LifecycleRule, ObjectLock, PublicAccess, Settings};
use objstore::{Error, Result};

/// The names of the parameters, which are also those of attributes, behind `cosi.`.
pub(crate) const NAMES: [&str; 5] =
    ["anonymousAccess", "objectLock", "expireDays", "expireNoncurrentDays", "abortUploadsDays"];
/// The most days of a rule (S3 API, LifecycleExpiration).
const DAYS_MAX: u32 = 36_500;

/// What everyone may do with a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Anonymous {
    #[default]
    None,
    Read,
    Write,
    ReadWrite,
}

/// First settings of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preset {
    anonymous: Anonymous,
    object_lock: bool,
    expire_days: Option<u32>,
    noncurrent_days: Option<u32>,
    abort_upload_days: Option<u32>,
}

impl Preset {
    /// Takes a parameter; `false` if it is none of these.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "anonymousAccess" => self.anonymous = anonymous(value)?,
            "objectLock" => self.object_lock = enabled(value)?,
            "expireDays" => self.expire_days = Some(days("expireDays", value)?),
            "expireNoncurrentDays" => self.noncurrent_days = Some(days("expireNoncurrentDays", value)?),
            "abortUploadsDays" => self.abort_upload_days = Some(days("abortUploadsDays", value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the bucket has object lock, which needs versioning.
    pub(crate) fn locks_objects(self) -> bool {
        self.object_lock
    }

    /// The settings of a new bucket.
    pub(crate) fn settings(self, bucket: &BucketName) -> Settings {
        let policy = self.policy(bucket);
        let public_access = policy.is_some().then_some(PublicAccess {
            block_acls: true,
            ignore_acls: true,
            block_policy: true,
            restrict_buckets: false,
            deleted: false,
        });
        let object_lock = self.object_lock.then_some(ObjectLock { default: None });
        Settings { policy, public_access, object_lock, lifecycle: self.lifecycle(), ..Settings::default() }
    }

    /// The attributes to store with a bucket, by which a repeated request is recognized.
    pub(crate) fn attributes(self) -> BTreeMap<String, String> {
        let days = |days: Option<u32>| days.map(|days| days.to_string());
        let values = [
            self.anonymous.name().map(str::to_owned),
            self.object_lock.then(|| "enabled".to_owned()),
            days(self.expire_days),
            days(self.noncurrent_days),
            days(self.abort_upload_days),
        ];
        let pairs = NAMES.iter().zip(values);
        pairs.filter_map(|(name, value)| Some((attribute(name), value?))).collect()
    }

    fn policy(self, bucket: &BucketName) -> Option<String> {
        let (of_bucket, of_objects) = match self.anonymous {
            Anonymous::None => return None,
            Anonymous::Read => (r#""s3:ListBucket""#, r#""s3:GetObject""#),
            Anonymous::Write => ("", r#""s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts""#),
            Anonymous::ReadWrite => (
                r#""s3:ListBucket""#,
                r#""s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts""#,
            ),
        };
        let statement = |actions: &str, resource: &str| {
            format!(
                r#"{{"Effect": "Allow", "Principal": "*", "Action": [{actions}], "Resource": "arn:aws:s3:::{resource}"}}"#
            )
        };
        let mut statements = vec![statement(of_objects, &format!("{bucket}/*"))];
        if !of_bucket.is_empty() {
            statements.push(statement(of_bucket, bucket.as_str()));
        }
        Some(format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", ")))
    }

    fn lifecycle(self) -> Vec<LifecycleRule> {
        let Self { expire_days, noncurrent_days, abort_upload_days, .. } = self;
        if expire_days.or(noncurrent_days).or(abort_upload_days).is_none() {
            return Vec::new();
        }
        vec![LifecycleRule {
            id: "cosi".into(),
            enabled: true,
            filter: Some(LifecycleFilter::default()),
            expire_days,
            noncurrent_days,
            abort_upload_days,
            ..LifecycleRule::default()
        }]
    }
}

impl Anonymous {
    fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Read => Some("read"),
            Self::Write => Some("write"),
            Self::ReadWrite => Some("read-write"),
        }
    }
}

/// The attribute of a parameter.
pub(crate) fn attribute(name: &str) -> String {
    format!("cosi.{name}")
}

fn anonymous(value: &str) -> Result<Anonymous> {
    match value {
        "none" => Ok(Anonymous::None),
        "read" => Ok(Anonymous::Read),
        "write" => Ok(Anonymous::Write),
        "read-write" => Ok(Anonymous::ReadWrite),
        _ => Err(Error::invalid("anonymousAccess", value, "use none, read, write or read-write")),
    }
}

fn enabled(value: &str) -> Result<bool> {
    match value {
        "enabled" => Ok(true),
        "disabled" => Ok(false),
        _ => Err(Error::invalid("objectLock", value, "use enabled or disabled")),
    }
}

fn days(what: &'static str, value: &str) -> Result<u32> {
    let plain = value.bytes().all(|byte| byte.is_ascii_digit());
    let days = value.parse().ok().filter(|days| plain && (1..=DAYS_MAX).contains(days));
    days.ok_or_else(|| Error::invalid(what, value, format!("use a number of days from 1 to {DAYS_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(pairs: &[(&str, &str)]) -> Result<Preset> {
        let mut preset = Preset::default();
        for (key, value) in pairs {
            assert!(preset.take(key, value)?, "{key}");
        }
        Ok(preset)
    }

    #[test]
    fn first_settings_are_those_asked_for_and_no_others() {
        let name: BucketName = "photos".parse().unwrap();
        assert_eq!(preset(&[]).unwrap().settings(&name), Settings::default());
        assert_eq!(preset(&[("anonymousAccess", "none")]).unwrap().settings(&name), Settings::default());
        let read = preset(&[("anonymousAccess", "read")]).unwrap().settings(&name);
        let policy = read.policy.unwrap();
        assert!(policy.contains("s3:GetObject") && policy.contains("photos/*") && !policy.contains("Put"), "{policy}");
        let block = read.public_access.unwrap();
        assert!(block.block_acls && block.ignore_acls && block.block_policy && !block.restrict_buckets);
        let write = preset(&[("anonymousAccess", "write")]).unwrap().settings(&name).policy.unwrap();
        assert!(
            write.contains("s3:PutObject") && !write.contains("GetObject") && !write.contains("ListBucket"),
            "{write}"
        );
        let rule = &preset(&[("expireDays", "30"), ("abortUploadsDays", "7")]).unwrap().settings(&name).lifecycle[0];
        assert_eq!((rule.expire_days, rule.noncurrent_days, rule.abort_upload_days), (Some(30), None, Some(7)));
        assert!(preset(&[("objectLock", "enabled")]).unwrap().settings(&name).object_lock.is_some());
    }

    #[test]
    fn other_values_are_refused() {
        for (key, value) in [
            ("anonymousAccess", "full"),
            ("anonymousAccess", ""),
            ("objectLock", "on"),
            ("expireDays", "0"),
            ("expireDays", "+1"),
            ("expireDays", "1.5"),
            ("expireNoncurrentDays", "36501"),
            ("abortUploadsDays", "never"),
        ] {
            assert!(preset(&[(key, value)]).is_err(), "{key}={value}");
        }
        assert!(!Preset::default().take("quota", "1").unwrap());
    }
}
