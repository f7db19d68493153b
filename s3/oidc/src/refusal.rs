//! Why a token is refused.

/// Why a token is refused. The texts contain claims, never the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not a signed token of the accepted form.
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    /// Its issuer is not configured.
    #[error("no OpenID Connect provider is configured for the issuer \"{0}\"")]
    UnknownIssuer(String),
    /// Its issuer has no key of this id that fits its algorithm.
    #[error("the issuer has no key \"{0}\" for the algorithm of the token")]
    UnknownKey(String),
    /// Its signature does not match.
    #[error("the signature of the token does not match")]
    Signature,
    /// It is for another audience.
    #[error("the token is not for an audience that is configured for its issuer")]
    Audience,
    /// It expired.
    #[error("the token expired: it is {now} now, and the token ended at {expired} (seconds since 1970)")]
    Expired {
        /// The current time, in seconds since 1970.
        now: i64,
        /// When it expired, in seconds since 1970.
        expired: i64,
    },
    /// It is not valid yet: its `nbf` or `iat` is in the future.
    #[error("the token is not valid before {from}, and it is {now} now (seconds since 1970)")]
    NotYet {
        /// The current time, in seconds since 1970.
        now: i64,
        /// When it becomes valid, in seconds since 1970.
        from: i64,
    },
    /// The keys of its issuer cannot be read. The cause is in the log.
    #[error("the keys of the issuer cannot be read at present")]
    Unreachable,
}
