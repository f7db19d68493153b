//! Object lock: request headers, response headers and operations (S3 User Guide, "Locking objects with Object Lock").
//!
//! - For PutObject, CopyObject and CreateMultipartUpload, [`asked`] parses the headers and the store applies them. It
//!   refuses a lock in a bucket without object lock, and adds the bucket's default retention.
//! - GetObject and HeadObject report an object's lock through [`fill`].
//! - The store enforces locks, inside the transaction.

use objstore::clock::Timestamp;
use objstore::store::{Lock, ObjectInfo, ObjectLock, Retention, RetentionMode};
use s3s::dto::{self, *};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{Detail as _, OrRefuse as _, bad_argument, custom, plain, refuse, says};
use crate::response::time;
use crate::service::{Call, Service};
use crate::{access, names};

/// The longest default retention (S3 User Guide, "Object Lock considerations"), in days.
const DEFAULT_DAYS_MAX: i32 = 36_500;
/// The longest default retention in years.
const DEFAULT_YEARS_MAX: i32 = 100;
const ENABLED: &str = "Enabled";
const ON: &str = ObjectLockLegalHoldStatus::ON;
const OFF: &str = ObjectLockLegalHoldStatus::OFF;

/// The lock that the input of PutObject, CopyObject or CreateMultipartUpload requests.
macro_rules! asked {
    ($input:expr) => {
        $crate::lock::from_headers(
            $input.object_lock_mode.as_ref().map(|mode| mode.as_str()),
            $input.object_lock_retain_until_date.take(),
            $input.object_lock_legal_hold_status.as_ref().map(|status| status.as_str()),
        )
    };
}
pub(crate) use asked;

/// Fills the lock of an object into the output of GetObject or HeadObject.
macro_rules! fill {
    ($output:ident, $lock:expr) => {{
        let lock: &objstore::store::Lock = $lock;
        $output.object_lock_mode =
            lock.retention.map(|kept| s3s::dto::ObjectLockMode::from_static($crate::lock::mode_name(kept.mode)));
        $output.object_lock_retain_until_date = lock.retention.map(|kept| $crate::response::time(kept.until));
        $output.object_lock_legal_hold_status = $crate::lock::hold_status(lock);
    }};
}
pub(crate) use fill;

/// The lock that the headers of a write request.
pub(crate) fn from_headers(
    mode: Option<&str>,
    until: Option<dto::Timestamp>,
    legal_hold: Option<&str>,
) -> S3Result<Lock> {
    let retention = match (mode, until) {
        (None, None) => None,
        (Some(mode), Some(until)) => {
            let unknown = || bad_argument("Unknown wormMode directive.", "x-amz-object-lock-mode", mode);
            let mode = parse_mode(mode).ok_or_else(unknown)?;
            Some(Retention { mode, until: moment(&until)? })
        }
        (mode, _) => {
            let words = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied";
            let missing = if mode.is_some() { "x-amz-object-lock-retain-until-date" } else { "x-amz-object-lock-mode" };
            return Err(bad_argument(words, missing, ""));
        }
    };
    let legal_hold = match legal_hold {
        None => None,
        Some(ON) => Some(true),
        Some(OFF) => Some(false),
        Some(other) => {
            let words = "Legal Hold must be either of 'ON' or 'OFF'";
            return Err(bad_argument(words, "x-amz-object-lock-legal-hold", other));
        }
    };
    Ok(Lock { retention, legal_hold })
}

/// The S3 name of a mode.
pub(crate) fn mode_name(mode: RetentionMode) -> &'static str {
    match mode {
        RetentionMode::Governance => ObjectLockMode::GOVERNANCE,
        RetentionMode::Compliance | RetentionMode::None => ObjectLockMode::COMPLIANCE,
    }
}

/// The legal hold status of an object on which a hold was ever set or removed.
pub(crate) fn hold_status(lock: &Lock) -> Option<ObjectLockLegalHoldStatus> {
    lock.legal_hold.map(|on| ObjectLockLegalHoldStatus::from_static(if on { ON } else { OFF }))
}

