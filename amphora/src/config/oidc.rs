//! The issuers of OpenID Connect whose tokens STS accepts: one from the flags `--oidc-…`, more from a file.
//!
//! - The file is bounded, and so is the number of issuers ([`Issuers::new`]). It holds no secret: tokens for the servers of issuers
//!   are in files that it names. An error shows no line of it all the same, since the flag may name a wrong file.

use std::path::{Path, PathBuf};

use s3::{Issuer, Issuers, KeySource};
use serde::Deserialize;

use super::Flags;
use crate::failure::Failure;

/// The most bytes of the file of further issuers.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The file of further issuers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct More {
    #[serde(default)]
    issuer: Vec<Entry>,
}

/// One further issuer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    url: String,
    audience: Audience,
    jwks: Option<String>,
    ca: Option<PathBuf>,
    token_file: Option<PathBuf>,
}

/// One audience, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "audience has to be a text, or a list of texts")]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl From<Entry> for Issuer {
    fn from(entry: Entry) -> Self {
        let audiences = match entry.audience {
            Audience::One(audience) => vec![audience],
            Audience::Several(audiences) => audiences,
        };
        let keys = key_source(entry.jwks);
        Self { url: entry.url, audiences, keys, authority: entry.ca, bearer: entry.token_file }
    }
}

/// The configured issuers, checked as far as that is possible without asking them.
pub(super) fn issuers(flags: &Flags) -> Result<Vec<Issuer>, Failure> {
    let mut issuers: Vec<Issuer> = issuer(flags)?.into_iter().collect();
    let Some(file) = &flags.oidc_issuers else { return Ok(issuers) };
    let wrong = |why: String| Failure::usage(format!("--oidc-issuers {}: {why}", file.display()));
    issuers.extend(further(file).map_err(&wrong)?);
    let checked = Issuers::new(issuers.clone());
    checked.map(|_| issuers).map_err(|error| wrong(error.to_string()))
}

fn further(file: &Path) -> Result<Vec<Issuer>, String> {
    let (bytes, _) = objstore::disk::read_named(file, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())?;
    let More { issuer } = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    match issuer.is_empty() {
        true => Err("it names no issuer; write a table [[issuer]] with url and audience for each".into()),
        false => Ok(issuer.into_iter().map(Issuer::from).collect()),
    }
}

fn key_source(given: Option<String>) -> KeySource {
    match given {
        None => KeySource::Discovery,
        Some(given) if given.contains("://") => KeySource::Url(given),
        Some(file) => KeySource::File(file.into()),
    }
}

