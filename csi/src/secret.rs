//! S3 keys in Kubernetes Secrets, in all forms that such Secrets have.
//!
//! - Plain keys: `accessKeyId` and `secretAccessKey`, `accessKeyID` and `accessSecretKey`, or `AWS_ACCESS_KEY_ID` and
//!   `AWS_SECRET_ACCESS_KEY` (which COSI v1alpha2 writes too).
//! - COSI v1alpha1: one entry `BucketInfo`, a JSON document whose `spec.secretS3` holds the key.
//! - An early COSI v1alpha2: `COSI_S3_ACCESS_KEY_ID` and `COSI_S3_ACCESS_SECRET_KEY`.
//! - If several forms are present, the first in this order counts. Other entries are ignored.
//! - Errors name entries and never quote values; so the JSON parser's messages, which quote, are omitted.

use std::collections::HashMap;

use objstore::store::Secret;
use serde::{Deserialize, Serialize};

/// An access key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    /// The public half.
    pub id: String,
    /// The secret half.
    #[serde(with = "crate::credentials::secret_text")]
    pub secret: Secret,
}

/// Why a non-empty Secret yields no access key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No known entry is present.
    #[error(
        "the secret has no S3 key: give it the entries accessKeyId and secretAccessKey, or use the Secret of a COSI \
         BucketAccess"
    )]
    NoKey,
    /// One half of the key is missing or empty.
    #[error("the secret has an incomplete S3 key: the entry {missing} is missing or empty")]
    Half {
        /// The other entry.
        missing: &'static str,
    },
    /// The entry `BucketInfo` is not a document of COSI.
    #[error("the entry BucketInfo of the secret is not a COSI BucketInfo document (at line {line}, column {column})")]
    NotBucketInfo {
        /// The line of the error.
        line: usize,
        /// The column of the error.
        column: usize,
    },
    /// The entry `BucketInfo` is for another protocol.
    #[error("the entry BucketInfo of the secret has no S3 key; the BucketAccess has to request the protocol S3")]
    NotS3,
}

/// The names of both halves, in the order of preference.
const PAIRS: [(&str, &str); 4] = [
    ("accessKeyId", "secretAccessKey"),
    ("accessKeyID", "accessSecretKey"),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("COSI_S3_ACCESS_KEY_ID", "COSI_S3_ACCESS_SECRET_KEY"),
];

/// The access key in `secrets`; `None` if there are no secrets.
pub fn parse(secrets: &HashMap<String, String>) -> Result<Option<AccessKey>, Error> {
    if secrets.is_empty() {
        return Ok(None);
    }
    let named = PAIRS.iter().find(|(id, secret)| secrets.contains_key(*id) || secrets.contains_key(*secret));
    match (named, secrets.get("BucketInfo")) {
        (Some((id, secret)), _) => pair(entry(secrets, id), entry(secrets, secret), (*id, *secret)).map(Some),
        (None, Some(document)) => bucket_info(document).map(Some),
        (None, None) => Err(Error::NoKey),
    }
}

/// The value of an entry, without the line end that manual creation of a Secret often adds.
fn entry<'a>(secrets: &'a HashMap<String, String>, name: &str) -> &'a str {
    secrets.get(name).map_or("", |value| value.trim())
}

fn pair(id: &str, secret: &str, names: (&'static str, &'static str)) -> Result<AccessKey, Error> {
    match (id, secret) {
        ("", _) => Err(Error::Half { missing: names.0 }),
        (_, "") => Err(Error::Half { missing: names.1 }),
        (id, secret) => Ok(AccessKey { id: id.to_owned(), secret: Secret::new(secret) }),
    }
}

#[derive(Deserialize)]
struct BucketInfo {
    spec: BucketInfoSpec,
}

#[derive(Deserialize)]
struct BucketInfoSpec {
    #[serde(rename = "secretS3")]
    s3: Option<SecretS3>,
}

#[derive(Deserialize)]
struct SecretS3 {
    #[serde(rename = "accessKeyID", default)]
    id: String,
    #[serde(rename = "accessSecretKey", default)]
    secret: String,
}

fn bucket_info(document: &str) -> Result<AccessKey, Error> {
    let info: BucketInfo = serde_json::from_str(document)
        .map_err(|error| Error::NotBucketInfo { line: error.line(), column: error.column() })?;
    let s3 = info.spec.s3.ok_or(Error::NotS3)?;
    pair(&s3.id, &s3.secret, ("spec.secretS3.accessKeyID", "spec.secretS3.accessSecretKey"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    const BUCKET_INFO: &str = r#"{"metadata":{"name":"bc-1","creationTimestamp":null},"spec":{"bucketName":"b",
        "authenticationType":"KEY","secretS3":{"endpoint":"http://s3","region":"us-east-1","accessKeyID":"AKID",
        "accessSecretKey":"hunter2"},"secretAzure":null,"protocols":["s3"]}}"#;

    #[test]
    fn every_form_gives_the_key() {
        let forms = [
            map(&[("accessKeyId", "AKID"), ("secretAccessKey", "hunter2")]),
            map(&[("accessKeyID", "AKID\n"), ("accessSecretKey", "hunter2\n"), ("endpoint", "http://s3")]),
            map(&[("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "hunter2"), ("COSI_PROTOCOL", "S3")]),
            map(&[("COSI_S3_ACCESS_KEY_ID", "AKID"), ("COSI_S3_ACCESS_SECRET_KEY", "hunter2"), ("COSI_S3_REGION", "")]),
            map(&[("BucketInfo", BUCKET_INFO)]),
        ];
        for form in forms {
            let key = parse(&form).unwrap().unwrap();
            assert_eq!((key.id.as_str(), key.secret.reveal()), ("AKID", "hunter2"));
        }
        assert_eq!(parse(&map(&[])).unwrap(), None);
    }

    #[test]
    fn what_holds_no_key_is_refused() {
        assert_eq!(parse(&map(&[("password", "hunter2")])), Err(Error::NoKey));
        let half = Err(Error::Half { missing: "secretAccessKey" });
        assert_eq!(parse(&map(&[("accessKeyId", "AKID")])), half);
        assert_eq!(parse(&map(&[("accessKeyId", "AKID"), ("secretAccessKey", " \n")])), half);
        assert_eq!(parse(&map(&[("BucketInfo", r#"{"spec":{"secretS3":null}}"#)])), Err(Error::NotS3));
        assert!(matches!(parse(&map(&[("BucketInfo", r#"{"spec":{"secretS3":{}}}"#)])), Err(Error::Half { .. })));
    }

    #[test]
    fn errors_and_debug_show_no_secret() {
        let bad = [
            map(&[("BucketInfo", r#"{"spec":{"secretS3":"hunter2"}}"#)]),
            map(&[("BucketInfo", r#"{"spec":{"secretS3":{"accessKeyID":"","accessSecretKey":"hunter2"}}}"#)]),
            map(&[("BucketInfo", "hunter2")]),
            map(&[("hunter2", "hunter2")]),
            map(&[("secretAccessKey", "hunter2")]),
        ];
        for secrets in bad {
            let error = parse(&secrets).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let key = parse(&map(&[("BucketInfo", BUCKET_INFO)])).unwrap().unwrap();
        assert!(!format!("{key:?}").contains("hunter2"));
    }
}
