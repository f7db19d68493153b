//! How to reach a PostgreSQL: its URL, its password, TLS, and what it must be able to do.
//!
//! - The password stays inside: neither `Debug` nor an error shows any part of the URL but names of parameters.
//! - TCP is encrypted and the server's certificate verified against `sslrootcert`, unless `sslmode=disable` says
//!   otherwise. A Unix socket needs no TLS.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::password::{self, Env};
use crate::error::{Error, Result};

/// How many copies of an acknowledged entry PostgreSQL has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// The primary and a synchronous standby: an acknowledged entry survives the loss of either.
    Replicated,
    /// One: an acknowledged entry is lost with the disk of the only server.
    Single,
}

/// The settings of an engine.
#[derive(Clone)]
pub struct Settings {
    pub(super) config: Config,
    pub(super) authority: Option<PathBuf>,
    /// What PostgreSQL has to promise.
    pub copies: Copies,
    /// The number of the log in the database.
    pub shard: u32,
    /// How many connections append. Each carries several appends at a time.
    pub connections: usize,
    /// How many numbers a partition spans, if this log is created.
    pub partition_entries: u64,
    /// How long an answer of PostgreSQL may take; later it counts as lost.
    pub answer_within: Duration,
    /// How long a renewal of the lease may take: a small part of the lease, so that a lost connection costs no lease.
    pub renewed_within: Duration,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("shard", &self.shard).field("copies", &self.copies).finish_non_exhaustive()
    }
}

impl Settings {
    /// The settings in `url`, `postgres://USER[:PASSWORD]@HOST[:PORT][,…]/DATABASE[?PARAMETER=VALUE&…]`, for the log of
    /// shard 0 with a synchronous standby. Without a password in it, `PGPASSWORD` or a password file has it, by the rules
    /// of libpq: `env` reads the environment.
    ///
    /// # Errors
    /// [`Error::Unusable`]: the URL is not one of PostgreSQL, asks for TLS that does not verify the server, or the
    /// password file cannot be used.
    pub fn parse(url: &str, env: Env<'_>) -> Result<Self> {
        let unusable = |why: String| Error::Unusable { why: format!("the URL of PostgreSQL cannot be used: {why}") };
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(unusable("it does not begin with postgres://".into()));
        }
        let (rest, extra) = Extra::take(url).map_err(unusable)?;
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            // The source names a parameter; the URL itself has the password.
            let source = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
            unusable(if source.contains(&rest) { "it is not valid".into() } else { source })
        })?;
        let by_tcp = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
        config.ssl_mode(extra.mode(by_tcp).map_err(unusable)?);
        if config.get_password().is_none()
            && let Some(found) = password::find(&config, extra.passfile.as_deref(), env).map_err(unusable)?
        {
            config.password(found);
        }
        let defaults = Duration::from_secs(20);
        config.target_session_attrs(TargetSessionAttrs::ReadWrite).application_name("amphora");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(defaults / 2);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(defaults);
        }
        Ok(Self {
            config,
            authority: extra.authority,
            copies: Copies::Replicated,
            shard: 0,
            connections: 1,
            partition_entries: 1 << 14,
            answer_within: defaults,
            renewed_within: Duration::from_secs(3),
        })
    }
}

/// The parameters of the URL that `tokio-postgres` does not know.
#[derive(Default)]
struct Extra {
    mode: Option<String>,
    authority: Option<PathBuf>,
    passfile: Option<PathBuf>,
}

impl Extra {
    /// Takes the parameters out of the URL.
    fn take(url: &str) -> Result<(String, Self), String> {
        let mut extra = Self::default();
        let Some((rest, query)) = url.split_once('?') else { return Ok((url.to_owned(), extra)) };
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let decoded = || percent_decode_str(value).decode_utf8().map(String::from).map_err(|_| "it is not UTF-8");
            match name {
                "sslmode" => extra.mode = Some(decoded()?),
                "sslrootcert" => extra.authority = Some(decoded()?.into()),
                "passfile" => extra.passfile = Some(decoded()?.into()),
                _ => others.push(parameter),
            }
        }
        let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        Ok((format!("{rest}{query}"), extra))
    }

    fn mode(&self, by_tcp: bool) -> Result<SslMode, String> {
        match self.mode.as_deref() {
            Some("disable") => Ok(SslMode::Disable),
            None if !by_tcp => Ok(SslMode::Disable),
            None | Some("verify-full") if self.authority.is_some() => Ok(SslMode::Require),
            None | Some("verify-full") => Err("name the certificate authority of the server by sslrootcert=FILE \
                                               (the system's: /etc/ssl/certs/ca-certificates.crt), or say \
                                               sslmode=disable where the network is trusted"
                .into()),
            Some(other @ ("allow" | "prefer" | "require" | "verify-ca")) => {
                Err(format!("sslmode={other} does not verify that the server is the right one: use verify-full"))
            }
            Some(_) => Err("sslmode is verify-full or disable".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        Settings::parse(url, &|_| None).expect_err(url).to_string()
    }

    #[test]
    fn tcp_is_verified_unless_it_is_said_otherwise() {
        let mode = |url: &str| Settings::parse(url, &|_| None).map(|settings| settings.config.get_ssl_mode());
        assert_eq!(mode("postgres://u:p@h/d?sslmode=disable").unwrap(), SslMode::Disable);
        assert_eq!(mode("postgres:///d?host=%2Frun%2Fpg&user=u").unwrap(), SslMode::Disable);
        let settings =
            Settings::parse("postgresql://u@h:5433/d?sslrootcert=%2Fa%2Fca.pem&connect_timeout=3", &|_| None).unwrap();
        assert_eq!(settings.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(settings.authority, Some("/a/ca.pem".into()));
        assert_eq!(settings.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        for weak in ["prefer", "require", "verify-ca"] {
            assert!(refusal(&format!("postgres://u:p@h/d?sslmode={weak}")).contains("use verify-full"));
        }
        assert!(refusal("postgres://u:p@h/d").contains("sslrootcert=FILE"));
    }

    #[test]
    fn no_secret_is_shown() {
        let settings = Settings::parse("postgres://u:hush-hush@h/d?sslmode=disable", &|_| None).unwrap();
        assert!(!format!("{settings:?} {:?}", settings.config).contains("hush"));
        let variable = |name: &str| (name == "PGPASSWORD").then(|| "hush-hush".into());
        let given = Settings::parse("postgres://u@h/d?sslmode=disable", &variable).unwrap();
        assert_eq!(given.config.get_password(), Some(&b"hush-hush"[..]));
        assert!(!format!("{given:?} {:?}", given.config).contains("hush"));
        for url in [
            "http://u:hush-hush@h/d",
            "postgres://u:hush-hush@h:port/d?sslmode=disable",
            "postgres://u:hush-hush@h/d?sslmode=disable&no=way",
            "postgres://u:hush-hush@h/d?sslmode=hush-hush",
            "postgres://u:hush-hush@h/d?sslmode=%ff",
            "postgres://u:hush-hush%zz@h:1:2:3/d?sslmode=disable",
        ] {
            assert!(!refusal(url).contains("hush"), "{}", refusal(url));
        }
    }
}
