//! The policy context of a request: the values that policy conditions can refer to.
//!
//! - Only a bucket with a policy pays for it.
//! - A value too long to be compared is withheld, and a decision that needed it is a refusal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use http::{HeaderMap, Uri};
use objstore::clock::{Clock as _, SystemClock, Timestamp};
use objstore::store::Account;
use percent_encoding::percent_decode_str;
use s3_policy::{Facts, Key};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use super::ask::{Ask, BodyFacts};
use super::principal;
use super::session::Session;
use crate::peer::Peer;
use crate::tagging;

const SECONDS_OF_DAY: i64 = 24 * 60 * 60;
/// The assumed age of a signature without a date: a hundred years.
const UNKNOWN_AGE_MS: i64 = 100 * 365 * SECONDS_OF_DAY * 1000;
/// The longest value in bytes that a condition can compare; a key has half as many.
pub(super) const VALUE_BYTES_MAX: usize = 2048;

/// What a request's context says about its sender and its operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// The client's connection; `None` for a request without one.
    pub(crate) peer: Option<Peer>,
    /// The operation that the request was routed to.
    pub(crate) operation: &'static str,
    /// Whether its URL is signed with Signature Version 2.
    pub(crate) url_v2: bool,
}

/// The values from a request's head.
pub(super) struct PolicyContext {
    headers: HeaderMap,
    query: Vec<(String, String)>,
    sender: Sender,
    /// The region of this endpoint.
    region: Arc<str>,
    now: Timestamp,
    /// The cached decision on each statement that does not depend on the object.
    decided: Box<[OnceLock<bool>]>,
    /// Whether a value was withheld because it is too long.
    withheld: AtomicBool,
}

/// The values of one question.
pub(super) struct CallerFacts<'a> {
    pub(super) context: &'a PolicyContext,
    pub(super) account: Option<&'a Account>,
    /// The session in which the account acts.
    pub(super) session: Option<&'a Session>,
    /// The account that owns the bucket.
    pub(super) owner: Option<&'a str>,
    pub(super) ask: &'a Ask,
    /// The object's tags.
    pub(super) tags: &'a BTreeMap<String, String>,
    /// Whether decisions on statements may be cached for further questions.
    pub(super) cached: bool,
}

impl PolicyContext {
    /// The context for a policy with this many statements.
    pub(super) fn new((headers, uri): (&HeaderMap, &Uri), sender: Sender, region: Arc<str>, statements: usize) -> Self {
        Self {
            headers: headers.clone(),
            query: parameters(uri),
            sender,
            region,
            now: SystemClock.now(),
            decided: std::iter::repeat_with(OnceLock::new).take(statements).collect(),
            withheld: AtomicBool::new(false),
        }
    }

    /// Whether a value was withheld because it is too long.
    pub(super) fn withheld(&self) -> bool {
        self.withheld.load(Ordering::Relaxed)
    }

    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    fn parameter(&self, name: &str) -> Option<String> {
        self.query.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
    }

    /// Whether the URL is signed, with either version.
    fn is_url_signed(&self) -> bool {
        self.sender.url_v2 || self.parameter("X-Amz-Signature").is_some()
    }

    /// `s3:signatureversion`: `AWS` is Version 2.
    fn signature_version(&self) -> Option<&'static str> {
        self.signed().map(|_| if self.sender.url_v2 { "AWS" } else { "AWS4-HMAC-SHA256" })
    }

    /// `s3:authType`: where the signature stands.
    fn signed(&self) -> Option<&'static str> {
        if self.is_url_signed() {
            return Some("REST-QUERY-STRING");
        }
        self.header("authorization").map(|_| "REST-HEADER")
    }

    /// Whether the operation creates an object, if it is one that `s3:PutObject` allows: some only prepare an upload
    /// (S3 User Guide, Enforce conditional writes).
    fn creates_object(&self) -> Option<bool> {
        match self.sender.operation {
            "PutObject" | "PostObject" | "CopyObject" | "CompleteMultipartUpload" => Some(true),
            "CreateMultipartUpload" | "UploadPart" | "UploadPartCopy" => Some(false),
            _ => None,
        }
    }

    /// `x-amz-content-sha256`: a presigned URL signs no body (S3 API, Amazon S3 Signature Version 4 authentication specific
    /// policy keys).
    fn content_sha256(&self) -> Option<String> {
        let unsigned = || self.is_url_signed().then(|| "UNSIGNED-PAYLOAD".to_owned());
        self.header("x-amz-content-sha256").or_else(unsigned)
    }

    /// The age of the signature in milliseconds. Version 2 carries no date, so it counts as very old.
    fn age_ms(&self) -> Option<i64> {
        if self.sender.url_v2 {
            return Some(UNKNOWN_AGE_MS);
        }
        let date = self.parameter("X-Amz-Date").or_else(|| self.header("x-amz-date"))?;
        let format = format_description!("[year][month][day]T[hour][minute][second]Z");
        let signed = time::PrimitiveDateTime::parse(&date, format).ok()?.assume_utc().unix_timestamp();
        Some(self.now.millis() - signed * 1000)
    }

    fn now(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp(self.now.parts().0).ok()
    }
}