/// Whether the request asks to bypass governance and the caller may do so: root, the bucket's owner, and callers whom
/// its policy allows it.
pub(crate) async fn may_bypass(call: &Call, asked: Option<bool>, key: &str, version: Option<&str>) -> S3Result<bool> {
    Ok(asked == Some(true) && access::may_bypass_governance(call, key, version).await?)
}

fn parse_mode(mode: &str) -> Option<RetentionMode> {
    match mode {
        ObjectLockMode::GOVERNANCE => Some(RetentionMode::Governance),
        ObjectLockMode::COMPLIANCE => Some(RetentionMode::Compliance),
        _ => None,
    }
}

/// A date as the store keeps it; dates after the year 2262 are refused.
fn moment(date: &dto::Timestamp) -> S3Result<Timestamp> {
    let nanos = time::OffsetDateTime::from(date.clone()).unix_timestamp_nanos();
    let nanos = i64::try_from(nanos).map_err(|_| {
        refuse(S3ErrorCode::InvalidArgument, "The retain until date has to lie before the year 2262.")
            .with("ArgumentName", "x-amz-object-lock-retain-until-date")
    })?;
    Ok(Timestamp(nanos))
}

fn malformed(words: &'static str) -> S3Error {
    refuse(S3ErrorCode::MalformedXML, words)
}

/// Sets object lock and its default retention (S3 API, PutObjectLockConfiguration).
pub(crate) async fn set_configuration(
    call: &Call,
    request: S3Request<PutObjectLockConfigurationInput>,
) -> S3Result<S3Response<PutObjectLockConfigurationOutput>> {
    call.request.prove(&request.headers)?;
    let name = names::bucket(&request.input.bucket)?;
    let configuration =
        request.input.object_lock_configuration.ok_or_else(|| malformed("The body is an ObjectLockConfiguration."))?;
    let lock = parse_configuration(&configuration)?;
    call.store.set_object_lock(&name, lock).await.or_refuse()?;
    Ok(S3Response::new(PutObjectLockConfigurationOutput::default()))
}

fn parse_configuration(configuration: &ObjectLockConfiguration) -> S3Result<ObjectLock> {
    if configuration.object_lock_enabled.as_ref().map(ObjectLockEnabled::as_str) != Some(ENABLED) {
        return Err(malformed("ObjectLockEnabled is Enabled."));
    }
    let Some(rule) = &configuration.rule else { return Ok(ObjectLock { default: None }) };
    let default = rule.default_retention.as_ref().ok_or_else(|| malformed("A Rule has a DefaultRetention."))?;
    let mode = default.mode.as_ref().and_then(|mode| parse_mode(mode.as_str()));
    let mode = mode.ok_or_else(|| malformed("Mode is GOVERNANCE or COMPLIANCE."))? as i32;
    let default = match (default.days, default.years) {
        (Some(days), None) => {
            objstore::store::DefaultRetention { mode, days: Some(period(days, DEFAULT_DAYS_MAX)?), years: None }
        }
        (None, Some(years)) => {
            objstore::store::DefaultRetention { mode, days: None, years: Some(period(years, DEFAULT_YEARS_MAX)?) }
        }
        _ => return Err(malformed("A DefaultRetention has either Days or Years.")),
    };
    Ok(ObjectLock { default: Some(default) })
}

fn period(given: i32, most: i32) -> S3Result<u32> {
    let accepted = u32::try_from(given).ok().filter(|_| (1..=most).contains(&given));
    accepted.ok_or_else(|| {
        let words = format!("Default retention is a positive number, at most {most} here.");
        refuse(custom("InvalidRetentionPeriod"), words)
    })
}

