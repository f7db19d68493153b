//! Where the keys of an issuer come from, and how they are read.
//!
//! - Addresses are `https` and come from the configuration, or from the discovery document of a configured issuer, which
//!   has to name that issuer.
//! - The token for the issuer's server is read again for each fetch, since Kubernetes renews it. It is sent to the
//!   configured address only; to the address in a discovery document only if that is on the same host and port.

use std::path::PathBuf;

use http::Uri;
use serde::Deserialize;

use crate::fetch;
use crate::file::read_file;
use crate::jwk::KeySet;

/// The most bytes of a document of keys, and of a discovery document.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// The most bytes of a token for the issuer's server.
const BEARER_BYTES_MAX: u64 = 20_000;

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In the document that the discovery document of the issuer names (OpenID Connect Discovery 1.0, section 4).
    Discovery,
    /// In the document at this address.
    Url(String),
    /// In a file.
    File(PathBuf),
}

/// How to reach the server of an issuer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// The certificates to trust, in PEM; `None`: those of the system.
    pub(crate) authority: Option<PathBuf>,
    /// A file with a token to send.
    pub(crate) bearer: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

/// Reads the keys of `issuer`. The error is for the log of the administrator.
pub(crate) async fn read(issuer: &str, source: &KeySource, reach: &Reach) -> Result<KeySet, String> {
    let document = match source {
        KeySource::File(path) => read_file(path.clone(), DOCUMENT_BYTES_MAX as u64).await?,
        KeySource::Url(url) => get(&address(url)?, reach, true).await?,
        KeySource::Discovery => {
            let configuration = address(&discovery_url(issuer))?;
            let found = get(&configuration, reach, true).await?;
            let found: Discovered = serde_json::from_slice(&found)
                .map_err(|error| format!("{configuration} is no discovery document: {error}"))?;
            if found.issuer != issuer {
                return Err(format!("{configuration} is of the issuer {:?}, not of {issuer:?}", found.issuer));
            }
            let keys = address(&found.jwks_uri)?;
            let same = keys.authority() == configuration.authority();
            get(&keys, reach, same).await?
        }
    };
    KeySet::parse(&document)
}

fn discovery_url(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

/// Parses an address: `https`, a host, no user and no fragment.
pub(crate) fn address(url: &str) -> Result<Uri, String> {
    let wrong = || format!("{url:?} is not an address to fetch keys from: use https:// and a host");
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let host = uri.host().unwrap_or_default();
    let good = uri.scheme_str() == Some("https") && !host.is_empty() && !authority.contains('@') && !url.contains('#');
    if good { Ok(uri) } else { Err(wrong()) }
}

async fn get(uri: &Uri, reach: &Reach, with_bearer: bool) -> Result<Vec<u8>, String> {
    let bearer = match reach.bearer.clone().filter(|_| with_bearer) {
        Some(path) => Some(bearer(path).await?),
        None => None,
    };
    let got = fetch::get(uri, reach.authority.clone(), bearer.as_deref(), DOCUMENT_BYTES_MAX).await;
    got.map_err(|why| format!("{uri}: {why}"))
}

async fn bearer(path: PathBuf) -> Result<String, String> {
    let shown = path.display().to_string();
    let text = String::from_utf8(read_file(path, BEARER_BYTES_MAX).await?);
    let text = text.ok().map(|text| text.trim().to_owned());
    let text = text.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()));
    text.ok_or_else(|| format!("{shown} holds no token"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_with_a_host_and_nothing_hidden() {
        for good in ["https://a", "https://a:6443/openid/v1/jwks", "https://10.0.0.1/x?y=z", "https://[::1]:6443/jwks"]
        {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in [
            "http://a/keys",
            "file:///etc/passwd",
            "/keys",
            "a",
            "",
            "https://",
            "https:///keys",
            "https://user:secret@a/keys",
            "https://a@b/keys",
            "https://a/keys#b",
            "ftp://a/keys",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
        assert_eq!(discovery_url("https://a/b/"), "https://a/b/.well-known/openid-configuration");
    }
}
