//! The signature of a form's policy, and its signer (S3 API, "Authenticating requests in browser-based uploads using
//! POST").
//!
//! - Version 4 signs the policy with a key for one day, region and service, which is valid for 7 days.
//! - Version 2 is accepted for forms, as for URLs (`presigned_v2`): SDKs still create such forms, and the signed policy
//!   (which expires, with HMAC-SHA1) can be replayed no longer than one of Version 4.
//! - Signatures are compared in constant time; no error contains a secret.

use objstore::clock::Timestamp;
use s3s::auth::SecretKey;
use s3s::{S3ErrorCode, S3Result};
use s3s_sigv4::{AmzDate, CredentialV4, calculate_signature};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

use super::form::Fields;
use crate::error::{bad_argument, of_policy, refuse};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// How long a signing key is valid, in seconds.
const KEY_SECONDS: i64 = 7 * 24 * 60 * 60;
/// The largest accepted lead of a signer's clock, in seconds.
const SKEW_SECONDS: i64 = 15 * 60;

/// The signature of a policy, not yet verified.
#[derive(Debug)]
pub(super) enum Signature<'a> {
    V4(V4<'a>),
    V2(V2<'a>),
}

/// Signature Version 4.
#[derive(Debug)]
pub(super) struct V4<'a> {
    policy: &'a str,
    credential: CredentialV4<'a>,
    date: AmzDate,
    signature: &'a str,
}

/// Signature Version 2.
#[derive(Debug)]
pub(super) struct V2<'a> {
    policy: &'a str,
    access_key: &'a str,
    signature: &'a str,
}

impl<'a> Signature<'a> {
    /// Finds the signature in a form; `None` if there is none.
    pub(super) fn find(fields: &'a Fields, region: &str, now: Timestamp) -> S3Result<Option<Self>> {
        let any = |names: &[&str]| names.iter().any(|name| fields.get(name).is_some());
        if any(&["x-amz-signature", "x-amz-credential", "x-amz-algorithm", "x-amz-date"]) {
            return V4::find(fields, region, now).map(|found| Some(Self::V4(found)));
        }
        if any(&["signature", "awsaccesskeyid", "policy"]) {
            let access_key = fields.require("awsaccesskeyid")?;
            let (signature, policy) = (fields.require("signature")?, fields.require("policy")?);
            return Ok(Some(Self::V2(V2 { policy, access_key, signature })));
        }
        if any(&["x-amz-security-token"]) {
            let words = "The form has a session token and no signature: sign it with the keys of the session.";
            return Err(refuse(S3ErrorCode::InvalidToken, words));
        }
        Ok(None)
    }

    /// The access key id that it names.
    pub(super) fn access_key(&self) -> &'a str {
        match self {
            Self::V4(found) => found.credential.access_key_id,
            Self::V2(found) => found.access_key,
        }
    }

    /// The policy that it signs.
    pub(super) fn policy(&self) -> &'a str {
        match self {
            Self::V4(found) => found.policy,
            Self::V2(found) => found.policy,
        }
    }

    /// Verifies it with the secret of its access key.
    pub(super) fn verify(&self, secret: &SecretKey) -> S3Result<()> {
        let (made, claimed) = match self {
            Self::V4(found) => (found.make(secret), found.signature),
            Self::V2(found) => (s3s_sigv2::calculate_signature(secret.expose(), found.policy), found.signature),
        };
        if made.as_bytes().ct_eq(claimed.as_bytes()).into() {
            return Ok(());
        }
        Err(of_policy(self.access_key(), self.policy(), claimed))
    }
}

impl<'a> V4<'a> {
    fn find(fields: &'a Fields, region: &str, now: Timestamp) -> S3Result<Self> {
        let algorithm = fields.require("x-amz-algorithm")?;
        if algorithm != ALGORITHM {
            return Err(bad_argument("Only AWS4-HMAC-SHA256 is supported", "X-Amz-Algorithm", algorithm));
        }
        let given = fields.require("x-amz-credential")?;
        let bad = |words: String| bad_argument(words, "x-amz-credential", given);
        let credential = CredentialV4::parse(given).map_err(|_| {
            let form = "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request";
            bad(format!("the Credential is mal-formed; expecting \"{form}\"."))
        })?;
        if credential.aws_region != region {
            return Err(bad(format!("the region '{}' is wrong; expecting '{region}'", credential.aws_region)));
        }
        if credential.aws_service != "s3" {
            let service = credential.aws_service;
            return Err(bad(format!("incorrect service \"{service}\". This endpoint belongs to \"s3\".")));
        }
        let (date, signed) = parse_date(fields.require("x-amz-date")?)?;
        if date.fmt_date().as_str() != credential.date {
            let (day, date) = (credential.date, date.fmt_date());
            return Err(bad(format!(
                "Invalid credential date \"{day}\". This date is not the same as X-Amz-Date: \"{date}\"."
            )));
        }
        let age = now.parts().0.saturating_sub(signed);
        if !(-SKEW_SECONDS..KEY_SECONDS).contains(&age) {
            let words = "The form was signed more than 7 days ago, or its x-amz-date is in the future.";
            return Err(refuse(S3ErrorCode::AccessDenied, words));
        }
        let (policy, signature) = (fields.require("policy")?, fields.require("x-amz-signature")?);
        Ok(Self { policy, credential, date, signature })
    }

