//! The configured issuers, and the verification of a token by the one that it names.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cache::{Cache, Times};
use crate::jws::Token;
use crate::refusal::Refusal;
use crate::source::{KeySource, Reach, address};

/// The most issuers: each has its keys in memory.
const ISSUERS_MAX: usize = 16;
/// The most characters of an unknown issuer that an error repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// The configuration of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Its name, exactly as `iss` of its tokens has it.
    pub url: String,
    /// The accepted audiences, exactly as `aud` has them.
    pub audiences: Vec<String>,
    /// Where its keys are.
    pub keys: KeySource,
    /// The certificates to trust for it, in PEM; `None`: those of the system.
    pub authority: Option<PathBuf>,
    /// A file with a token to send to it, as the API server of Kubernetes requires one.
    pub bearer: Option<PathBuf>,
}

/// Why an issuer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the issuer \"{issuer}\" cannot be used: {why}")]
pub struct Misconfigured {
    issuer: String,
    why: String,
}

/// What a verified token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    /// Its issuer.
    pub issuer: String,
    /// Whom it identifies.
    pub subject: String,
    /// The accepted audience.
    pub audience: String,
}

/// The configured issuers: a cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Issuers(Arc<[Configured]>);

#[derive(Debug)]
struct Configured {
    audiences: Vec<String>,
    url: String,
    cache: Arc<Cache>,
}

impl Issuers {
    /// The issuers of a configuration. Nothing is fetched before the first token.
    ///
    /// # Errors
    /// An issuer without an audience, with an address that is not `https`, or that is configured twice; too many issuers.
    pub fn new(issuers: Vec<Issuer>) -> Result<Self, Misconfigured> {
        Self::with_times(issuers, Times::default())
    }

    pub(crate) fn with_times(issuers: Vec<Issuer>, times: Times) -> Result<Self, Misconfigured> {
        let mut configured: Vec<Configured> = Vec::new();
        if let Some(issuer) = issuers.get(ISSUERS_MAX) {
            let why = format!("at most {ISSUERS_MAX} issuers can be configured");
            return Err(Misconfigured { issuer: issuer.url.clone(), why });
        }
        for issuer in issuers {
            let twice = configured.iter().any(|other| other.url == issuer.url);
            check(&issuer, twice).map_err(|why| Misconfigured { issuer: issuer.url.clone(), why })?;
            let reach = Reach { authority: issuer.authority, bearer: issuer.bearer };
            let cache = Arc::new(Cache::new(issuer.url.clone(), issuer.keys, reach, times));
            configured.push(Configured { audiences: issuer.audiences, url: issuer.url, cache });
        }
        Ok(Self(configured.into()))
    }

    /// Verifies a token. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn verify(&self, token: &str, now: i64) -> Result<VerifiedToken, Refusal> {
        let token = Token::parse(token)?;
        let named = &token.claims.iss;
        let issuer = self.0.iter().find(|issuer| issuer.url == *named);
        let issuer = issuer.ok_or_else(|| Refusal::UnknownIssuer(named.chars().take(SHOWN_CHARS_MAX).collect()))?;
        let keys = issuer.cache.keys_for(&token).await?;
        if !keys.verifies(&token) {
            return Err(Refusal::Signature);
        }
        let audience = token.claims.check(&issuer.audiences, now)?;
        Ok(VerifiedToken { issuer: issuer.url.clone(), subject: token.claims.sub, audience })
    }
}

fn check(issuer: &Issuer, twice: bool) -> Result<(), String> {
    if twice {
        return Err("it is configured twice".into());
    }
    if issuer.url.is_empty() || !issuer.url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("use the text of iss in its tokens, as in https://kubernetes.default.svc.cluster.local".into());
    }
    if issuer.audiences.is_empty() || issuer.audiences.iter().any(String::is_empty) {
        return Err("name at least one audience".into());
    }
    match &issuer.keys {
        KeySource::Discovery => address(&issuer.url).map(drop),
        KeySource::Url(url) => address(url).map(drop),
        KeySource::File(_) => Ok(()),
    }
}