/// Answers object lock and its default retention (S3 API, GetObjectLockConfiguration).
pub(crate) async fn configuration(
    service: &Service,
    request: S3Request<GetObjectLockConfigurationInput>,
) -> S3Result<S3Response<GetObjectLockConfigurationOutput>> {
    let name = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&name).or_refuse()).await?.settings;
    let lock = settings.object_lock.ok_or_else(|| plain(S3ErrorCode::ObjectLockConfigurationNotFoundError))?;
    let configuration = ObjectLockConfiguration {
        object_lock_enabled: Some(ObjectLockEnabled::from_static(ENABLED)),
        rule: lock.default.map(|default| ObjectLockRule { default_retention: Some(shown_default(&default)) }),
    };
    Ok(S3Response::new(GetObjectLockConfigurationOutput { object_lock_configuration: Some(configuration) }))
}

fn shown_default(default: &objstore::store::DefaultRetention) -> dto::DefaultRetention {
    let number = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok());
    dto::DefaultRetention {
        days: number(default.days),
        mode: Some(ObjectLockRetentionMode::from_static(mode_name(default.mode()))),
        years: number(default.years),
    }
}

/// Sets or removes the retention of a version (S3 API, PutObjectRetention).
pub(crate) async fn set_retention(
    call: &Call,
    request: S3Request<PutObjectRetentionInput>,
) -> S3Result<S3Response<PutObjectRetentionOutput>> {
    call.request.prove(&request.headers)?;
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let retention = parse_retention(&input.retention.ok_or_else(|| malformed("The body is a Retention."))?)?;
    let bypass = may_bypass(call, input.bypass_governance_retention, key.as_str(), input.version_id.as_deref()).await?;
    let set = call.store.set_retention(&bucket, &key, input.version_id.as_deref(), retention, bypass);
    set.await.or_refuse()?;
    Ok(S3Response::new(PutObjectRetentionOutput::default()))
}

fn parse_retention(retention: &ObjectLockRetention) -> S3Result<Option<Retention>> {
    match (&retention.mode, &retention.retain_until_date) {
        (None, None) => Ok(None),
        (Some(mode), Some(until)) => {
            let mode = parse_mode(mode.as_str()).ok_or_else(|| malformed("Mode is GOVERNANCE or COMPLIANCE."))?;
            Ok(Some(Retention { mode, until: moment(until)? }))
        }
        _ => Err(malformed("A Retention has both Mode and RetainUntilDate, or neither.")),
    }
}

/// Answers the retention of a version (S3 API, GetObjectRetention).
pub(crate) async fn retention(
    service: &Service,
    request: S3Request<GetObjectRetentionInput>,
) -> S3Result<S3Response<GetObjectRetentionOutput>> {
    let GetObjectRetentionInput { bucket, key, version_id, .. } = request.input;
    let lock = lock_of(service, &bucket, &key, version_id).await?;
    let retention = lock.retention.ok_or_else(none_set)?;
    let retention = ObjectLockRetention {
        mode: Some(ObjectLockRetentionMode::from_static(mode_name(retention.mode))),
        retain_until_date: Some(time(retention.until)),
    };
    Ok(S3Response::new(GetObjectRetentionOutput { retention: Some(retention) }))
}

/// Sets or removes a legal hold on a version (S3 API, PutObjectLegalHold).
pub(crate) async fn set_legal_hold(
    call: &Call,
    request: S3Request<PutObjectLegalHoldInput>,
) -> S3Result<S3Response<PutObjectLegalHoldOutput>> {
    call.request.prove(&request.headers)?;
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let status = input.legal_hold.and_then(|hold| hold.status);
    let on = match status.as_ref().map(ObjectLockLegalHoldStatus::as_str) {
        Some(ON) => true,
        Some(OFF) => false,
        _ => return Err(malformed("Status is ON or OFF.")),
    };
    call.store.set_legal_hold(&bucket, &key, input.version_id.as_deref(), on).await.or_refuse()?;
    Ok(S3Response::new(PutObjectLegalHoldOutput::default()))
}

/// Answers the legal hold of a version (S3 API, GetObjectLegalHold).
pub(crate) async fn legal_hold(
    service: &Service,
    request: S3Request<GetObjectLegalHoldInput>,
) -> S3Result<S3Response<GetObjectLegalHoldOutput>> {
    let GetObjectLegalHoldInput { bucket, key, version_id, .. } = request.input;
    let lock = lock_of(service, &bucket, &key, version_id).await?;
    let status = hold_status(&lock).ok_or_else(none_set)?;
    Ok(S3Response::new(GetObjectLegalHoldOutput { legal_hold: Some(ObjectLockLegalHold { status: Some(status) }) }))
}

