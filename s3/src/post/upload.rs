//! The PutObject that a form stands for: its fields become headers.
//!
//! - A field means what the header of its name means for PutObject, so the same code validates both.

use std::collections::HashMap;

use http::header::{REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::utf8_percent_encode;
use s3s::dto::{ObjectLockLegalHoldStatus, ObjectLockMode, PutObjectInput, StorageClass, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::form::Fields;
use crate::error::refuse;
use crate::tagging;

/// Fields that become headers under the same name.
const PLAIN: [&str; 8] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "if-match",
    "if-none-match",
];
/// Fields of the signature, which do not become headers.
const SIGNATURE: [&str; 5] =
    ["x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-security-token", "x-amz-signature"];
const METADATA: &str = "x-amz-meta-";

/// The headers of the PutObject; policy conditions see them too.
pub(super) fn headers(fields: &Fields, sent: &HeaderMap) -> S3Result<HeaderMap> {
    let owner = HeaderName::from_static("x-amz-expected-bucket-owner");
    let kept = [REFERER, USER_AGENT, owner].into_iter().filter_map(|name| Some((sent.get(&name)?.clone(), name)));
    let mut headers: HeaderMap = kept.map(|(value, name)| (name, value)).collect();
    let mut set = |name: &str, value: &str| {
        let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value.as_bytes())) else {
            return Err(bad(format!(
                "The field {name} cannot be stored with the object: its value is not a valid header."
            )));
        };
        headers.insert(name, value);
        Ok(())
    };
    for (name, value) in fields.iter() {
        match name {
            "acl" => set("x-amz-acl", value)?,
            "tagging" => set("x-amz-tagging", &query(value)?)?,
            name if PLAIN.contains(&name) => set(name, value)?,
            name if name.starts_with("x-amz-") && !SIGNATURE.contains(&name) => set(name, value)?,
            // Other fields belong to the form itself or to a button on its page.
            _ => {}
        }
    }
    Ok(headers)
}

/// Tags in XML, as a query string.
fn query(xml: &str) -> S3Result<String> {
    let encode = |text: &str| utf8_percent_encode(text, super::answer::QUERY).to_string();
    let pairs =
        tagging::from_xml(xml)?.into_iter().map(|(name, value)| format!("{}={}", encode(&name), encode(&value)));
    Ok(pairs.collect::<Vec<_>>().join("&"))
}

/// The PutObject without its body.
pub(super) fn input(bucket: &str, fields: &Fields, headers: &HeaderMap) -> S3Result<PutObjectInput> {
    let text = |name: &str| fields.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
    let metadata: HashMap<String, String> = fields
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(METADATA)?.to_owned(), value.to_owned())))
        .collect();
    let until = text("x-amz-object-lock-retain-until-date")
        .map(|date| Timestamp::parse(TimestampFormat::DateTime, &date))
        .transpose()
        .map_err(|_| bad("x-amz-object-lock-retain-until-date is written as in 2026-12-30T12:00:00Z."))?;
    let tagging = headers.get("x-amz-tagging").and_then(|value| value.to_str().ok());
    Ok(PutObjectInput {
        bucket: bucket.to_owned(),
        key: fields.require("key")?.to_owned(),
        cache_control: text("cache-control"),
        content_disposition: text("content-disposition"),
        content_encoding: text("content-encoding"),
        content_language: text("content-language"),
        content_type: text("content-type"),
        expires: text("expires"),
        metadata: (!metadata.is_empty()).then_some(metadata),
        tagging: tagging.map(str::to_owned),
        storage_class: text("x-amz-storage-class").map(StorageClass::from),
        website_redirect_location: text("x-amz-website-redirect-location"),
        object_lock_mode: text("x-amz-object-lock-mode").map(ObjectLockMode::from),
        object_lock_retain_until_date: until,
        object_lock_legal_hold_status: text("x-amz-object-lock-legal-hold").map(ObjectLockLegalHoldStatus::from),
        ..PutObjectInput::default()
    })
}

fn bad(words: impl Into<String>) -> S3Error {
    refuse(S3ErrorCode::InvalidArgument, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::CONTENT_TYPE;

    const FORM: HeaderValue = HeaderValue::from_static("multipart/form-data");

    #[test]
    fn fields_are_headers_of_the_object() {
        let fields = Fields::from([
            ("key", "a/b"),
            ("acl", "private"),
            ("content-type", "text/plain"),
            ("expires", "never"),
            ("if-none-match", "*"),
            ("x-amz-meta-who", "Zoë"),
            ("x-amz-checksum-crc32", "y/Q5Jg=="),
            ("x-amz-date", "20151229T120000Z"),
            ("tagging", "<Tagging><TagSet><Tag><Key>a b</Key><Value>c=d</Value></Tag></TagSet></Tagging>"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-retain-until-date", "2026-12-30T12:00:00Z"),
            ("submit", "Upload"),
        ]);
        let sent = HeaderMap::from_iter([(REFERER, HeaderValue::from_static("http://a")), (CONTENT_TYPE, FORM)]);
        let headers = headers(&fields, &sent).unwrap();
        assert_eq!(headers.get(REFERER).unwrap(), "http://a");
        assert_eq!(headers.get(CONTENT_TYPE).unwrap(), "text/plain");
        assert_eq!(headers.get("x-amz-acl").unwrap(), "private");
        assert_eq!(headers.get("if-none-match").unwrap(), "*");
        assert_eq!(headers.get("x-amz-checksum-crc32").unwrap(), "y/Q5Jg==");
        assert_eq!(headers.get("x-amz-meta-who").unwrap().as_bytes(), "Zoë".as_bytes());
        assert!(!headers.contains_key("x-amz-date") && !headers.contains_key("submit") && !headers.contains_key("key"));
        let input = input("abc", &fields, &headers).unwrap();
        assert_eq!((input.bucket.as_str(), input.key.as_str()), ("abc", "a/b"));
        assert_eq!((input.content_type.as_deref(), input.expires.as_deref()), (Some("text/plain"), Some("never")));
        assert_eq!(input.metadata, Some(HashMap::from([("who".to_owned(), "Zoë".to_owned())])));
        assert_eq!(input.tagging.as_deref(), Some("a%20b=c%3Dd"));
        assert!(input.object_lock_mode.is_some() && input.object_lock_retain_until_date.is_some());
    }

    #[test]
    fn fields_that_are_no_headers_are_refused() {
        for (name, value) in [("x-amz-meta-a b", "1"), ("x-amz-meta-a", "1\r\nx: 2"), ("content-type", "a\nb")] {
            let error = headers(&Fields::from([(name, value)]), &HeaderMap::new()).unwrap_err();
            assert_eq!(error.code().as_str(), "InvalidArgument", "{name}");
        }
        let error = headers(&Fields::from([("tagging", "a=b")]), &HeaderMap::new()).unwrap_err();
        assert_eq!(error.code().as_str(), "MalformedXML");
        let bad = Fields::from([("key", "k"), ("x-amz-object-lock-retain-until-date", "tomorrow")]);
        assert!(input("abc", &bad, &HeaderMap::new()).is_err());
        assert!(input("abc", &Fields::default(), &HeaderMap::new()).is_err());
    }
}