    fn make(&self, secret: &SecretKey) -> String {
        let CredentialV4 { aws_region, aws_service, .. } = self.credential;
        calculate_signature(self.policy, secret.expose(), &self.date, aws_region, aws_service)
    }
}

/// Parses `20261230T120000Z`, also into seconds since 1970.
fn parse_date(text: &str) -> S3Result<(AmzDate, i64)> {
    let format = time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
    let seconds =
        time::PrimitiveDateTime::parse(text, format).map(|time| OffsetDateTime::unix_timestamp(time.assume_utc()));
    match (AmzDate::parse(text), seconds) {
        (Ok(date), Ok(seconds)) => Ok((date, seconds)),
        _ => Err(bad_argument("X-Amz-Date must be formated via ISO8601 Long format", "X-Amz-Date", text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const POLICY: &str =
        "eyJleHBpcmF0aW9uIjogIjIwMzAtMDEtMDFUMDA6MDA6MDBaIiwgImNvbmRpdGlvbnMiOiBbeyJidWNrZXQiOiAiYWJjIn1dfQ==";
    // Computed with another implementation of HMAC.
    const V4_SIGNATURE: &str = "245ebc5a5d234c28055b2dcefe43b9029cc2ba3bf92549137025fecaaf7897ed";
    const V2_SIGNATURE: &str = "cnODCKDJMs9YwNMQK9OF8kn3E28=";
    const CREDENTIAL: &str = "AKID/20151229/us-east-1/s3/aws4_request";
    /// 2015-12-29T12:00:00Z
    const SIGNED: i64 = 1_451_390_400;

    fn v4(credential: &str, date: &str, signature: &str) -> Fields {
        Fields::from([
            ("policy", POLICY),
            ("x-amz-algorithm", ALGORITHM),
            ("x-amz-credential", credential),
            ("x-amz-date", date),
            ("x-amz-signature", signature),
        ])
    }

    /// The access key, or the code of the refusal.
    fn verify(fields: &Fields, age: i64) -> Result<String, String> {
        let verified = Signature::find(fields, "us-east-1", Timestamp::from_parts(SIGNED + age, 0)).and_then(|found| {
            let Some(found) = found else { return Ok("nobody".to_owned()) };
            found.verify(&SecretKey::from(SECRET)).map(|()| found.access_key().to_owned())
        });
        verified.map_err(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn both_versions_are_verified() {
        let fields = v4(CREDENTIAL, "20151229T120000Z", V4_SIGNATURE);
        assert_eq!(verify(&fields, 0), Ok("AKID".into()));
        let v2 = |signature| Fields::from([("policy", POLICY), ("awsaccesskeyid", "AKID"), ("signature", signature)]);
        assert_eq!(verify(&v2(V2_SIGNATURE), 0), Ok("AKID".into()));
        assert_eq!(verify(&v2("AAAA"), 0), Err("SignatureDoesNotMatch".into()));
        assert_eq!(verify(&v2(""), 0), Err("SignatureDoesNotMatch".into()));
        let forged = v4(CREDENTIAL, "20151229T120000Z", &V4_SIGNATURE.replace('a', "b"));
        assert_eq!(verify(&forged, 0), Err("SignatureDoesNotMatch".into()));
        assert_eq!(verify(&Fields::from([("key", "k")]), 0), Ok("nobody".into()));
    }

    #[test]
    fn a_signature_is_good_for_seven_days() {
        let fields = v4(CREDENTIAL, "20151229T120000Z", V4_SIGNATURE);
        for (age, good) in
            [(-SKEW_SECONDS, true), (-SKEW_SECONDS - 1, false), (KEY_SECONDS - 1, true), (KEY_SECONDS, false)]
        {
            assert_eq!(verify(&fields, age).is_ok(), good, "{age}");
        }
    }

    #[test]
    fn half_a_signature_is_none() {
        let half = |pairs: [(&str, &str); 2]| verify(&Fields::from(pairs), 0).unwrap_err();
        assert_eq!(half([("policy", POLICY), ("key", "k")]), "InvalidArgument");
        assert_eq!(half([("policy", POLICY), ("awsaccesskeyid", "AKID")]), "InvalidArgument");
        assert_eq!(half([("signature", "x"), ("awsaccesskeyid", "AKID")]), "InvalidArgument");
        assert_eq!(half([("policy", POLICY), ("x-amz-signature", "x")]), "InvalidArgument");
        assert_eq!(half([("policy", POLICY), ("x-amz-security-token", "x")]), "InvalidArgument");
        assert_eq!(half([("key", "k"), ("x-amz-security-token", "x")]), "InvalidToken");
        for (credential, date) in [
            ("AKID/20151229/eu-west-1/s3/aws4_request", "20151229T120000Z"),
            ("AKID/20151229/us-east-1/ec2/aws4_request", "20151229T120000Z"),
            ("AKID/20151228/us-east-1/s3/aws4_request", "20151229T120000Z"),
            ("AKID", "20151229T120000Z"),
            (CREDENTIAL, "2015-12-29"),
            (CREDENTIAL, "20151399T120000Z"),
        ] {
            let fields = v4(credential, date, V4_SIGNATURE);
            assert_eq!(verify(&fields, 0), Err("InvalidArgument".into()), "{credential} {date}");
        }
    }
}
