//! The issuer of OpenID Connect whose tokens STS accepts, from the flags `--oidc-…`.

use s3::{Issuer, Issuers, KeySource};

use super::Flags;
use crate::failure::Failure;

/// The configured issuer, checked as far as that is possible without asking it.
pub(super) fn issuer(flags: &Flags) -> Result<Option<Issuer>, Failure> {
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
    let keys = match flags.oidc_jwks.clone() {
        None => KeySource::Discovery,
        Some(given) if given.contains("://") => KeySource::Url(given),
        Some(file) => KeySource::File(file.into()),
    };
    let (authority, bearer) = (flags.oidc_ca.clone(), flags.oidc_token_file.clone());
    let issuer = Issuer { url, audiences: flags.oidc_audience.clone(), keys, authority, bearer };
    let checked = Issuers::new(vec![issuer.clone()]);
    checked.map(|_| Some(issuer)).map_err(|error| Failure::usage(format!("--oidc-issuer, --oidc-jwks: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Result<Option<Issuer>, String> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Flags::augment_args(clap::Command::new("serve").no_binary_name(true));
        let flags = Flags::from_arg_matches(&command.get_matches_from(args)).expect("flags");
        issuer(&flags).map_err(|failure| failure.to_string())
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
