//! The S3 endpoint: serves the store's objects over the S3 protocol.
//!
//! A request passes, from the wire inward: `server` (connections), `layer` (ids, access line, metrics), `guard`
//! (refuses what `s3s` would wrongly accept), `rewrite` (repairs what `s3s` would wrongly refuse), `s3s` itself
//! (routing, XML, signatures), `auth` and `access` (secret keys, authorization), and the module of the operation:
//! `bucket`, `object`, `listing`, `multipart` and more. Preflights and forms, which `s3s` does not support, go from
//! `layer` to `cors` and `post`. Request bodies pass through `body`, hashed by `checksum`; `document` validates XML
//! documents before `s3s` reads them. Requests of the website listener go from `layer` to `layer::website`. `access_log`
//! delivers the access logs of buckets.
//!
//! - An acknowledged write is on disk and visible to every reader; claims about its body were verified before.
//! - Default deny: an operation that `access` does not list, or an account without a grant, is refused.
//! - The store defines the behaviour; this crate decodes requests, streams bodies and encodes responses.

mod access;
mod access_log;
mod acl;
mod address;
mod attributes;
mod auth;
mod body;
mod bucket;
mod bucket_policy;
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
mod layer;
mod lifecycle;
mod listing;
mod lock;
mod metrics;
mod multipart;
mod names;
mod object;
mod payment;
mod post;
mod presigned_v2;
mod public_access;
mod request;
mod rewrite;
mod server;
mod service;
mod signed_headers;
mod storage_class;
mod tagging;
mod token;
mod unset;
mod unsupported_headers;
mod xml;

pub use access::MountRules;
pub use address::{BadDomain, Domain, Domains};
pub use change::{Auditor, Change};
pub use metrics::{BUCKETS_MAX, Metrics, REST};
pub use server::{Config, DELIVERY_LIMIT, Error, Limits, Server, Tls, TlsError};

/// The names of all supported operations, as S3 spells them, without forms and preflights.
pub fn operations() -> impl Iterator<Item = &'static str> {
    access::operations()
}

/// A filter for `tracing` that silences `s3s`, which logs each refused request as an error. The access line
/// (`s3::access`, at INFO) and this crate's own errors say more.
pub const LOG_DIRECTIVE: &str = "s3s=off";