/// The issuer of the flags.
fn issuer(flags: &Flags) -> Result<Option<Issuer>, Failure> {
    let Some(url) = flags.oidc_issuer.clone() else {
        let others = [
            ("--oidc-audience", !flags.oidc_audience.is_empty()),
            ("--oidc-jwks", flags.oidc_jwks.is_some()),
            ("--oidc-ca", flags.oidc_ca.is_some()),
            ("--oidc-token-file", flags.oidc_token_file.is_some()),
        ];
        return match others.into_iter().find(|(_, set)| *set) {
            None => Ok(None),
            Some((flag, _)) => {
                Err(Failure::usage(format!("{flag} is set and --oidc-issuer is not: name the issuer of the tokens")))
            }
        };
    };
    if flags.oidc_audience.is_empty() {
        let words = "--oidc-issuer is set and --oidc-audience is not: name the audience that tokens must have";
        return Err(Failure::usage(words));
    }
    let keys = key_source(flags.oidc_jwks.clone());
    let (authority, bearer) = (flags.oidc_ca.clone(), flags.oidc_token_file.clone());
    let issuer = Issuer { url, audiences: flags.oidc_audience.clone(), keys, authority, bearer };
    let checked = Issuers::new(vec![issuer.clone()]);
    checked.map(|_| Some(issuer)).map_err(|error| Failure::usage(format!("--oidc-issuer, --oidc-jwks: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(args: &[&str]) -> Result<Vec<Issuer>, String> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Flags::augment_args(clap::Command::new("serve").no_binary_name(true));
        let flags = Flags::from_arg_matches(&command.get_matches_from(args)).expect("flags");
        issuers(&flags).map_err(|failure| failure.to_string())
    }

    fn of(args: &[&str]) -> Result<Option<Issuer>, String> {
        all(args).map(|issuers| issuers.into_iter().next())
    }

    fn good_ones(count: usize) -> String {
        (0..count).map(|at| format!("[[issuer]]\nurl = \"https://{at}\"\naudience = \"b\"\n")).collect()
    }

    #[test]
    fn further_issuers_are_read_from_a_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("issuers.toml");
        let flag = format!("--oidc-issuers={}", file.display());
        let with = |text: &str| {
            std::fs::write(&file, text).expect("a file");
            all(&["--oidc-issuer=https://a", "--oidc-audience=a", &flag])
        };
        let good = "[[issuer]]\nurl = \"https://b\"\naudience = \"b\"\n\
                    [[issuer]]\nurl = \"https://c\"\naudience = [\"c\", \"d\"]\njwks = \"/keys\"\ntoken-file = \"/t\"\n";
        let issuers = with(good).expect("good");
        assert_eq!(
            issuers.iter().map(|issuer| issuer.url.as_str()).collect::<Vec<_>>(),
            ["https://a", "https://b", "https://c"]
        );
        assert_eq!(
            (issuers[1].keys.clone(), issuers[1].audiences.clone()),
            (KeySource::Discovery, vec!["b".to_owned()])
        );
        assert_eq!(issuers[2].keys, KeySource::File("/keys".into()));
        assert_eq!((issuers[2].audiences.len(), issuers[2].bearer.clone()), (2, Some("/t".into())));
        assert!(all(&[&flag]).is_ok(), "the flags may name none");
        for (text, word) in [
            ("", "[[issuer]]"),
            ("[[issuer]]\nurl = \"https://b\"", "audience"),
            ("[[issuer]]\nurl = \"https://b\"\naudience = []", "audience"),
            ("[[issuer]]\nurl = \"http://b\"\naudience = \"b\"", "https://"),
            ("[[issuer]]\nurl = \"https://a\"\naudience = \"b\"", "twice"),
            ("[[issuer]]\nurl = \"https://b\"\naudience = \"b\"\nkeys = \"x\"", "keys"),
            ("issuer = 1", "line 1"),
            ("[[issuer]]\nurl = \"https://b\"\naudience = 5\n", "a list of texts"),
            (&"#".repeat(64 * 1024 + 1), "65536"),
            (&good_ones(16), "at most 16"),
        ] {
            let error = with(text).expect_err("refused");
            assert!(error.contains("--oidc-issuers") && error.contains(word), "{error}");
        }
        assert_eq!(with(&good_ones(15)).expect("good").len(), 16);
        let secret = with("password-of-alice\n").expect_err("it is no TOML");
        assert!(!secret.contains("alice"), "{secret}");
        std::fs::remove_file(&file).expect("removed");
        assert!(all(&[&flag]).expect_err("absent").contains("issuers.toml"));
    }

    #[test]
    fn an_issuer_has_an_audience_and_keys_at_a_safe_address() {
        const ISSUER: &str = "--oidc-issuer=https://kubernetes.default.svc";
        const AUDIENCE: &str = "--oidc-audience=amphora,sts.amazonaws.com";
        assert_eq!(of(&[]), Ok(None));
        let issuer = of(&[ISSUER, AUDIENCE]).expect("good").expect("one");
        assert_eq!((issuer.keys, issuer.audiences.len()), (KeySource::Discovery, 2));
        let keys = |given: &str| of(&[ISSUER, AUDIENCE, &format!("--oidc-jwks={given}")]);
        assert_eq!(keys("/etc/jwks.json").expect("good").expect("one").keys, KeySource::File("/etc/jwks.json".into()));
        assert!(keys("https://10.0.0.1:6443/openid/v1/jwks").is_ok());
        for (args, flag) in [
            (&[ISSUER][..], "--oidc-audience"),
            (&[AUDIENCE], "--oidc-issuer"),
            (&["--oidc-jwks=a"], "--oidc-issuer"),
            (&["--oidc-issuer=http://a", AUDIENCE], "https://"),
        ] {
            let error = of(args).expect_err("refused");
            assert!(error.contains(flag), "{error}");
        }
        assert!(keys("http://a/jwks").expect_err("refused").contains("https://"));
    }
}
