//! Configuration of the S3 endpoint.

use std::io;
use std::time::Duration;

use s3_oidc::Issuers;

use super::Tls;
use crate::address::Domains;
use crate::change::Auditor;
use crate::limits::Limits;
use crate::metrics::Metrics;

/// Configuration of the endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region that signatures have to name.
    pub region: String,
    /// The metrics to count in.
    pub metrics: Metrics,
    /// Receives changes of buckets and their settings, for an audit trail.
    pub auditor: Auditor,
    /// How long requests in progress may take to end after a shutdown.
    pub drain: Duration,
    /// Whether new buckets have all four settings of their public access block on.
    pub block_public_access: bool,
    /// Whether presigned URLs of Signature Version 2 are accepted.
    pub presigned_v2: bool,
    /// The issuers of OpenID Connect whose tokens STS accepts; none by default.
    pub issuers: Issuers,
    /// The domains below which a host names a bucket.
    pub domains: Domains,
    /// The certificate for TLS; `None` means plain HTTP.
    pub tls: Option<Tls>,
    /// The domains below which a host names a bucket on the website listener.
    pub website_domains: Domains,
    /// How old a line of a bucket's access log gets before it is delivered.
    pub access_log_delay: Duration,
    /// Limits on what a client can make the server hold.
    pub limits: Limits,
}

impl Config {
    /// A configuration with a drain of 30 seconds, no public access block, presigned URLs of both versions, plain HTTP,
    /// addressing by path and the default limits.
    pub fn new(region: impl Into<String>, metrics: Metrics) -> Self {
        Self {
            region: region.into(),
            metrics,
            auditor: Auditor::default(),
            drain: Duration::from_secs(30),
            block_public_access: true,
            presigned_v2: true,
            issuers: Issuers::default(),
            domains: Domains::default(),
            tls: None,
            website_domains: Domains::default(),
            access_log_delay: Duration::from_secs(5 * 60),
            limits: Limits::default(),
        }
    }
}

/// Why the endpoint cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The region is not valid.
    #[error("\"{0}\" is not a valid region: use lower-case letters, digits and \"-\", as in us-east-1")]
    Region(String),
    /// The listening socket failed.
    #[error("the S3 socket cannot accept connections")]
    Accept(#[source] io::Error),
}
