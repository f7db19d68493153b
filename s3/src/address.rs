//! The address of a request: which bucket and key it names, by its path or by its host and path.
//!
//! - The host `BUCKET.DOMAIN`, for a configured domain of the endpoint, names the bucket, and the whole path is the
//!   key. Any other host (the domain itself, an IP address, an unconfigured name) leaves both to the path:
//!   `/BUCKET/KEY`.
//! - The routing of `s3s`, the access check and the access line all use this module, so they cannot disagree.
//! - Case, port and final dot of a host do not count here; a signature covers the host as it was sent.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Version};
use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// A DNS name below which a host names a bucket, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain(String);

/// The error for a text that is not a [`Domain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use a DNS name without a port, as in s3.example.org")]
pub struct BadDomain;

impl FromStr for Domain {
    type Err = BadDomain;

    fn from_str(text: &str) -> Result<Self, BadDomain> {
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let named = text.len() <= 253 && text.split('.').all(label) && text.parse::<IpAddr>().is_err();
        if named { Ok(Self(text.to_ascii_lowercase())) } else { Err(BadDomain) }
    }
}

/// The domains of an endpoint: a cheap handle. Without domains, every request is addressed by its path.
#[derive(Clone, Debug, Default)]
pub struct Domains(Arc<[Domain]>);

impl FromIterator<Domain> for Domains {
    fn from_iter<I: IntoIterator<Item = Domain>>(domains: I) -> Self {
        Self(domains.into_iter().collect())
    }
}

impl Domains {
    /// The bucket that a host names. Where one domain contains another, the longest match counts.
    fn bucket(&self, host: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let host = plain(host);
        if self.0.iter().any(|domain| domain.0 == host) {
            return None;
        }
        let buckets = self.0.iter().filter_map(|domain| host.strip_suffix(domain.0.as_str())?.strip_suffix('.'));
        buckets.min_by_key(|bucket| bucket.len()).map(str::to_owned)
    }
}

impl S3Host for Domains {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let virtual_host = VirtualHost::new(host);
        Ok(match self.bucket(host) {
            Some(bucket) => virtual_host.with_bucket(bucket),
            None => virtual_host,
        })
    }
}

/// A host in lower case, without its port and its final dot.
fn plain(host: &str) -> String {
    let host = without_port(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The bucket and key that a request addresses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The text in the place of a bucket name; it may be an invalid name.
    pub(crate) bucket: String,
    /// The key.
    pub(crate) key: Option<String>,
    /// Whether the host named the bucket.
    pub(crate) by_host: bool,
}

/// The kind of resource that a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// All buckets together.
    Service,
    /// A bucket.
    Bucket,
    /// An object in a bucket.
    Object,
}

impl Address {
    /// What `host` and the percent-decoded `path` address on the website listener: the bucket that `domains` find in the
    /// host, or else the one that is called as the host is.
    pub(crate) fn of_website(domains: &Domains, host: &str, path: &str) -> Self {
        let key = path.strip_prefix('/').unwrap_or(path);
        let bucket = domains.bucket(host).unwrap_or_else(|| plain(host));
        Self { bucket, key: (!key.is_empty()).then(|| key.to_owned()), by_host: true }
    }

    /// The kind of resource.
    pub(crate) fn resource(&self) -> Resource {
        match &self.key {
            Some(_) => Resource::Object,
            None if self.bucket.is_empty() && !self.by_host => Resource::Service,
            None => Resource::Bucket,
        }
    }

    /// The address for `host` and the percent-decoded `path`.
    pub(crate) fn new(domains: &Domains, host: &str, path: &str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let some = |key: &str| (!key.is_empty()).then(|| key.to_owned());
        if let Some(bucket) = domains.bucket(host) {
            return Self { bucket, key: some(path), by_host: true };
        }
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        Self { bucket: bucket.to_owned(), key: some(key), by_host: false }
    }
}

/// The host of a request as `s3s` reads it: its Host header, or the HTTP/2 authority.
pub(crate) fn host(head: &Parts) -> &str {
    let authority = || match head.version {
        Version::HTTP_2 => head.uri.authority().map_or("", |authority| authority.as_str()),
        _ => "",
    };
    if head.headers.contains_key(HOST) { host_header(&head.headers) } else { authority() }
}

/// The Host header, which `s3s` adds to HTTP/2 requests.
pub(crate) fn host_header(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(names: &[&str]) -> Domains {
        names.iter().map(|name| name.parse::<Domain>().unwrap()).collect()
    }

    fn address(host: &str, path: &str) -> (String, Option<String>, bool) {
        let address = Address::new(&domains(&["s3.example.org", "example.org", "localhost"]), host, path);
        (address.bucket, address.key, address.by_host)
    }

    #[test]
    fn paths_name_bucket_and_key() {
        for host in ["s3.example.org", "S3.Example.org:9000", "127.0.0.1:9000", "[::1]:9000", "elsewhere.net", ""] {
            let key = |key: &str| Some(key.to_owned());
            assert_eq!(address(host, "/"), (String::new(), None, false), "{host}");
            assert_eq!(address(host, "/abc"), ("abc".into(), None, false), "{host}");
            assert_eq!(address(host, "/abc/"), ("abc".into(), None, false), "{host}");
            assert_eq!(address(host, "/abc/a/b"), ("abc".into(), key("a/b"), false), "{host}");
            assert_eq!(address(host, "/abc//b"), ("abc".into(), key("/b"), false), "{host}");
        }
    }

    #[test]
    fn hosts_name_buckets_below_the_longest_domain() {
        for (host, bucket) in [
            ("abc.s3.example.org", "abc"),
            ("abc.s3.example.org:9000", "abc"),
            ("ABC.s3.EXAMPLE.org.", "abc"),
            ("a.b.c.s3.example.org", "a.b.c"),
            ("abc.example.org", "abc"),
            ("abc.localhost:1", "abc"),
            (".s3.example.org", ""),
        ] {
            assert_eq!(address(host, "/a/b"), (bucket.to_owned(), Some("a/b".to_owned()), true), "{host}");
            assert_eq!(address(host, "//b"), (bucket.to_owned(), Some("/b".to_owned()), true), "{host}");
            assert_eq!(address(host, "/"), (bucket.to_owned(), None, true), "{host}");
        }
        assert!(!address("abcs3.example.com", "/").2 && !address("notlocalhost", "/").2);
    }

    #[test]
    fn routing_agrees_with_the_address() {
        let domains = domains(&["s3.example.org"]);
        for host in ["abc.s3.example.org:80", "s3.example.org", "[::1]", "x..s3.example.org", "a b", "localhost"] {
            let parsed = domains.parse_host_header(host).unwrap();
            let address = Address::new(&domains, host, "/k");
            assert_eq!(parsed.bucket(), address.by_host.then_some(address.bucket.as_str()), "{host}");
        }
    }

    #[test]
    fn domains_are_dns_names() {
        assert_eq!("S3.Example.org".parse(), Ok(Domain("s3.example.org".into())));
        for text in ["", ".", "a..b", "a.", "127.0.0.1", "s3.example.org:9000", "http://s3", "-a", "a_b"] {
            assert_eq!(text.parse::<Domain>(), Err(BadDomain), "{text}");
        }
    }
}