/// The decoded parameters of a URL.
pub(crate) fn parameters(uri: &Uri) -> Vec<(String, String)> {
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

impl CallerFacts<'_> {
    fn global(&self, name: &str) -> Option<String> {
        let context = self.context;
        match name {
            "aws:sourceip" => context.sender.peer.map(|peer| peer.address.ip().to_canonical().to_string()),
            "aws:securetransport" => context.sender.peer.map(|peer| peer.secure.to_string()),
            "aws:currenttime" => context.now()?.format(&Rfc3339).ok(),
            "aws:epochtime" => Some(context.now.parts().0.to_string()),
            "aws:useragent" => context.header("user-agent"),
            "aws:referer" => context.header("referer"),
            "aws:resourceaccount" => self.owner.map(str::to_owned),
            "aws:requestedregion" => Some(context.region.to_string()),
            _ => principal::value(name, self.account, self.session),
        }
    }

    /// Condition keys of S3, without their `s3:` prefix.
    fn own(&self, name: &str) -> Option<String> {
        let (context, ask) = (self.context, self.ask);
        match name {
            "prefix" => ask.body.prefix.clone().or_else(|| context.parameter(name)),
            "delimiter" | "max-keys" => context.parameter(name),
            "versionid" => ask.version.clone(),
            "authtype" if context.sender.operation == "PostObject" => self.account.map(|_| "POST".into()),
            "authtype" => context.signed().map(str::to_owned),
            "signatureversion" => context.signature_version().map(str::to_owned),
            "signatureage" => context.age_ms().map(|age| age.to_string()),
            "resourceaccount" => self.owner.map(str::to_owned),
            "object-lock-mode" => ask.body.lock_mode.clone().or_else(|| context.header("x-amz-object-lock-mode")),
            "object-lock-legal-hold" => {
                ask.body.legal_hold.clone().or_else(|| context.header("x-amz-object-lock-legal-hold"))
            }
            "object-lock-retain-until-date" => self.retain_until(),
            "object-lock-remaining-retention-days" => self.days_left().map(|days| days.to_string()),
            "if-match" | "if-none-match" => context.header(name),
            "objectcreationoperation" => context.creates_object().map(|creates| creates.to_string()),
            "tlsversion" => context.sender.peer?.tls_version.map(str::to_owned),
            "x-amz-content-sha256" => context.content_sha256(),
            _ if name.starts_with("x-amz-") => context.header(name),
            _ => None,
        }
    }

    fn retain_until(&self) -> Option<String> {
        let from_body = self.ask.body.retain_until.clone();
        from_body.or_else(|| self.context.header("x-amz-object-lock-retain-until-date"))
    }

    fn days_left(&self) -> Option<i64> {
        let until = OffsetDateTime::parse(&self.retain_until()?, &Rfc3339).ok()?;
        Some((until.unix_timestamp() - self.context.now.parts().0).div_euclid(SECONDS_OF_DAY))
    }

    /// The tags that the request would set.
    fn asked_tags(&self) -> BTreeMap<String, String> {
        let from_header = || tagging::from_query(&self.context.header("x-amz-tagging")?).ok();
        self.ask.body.tags.clone().or_else(from_header).unwrap_or_default()
    }

    /// `x-amz-copy-source` as policies write it: decoded, with or without a leading slash, without a version.
    fn copy_source(&self) -> Vec<String> {
        let Some(given) = self.context.header("x-amz-copy-source") else { return Vec::new() };
        let path = given.split("?versionId=").next().unwrap_or_default();
        let path = percent_decode_str(path).decode_utf8_lossy();
        let bare = path.strip_prefix('/').unwrap_or(&path);
        vec![bare.to_owned(), format!("/{bare}")]
    }
}

impl CallerFacts<'_> {
    fn found(&self, key: &Key) -> Vec<String> {
        let one = match (key.name(), key.tag()) {
            ("s3:x-amz-copy-source", _) => return self.copy_source(),
            ("s3:requestobjecttagkeys", _) => return self.asked_tags().into_keys().collect(),
            ("s3:requestobjecttag/", Some(tag)) => self.asked_tags().remove(tag),
            ("s3:existingobjecttag/", Some(tag)) => self.tags.get(tag).cloned(),
            (name, _) => match name.strip_prefix("s3:") {
                Some(own) => self.own(own),
                None => self.global(name),
            },
        };
        one.into_iter().collect()
    }
}

impl Facts for CallerFacts<'_> {
    fn values(&self, key: &Key) -> Vec<String> {
        let mut found = self.found(key);
        let known = found.len();
        found.retain(|value| value.len() <= VALUE_BYTES_MAX);
        if found.len() < known {
            self.context.withheld.store(true, Ordering::Relaxed);
        }
        found
    }

    fn once(&self, statement: usize, decide: &dyn Fn() -> bool) -> bool {
        match self.context.decided.get(statement) {
            Some(decided) if self.cached && self.ask.body == BodyFacts::default() => *decided.get_or_init(decide),
            // Values from a body belong to one question only.
            _ => decide(),
        }
    }
}