/// The lock of a version; an error in a bucket without object lock.
async fn lock_of(service: &Service, bucket: &str, key: &str, version: Option<String>) -> S3Result<Lock> {
    let (bucket, key) = (names::bucket(bucket)?, names::key(key)?);
    service
        .blocking(move |store| {
            if store.settings(&bucket).or_refuse()?.settings.object_lock.is_none() {
                return Err(says(S3ErrorCode::InvalidRequest, "Bucket is missing Object Lock Configuration"));
            }
            let ObjectInfo { lock, .. } = store.head_object(&bucket, &key, version.as_deref()).or_refuse()?;
            Ok(lock)
        })
        .await
}

fn none_set() -> S3Error {
    plain(S3ErrorCode::NoSuchObjectLockConfiguration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(secs: i64) -> dto::Timestamp {
        time::OffsetDateTime::from_unix_timestamp(secs).unwrap().into()
    }

    fn code<T: std::fmt::Debug>(result: S3Result<T>) -> String {
        result.unwrap_err().code().as_str().to_owned()
    }

    #[test]
    fn headers_ask_for_a_whole_lock_or_none() {
        assert_eq!(from_headers(None, None, None).unwrap(), Lock::default());
        let asked = from_headers(Some("COMPLIANCE"), Some(date(5)), Some("ON")).unwrap();
        let retention = Retention { mode: RetentionMode::Compliance, until: Timestamp(5_000_000_000) };
        assert_eq!(asked, Lock { retention: Some(retention), legal_hold: Some(true) });
        for (mode, until, hold) in [
            (Some("GOVERNANCE"), None, None),
            (None, Some(date(5)), None),
            (Some("governance"), Some(date(5)), None),
            (Some("GOVERNANCE"), Some(date(250_000_000_000)), None),
            (None, None, Some("on")),
        ] {
            assert_eq!(code(from_headers(mode, until, hold)), "InvalidArgument");
        }
    }

    #[test]
    fn a_default_has_one_positive_period() {
        let parse = |mode: &'static str, days, years| {
            let default = dto::DefaultRetention { mode: Some(ObjectLockRetentionMode::from_static(mode)), days, years };
            parse_configuration(&ObjectLockConfiguration {
                object_lock_enabled: Some(ObjectLockEnabled::from_static(ENABLED)),
                rule: Some(ObjectLockRule { default_retention: Some(default) }),
            })
        };
        let kept = parse("GOVERNANCE", Some(3), None).unwrap().default.unwrap();
        assert_eq!((kept.in_days(), kept.mode()), (3, RetentionMode::Governance));
        assert_eq!(parse("COMPLIANCE", None, Some(2)).unwrap().default.unwrap().in_days(), 730);
        for bad in [parse("abc", Some(1), None), parse("GOVERNANCE", Some(1), Some(1)), parse("GOVERNANCE", None, None)]
        {
            assert_eq!(code(bad), "MalformedXML");
        }
        for bad in [
            parse("GOVERNANCE", Some(0), None),
            parse("GOVERNANCE", None, Some(-1)),
            parse("GOVERNANCE", Some(36_501), None),
        ] {
            assert_eq!(code(bad), "InvalidRetentionPeriod");
        }
    }

    #[test]
    fn a_retention_is_whole_or_taken_away() {
        let mode = || Some(ObjectLockRetentionMode::from_static("GOVERNANCE"));
        let parse = |mode, retain_until_date| parse_retention(&ObjectLockRetention { mode, retain_until_date });
        assert!(parse(None, None).unwrap().is_none());
        assert!(parse(mode(), Some(date(5))).unwrap().is_some());
        assert_eq!(code(parse(mode(), None)), "MalformedXML");
        assert_eq!(code(parse(None, Some(date(5)))), "MalformedXML");
    }
}
