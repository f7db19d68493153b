//! The policy of a form: the conditions under which its signer allows an upload (S3 API, "Creating a POST policy").
//!
//! - Each field has to be covered by a condition, otherwise the signer did not allow it.
//! - The bucket is the URL's, even if a field names another.
//! - A condition on a missing field fails.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use objstore::clock::Timestamp;
use s3s::{S3Error, S3ErrorCode, S3Result};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::form::Fields;
use crate::error::says;

/// Fields that carry the policy and its signature, so no condition can cover them.
const UNCOVERED: [&str; 4] = ["policy", "signature", "awsaccesskeyid", "x-amz-signature"];
/// A checksum can only make an upload fail, so it needs no permission of the signer.
const CHECKSUM: &str = "x-amz-checksum-";

/// A policy, parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Policy {
    expires: Timestamp,
    conditions: Vec<Condition>,
}

#[derive(Debug, PartialEq, Eq)]
enum Condition {
    /// The field, in lower case, has this value.
    Equals(String, String),
    /// The value of the field, in lower case, has this prefix.
    StartsWith(String, String),
    /// The file's size in bytes lies in this range.
    Size(RangeInclusive<u64>),
}

impl Policy {
    /// Parses the field `policy`.
    pub(super) fn parse(field: &str) -> S3Result<Self> {
        let encoded: String = field.chars().filter(|one| !one.is_ascii_whitespace()).collect();
        let text = BASE64.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| invalid("Invalid Base64 encoding"))?;
        let document = serde_json::from_str(&plain_escapes(&text)).map_err(|_| invalid("Invalid JSON"))?;
        let Value::Object(mut document) = document else { return Err(invalid("Invalid JSON")) };
        let Some(Value::String(expires)) = document.remove("expiration") else {
            return Err(invalid("Policy missing expiration"));
        };
        let Some(Value::Array(conditions)) = document.remove("conditions") else {
            return Err(invalid("Policy missing conditions"));
        };
        if let Some(name) = document.keys().next() {
            return Err(invalid(&format!("Unexpected: \"{name}\"")));
        }
        let conditions = conditions.into_iter().map(Condition::parse).collect::<S3Result<_>>()?;
        Ok(Self { expires: parse_time(&expires)?, conditions })
    }

    /// Checks a form against the policy and returns the allowed sizes of its file.
    pub(super) fn check(&self, fields: &Fields, bucket: &str, now: Timestamp) -> S3Result<RangeInclusive<u64>> {
        if now >= self.expires {
            return Err(against("Policy expired."));
        }
        let (mut min, mut max) = (0, u64::MAX);
        for condition in &self.conditions {
            if let Condition::Size(range) = condition {
                (min, max) = (min.max(*range.start()), max.min(*range.end()));
            } else if !condition.holds(fields, bucket) {
                return Err(against(&format!("Policy Condition failed: {condition}")));
            }
        }
        let fields = fields.iter().map(|(name, _)| name).filter(|name| !is_uncovered(name));
        let mut stray = fields.chain(["bucket"]).filter(|name| !self.covers(name));
        match stray.next() {
            Some(name) => Err(against(&format!("Extra input fields: {name}"))),
            None => Ok(min..=max),
        }
    }

    fn covers(&self, name: &str) -> bool {
        self.conditions.iter().any(|condition| match condition {
            Condition::Equals(field, _) | Condition::StartsWith(field, _) => field == name,
            Condition::Size(_) => false,
        })
    }
}

fn is_uncovered(name: &str) -> bool {
    UNCOVERED.contains(&name) || name.starts_with(CHECKSUM)
}

impl Condition {
    fn parse(value: Value) -> S3Result<Self> {
        match value {
            Value::Object(pairs) => Self::parse_pair(pairs),
            Value::Array(parts) => Self::parse_list(&parts),
            _ => Err(invalid("Invalid condition test: must be a List or Object")),
        }
    }

    /// `{"acl": "private"}`
    fn parse_pair(pairs: Map<String, Value>) -> S3Result<Self> {
        let mut pairs = pairs.into_iter();
        match (pairs.next(), pairs.next()) {
            (Some((field, Value::String(value))), None) => Ok(Self::Equals(field.to_ascii_lowercase(), value)),
            _ => Err(invalid("Invalid Simple-Condition: Simple-Conditions must have exactly one property specified")),
        }
    }

