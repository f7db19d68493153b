//! The S3 endpoint: serves the store's objects over the S3 protocol.
//!
//! The strata, from the wire inward. A module uses only modules that are named after it in this table, which
//! `tests/tests/tidy/strata.rs` reads.
//!
//! | stratum | modules |
//! | --- | --- |
//! | connections | `server`: listeners, TLS, HTTP; the composition root |
//! | around `s3s` | `layer`: request ids, error documents, websites; `sts`, `post`, `presigned_v2`, `rewrite`: what `s3s` does not support; `adapter`: the seam to `s3s` |
//! | operations | `operations`: their table; `multipart`, `object`, `bucket`, `listing`, `lock`, `lifecycle`, `cors`, `payment`, `unset` |
//! | callers | `access`: the access check; `auth`: secret keys |
//! | one request | `service`: what an operation is given; `inbound`: the body; `outbound`: the response, and the report on the request; `change`: what is audited; `guard`: what `s3s` would wrongly accept; `request`: the context; `metrics`, `access_log` |
//! | rules | `authorization`: who may do what; `body`: kinds and memory of bodies, their way into the store and out of it |
//! | values | `unsupported_headers`, `attributes`, `acl`, `checksum`, `conditions`, `names`, `tagging`, `token`, `storage_class`, `blocking`, `public_access`, `error` |
//! | texts | `if_range`, `entity_tag`, `address`, `client_info`, `document`, `limits`, `peer`, `query`, `response`, `signed_headers`, `xml`; the crates `s3_policy` and `s3_oidc` |
//!
//! Requests for short-lived credentials go from `layer` to `sts`; the session token of a request reaches `auth` by the
//! request's context.
//!
//! A PUT passes `server`, `layer`, `guard`, `rewrite`, `adapter`, then `s3s` itself (routing, XML, signatures), which calls
//! `auth`, `access` and `operations`; `object` takes the body by `body`. Preflights and forms go from `layer` to `cors` and
//! `post`, requests of the website listener to `layer::website`.
//!
//! - An acknowledged write is on disk and visible to every reader; claims about its body were verified before.
//! - Default deny: an operation that `access` does not list, or an account without a grant, is refused.
//! - The store defines the behaviour; this crate decodes requests, streams bodies and encodes responses.

mod access;
mod access_log;
mod acl;
mod adapter;
mod address;
mod attributes;
mod auth;
mod authorization;
mod blocking;
mod body;
mod bucket;
mod change;
mod checksum;
mod client_info;
mod conditions;
mod cors;
mod document;
mod entity_tag;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod guard;
mod if_range;
mod inbound;
mod layer;
mod lifecycle;
mod limits;
mod listing;
mod lock;
mod metrics;
mod multipart;
mod names;
mod object;
mod operations;
mod outbound;
mod payment;
mod peer;
mod post;
mod presigned_v2;
mod public_access;
mod query;
mod request;
mod response;
mod rewrite;
mod server;
mod service;
mod signed_headers;
mod storage_class;
mod sts;
mod tagging;
mod token;
mod unset;
mod unsupported_headers;
mod xml;

pub use address::{BadDomain, Domain, Domains};
pub use authorization::MountRules;
pub use change::{Auditor, Change};
pub use limits::Limits;
pub use metrics::{BUCKETS_MAX, Metrics, REST};
pub use s3_oidc::{Issuer, Issuers, KeySource, Misconfigured};
pub use server::{Config, DELIVERY_LIMIT, Error, Server, Tls, TlsError};

/// The names of all supported operations, as S3 spells them, without forms and preflights.
pub fn operations() -> impl Iterator<Item = &'static str> {
    access::operations()
}

/// A filter for `tracing` that silences `s3s`, which logs each refused request as an error. The access line
/// (`s3::access`, at INFO) and this crate's own errors say more.
pub const LOG_DIRECTIVE: &str = "s3s=off";
