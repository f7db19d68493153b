//! The S3 endpoint: the object handle of the store.
//!
//! A request passes, from the wire inward: `server` (connections), `layer` (ids, access line, figures), `guard` (what
//! `s3s` would let pass), `rewrite` (what it would refuse, and HTTP allows), `s3s` itself (routes, XML, signatures), `auth` and `access` (whose key, which right), and the
//! operation's family: `bucket`, `object`, `listing`, `multipart` and more. Preflights and forms, which `s3s` does not
//! answer, go from `layer` to `cors` and `post`. Content passes through `body`, hashed by `checksum`; documents too, which
//! `document` checks before `s3s` reads them.
//!
//! - An acknowledged write is on disk and visible to every reader; what it claims of its body was proved before.
//! - Default deny: an operation that `access` does not list, or an account without a grant, is refused.
//! - Meaning lives in the store; this crate unpacks requests, streams bodies and words answers.

mod access;
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
mod offer;
mod ownership;
mod payment;
mod policy;
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
mod xml;

pub use access::MountRules;
pub use address::{BadDomain, Domain, Domains};
pub use change::{Auditor, Change};
pub use metrics::{BUCKETS_MAX, Metrics, REST};
pub use server::{Config, Error, Limits, Server, Tls, TlsError};

/// The names of all operations that are offered, as S3 calls them. Forms and preflights are not among them.
pub fn operations() -> impl Iterator<Item = &'static str> {
    access::operations()
}

/// The filter for `tracing` that silences `s3s`, which logs each refused request as an error: the access line
/// (`s3::access`, at INFO) and this crate's own errors tell it better.
pub const LOG_DIRECTIVE: &str = "s3s=off";