    /// `["eq", "$acl", "private"]`, `["starts-with", "$key", "user/"]` or `["content-length-range", 1, 1024]`
    fn parse_list(parts: &[Value]) -> S3Result<Self> {
        let [Value::String(operator), first, second] = parts else {
            return Err(invalid("a condition written as a list has an operator and two values"));
        };
        let operator = operator.to_ascii_lowercase();
        if operator == "content-length-range" {
            let (Some(min), Some(max)) = (first.as_u64(), second.as_u64()) else {
                return Err(invalid("content-length-range has two whole numbers, none of them negative"));
            };
            return Ok(Self::Size(min..=max));
        }
        let field = first.as_str().and_then(|field| field.strip_prefix('$'));
        let (Some(field), Some(text)) = (field, second.as_str()) else {
            return Err(invalid("a condition names a field, as in \"$key\", and a text"));
        };
        let (field, text) = (field.to_ascii_lowercase(), text.to_owned());
        match operator.as_str() {
            "eq" => Ok(Self::Equals(field, text)),
            "starts-with" => Ok(Self::StartsWith(field, text)),
            _ => Err(invalid("the operators are eq, starts-with and content-length-range")),
        }
    }

    /// Whether the form's field meets the condition.
    fn holds(&self, fields: &Fields, bucket: &str) -> bool {
        let value = |name: &str| if name == "bucket" { Some(bucket) } else { fields.get(name) };
        match self {
            Self::Equals(name, text) => value(name) == Some(text),
            Self::StartsWith(name, text) => value(name).is_some_and(|value| starts_with(name, value, text)),
            Self::Size(_) => true,
        }
    }
}

/// Compares the prefix; in a list of content types, with each type.
fn starts_with(name: &str, value: &str, text: &str) -> bool {
    if name == "content-type" {
        value.split(',').all(|one| one.trim().starts_with(text))
    } else {
        value.starts_with(text)
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Equals(field, text) => write!(out, "[\"eq\", \"${field}\", \"{text}\"]"),
            Self::StartsWith(field, text) => write!(out, "[\"starts-with\", \"${field}\", \"{text}\"]"),
            Self::Size(range) => write!(out, "[\"content-length-range\", {}, {}]", range.start(), range.end()),
        }
    }
}

/// Resolves escapes that policies may contain and JSON does not have: `\$` and `\v`.
fn plain_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(one) = chars.next() {
        match (one, if one == '\\' { chars.next() } else { None }) {
            ('\\', Some('$')) => plain.push('$'),
            ('\\', Some('v')) => plain.push_str("\\u000b"),
            (one, escaped) => plain.extend([one].into_iter().chain(escaped)),
        }
    }
    plain
}

/// `2026-12-30T12:00:00.000Z`
fn parse_time(text: &str) -> S3Result<Timestamp> {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).ok().filter(|_| text.ends_with('Z') && text.contains('T'));
    let parsed = parsed.ok_or_else(|| invalid("its expiration has to be a time such as 2026-12-30T12:00:00.000Z"))?;
    Ok(Timestamp::from_parts(parsed.unix_timestamp(), parsed.nanosecond()))
}

fn invalid(why: &str) -> S3Error {
    says(S3ErrorCode::InvalidPolicyDocument, format!("Invalid Policy: {why}."))
}

fn against(why: &str) -> S3Error {
    says(S3ErrorCode::AccessDenied, format!("Invalid according to Policy: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000_000_000_000);

    fn policy(conditions: &str) -> S3Result<Policy> {
        let document = format!("{{\"expiration\": \"2001-09-09T01:46:41.000Z\", \"conditions\": [{conditions}]}}");
        Policy::parse(&BASE64.encode(document))
    }

    /// The range of sizes, or the code of the refusal.
    fn check(conditions: &str, fields: &Fields) -> Result<RangeInclusive<u64>, String> {
        let checked = policy(conditions).and_then(|policy| policy.check(fields, "abc", NOW));
        checked.map_err(|error| error.code().as_str().to_owned())
    }

    fn denied() -> Result<RangeInclusive<u64>, String> {
        Err("AccessDenied".into())
    }

    #[test]
    fn each_field_has_to_be_as_a_condition_says() {
        let fields = Fields::from([("key", "user/1"), ("acl", "private"), ("policy", "x"), ("x-amz-signature", "y")]);
        let bucket = "{\"bucket\": \"abc\"}";
        let all = 0..=u64::MAX;
        let table = [
            (r#"["starts-with", "$key", "user/"], {"acl": "private"}"#, Ok(all.clone())),
            (r#"["StArTs-WiTh", "$KeY", ""], ["EQ", "$aCl", "private"]"#, Ok(all)),
            (r#"["eq", "$key", "user/1"], {"ACL": "private"}, ["content-length-range", 2, 9]"#, Ok(2..=9)),
            (
                r#"["eq", "$key", "user/1"], {"acl": "private"}, ["content-length-range", 2, 9],
                   ["content-length-range", 0, 5]"#,
                Ok(2..=5),
            ),
            (r#"["starts-with", "$key", "user/"]"#, denied()),
            (r#"["starts-with", "$key", "User/"], {"acl": "private"}"#, denied()),
            (r#"["starts-with", "$key", ""], {"acl": "public-read"}"#, denied()),
            (r#"["starts-with", "$key", ""], {"acl": "private"}, {"tagging": ""}"#, denied()),
            (r#"["starts-with", "$key", ""], {"acl": "private"}, ["starts-with", "$tagging", ""]"#, denied()),
        ];
        for (conditions, expected) in table {
            assert_eq!(check(&format!("{bucket}, {conditions}"), &fields), expected, "{conditions}");
        }
    }

    #[test]
    fn the_bucket_is_that_of_the_url() {
        let fields = Fields::from([("key", "k"), ("bucket", "other")]);
        assert_eq!(check(r#"{"key": "k"}, {"bucket": "other"}"#, &fields), denied());
        assert!(check(r#"{"key": "k"}, {"bucket": "abc"}"#, &fields).is_ok());
        assert_eq!(check(r#"{"key": "k"}"#, &Fields::from([("key", "k")])), denied());
    }

    #[test]
    fn of_a_list_of_content_types_each_counts() {
        let conditions = r#"{"bucket": "abc"}, ["starts-with", "$Content-Type", "image/"]"#;
        for (value, passes) in [("image/jpg,image/png, image/gif", true), ("image/jpg,text/plain", false), ("", false)]
        {
            let checked = check(conditions, &Fields::from([("content-type", value)]));
            assert_eq!(checked.is_ok(), passes, "{value}");
        }
    }

    #[test]
    fn checksums_need_no_condition() {
        let fields = Fields::from([("x-amz-checksum-crc32", "y/Q5Jg==")]);
        assert!(check(r#"{"bucket": "abc"}"#, &fields).is_ok());
    }

    #[test]
    fn a_policy_ends_when_it_says() {
        let policy = policy(r#"{"bucket": "abc"}"#).unwrap();
        let at = |millis: i64| policy.check(&Fields::default(), "abc", Timestamp(NOW.0 + millis * 1_000_000)).is_ok();
        assert_eq!((at(0), at(999), at(1000)), (true, true, false));
    }

    #[test]
    fn escapes_of_policies_are_read() {
        let fields = Fields::from([("key", "$a\u{b}\\$b")]);
        assert!(check(r#"{"bucket": "abc"}, {"key": "\$a\v\\$b"}"#, &fields).is_ok());
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        let table = [
            "",
            "[]",
            "{}",
            r#"{"expiration": "2001-09-09T01:46:41Z"}"#,
            r#"{"conditions": []}"#,
            r#"{"Expiration": "2001-09-09T01:46:41Z", "conditions": []}"#,
            r#"{"expiration": "2001-09-09T01:46:41Z", "CONDITIONS": []}"#,
            r#"{"expiration": "2001-09-09T01:46:41Z", "conditions": [], "more": 1}"#,
            r#"{"expiration": "2001-09-09 01:46:41+00:00", "conditions": []}"#,
            r#"{"expiration": "2001-09-09T01:46:41", "conditions": []}"#,
            r#"{"expiration": 1000, "conditions": []}"#,
        ];
        for document in table {
            let error = Policy::parse(&BASE64.encode(document)).unwrap_err();
            assert_eq!(error.code().as_str(), "InvalidPolicyDocument", "{document}");
        }
        for condition in [
            "{}",
            "1",
            r#"{"a": "b", "c": "d"}"#,
            r#"{"a": 1}"#,
            r#"["eq", "key", "a"]"#,
            r#"["eq", "$key"]"#,
            r#"["ends-with", "$key", "a"]"#,
            r#"["content-length-range", 0]"#,
            r#"["content-length-range", -1, 0]"#,
        ] {
            assert_eq!(policy(condition).unwrap_err().code().as_str(), "InvalidPolicyDocument", "{condition}");
        }
        assert!(Policy::parse("%%%").is_err());
    }
}
