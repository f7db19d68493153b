//! What the actions that begin a session have in common: the role, the session's name and length, its policy.

use std::ops::RangeInclusive;

use objstore::store::{NewRoleSession, ROLE_SESSION_SECONDS, Role, RoleCredentials};
use s3_policy::Policy;

use super::answer::Answer;
use super::fault::Fault;
use super::form::Form;
use crate::service::Call;

/// The length of a session for which none is given, in seconds.
const DEFAULT_SECONDS: u32 = 3600;
/// The most characters of a policy (AWS STS API, AssumeRole).
const POLICY_CHARS_MAX: usize = 2048;
/// The most bytes of a policy in a token: it travels in a header with each request.
const PACKED_BYTES_MAX: usize = 4096;
const NAME_CHARS: RangeInclusive<usize> = 2..=64;
const ARN_BYTES: RangeInclusive<usize> = 20..=2048;

/// A role as a request names it.
#[derive(Debug)]
pub(super) struct RoleArn {
    pub(super) account: String,
    pub(super) role: String,
}

impl RoleArn {
    /// Parses `arn:aws:iam::ACCOUNT:role/NAME`.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        if !ARN_BYTES.contains(&text.len()) {
            let rule = "Member must have length greater than or equal to 20 and less than or equal to 2048";
            return Err(Fault::constraint(text, "roleArn", rule));
        }
        let rest = text.strip_prefix("arn:aws:iam::");
        let parts = rest.and_then(|rest| rest.split_once(":role/"));
        match parts {
            Some((account, role)) if !account.is_empty() && !role.is_empty() && !role.contains(['/', ':']) => {
                Ok(Self { account: account.to_owned(), role: role.to_owned() })
            }
            _ => {
                let shown: String = text.chars().take(256).collect();
                Err(Fault::validation(format!(
                    "{shown} is invalid: write the ARN of a role as arn:aws:iam::ACCOUNT:role/NAME"
                )))
            }
        }
    }
}

/// The session that a request asks for.
pub(super) fn session(form: &Form) -> Result<NewRoleSession, Fault> {
    let name = form.require("RoleSessionName")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte);
    if !NAME_CHARS.contains(&name.len()) || !name.bytes().all(plain) {
        let rule = "Member must satisfy regular expression pattern: [\\w+=,.@-]{2,64}";
        return Err(Fault::constraint(name, "roleSessionName", rule));
    }
    Ok(NewRoleSession { name: name.to_owned(), seconds: duration(form)?, policy: policy(form)? })
}

fn duration(form: &Form) -> Result<u32, Fault> {
    let Some(given) = form.get("DurationSeconds") else { return Ok(DEFAULT_SECONDS) };
    let digits = given.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = given.parse().ok().filter(|seconds| digits && ROLE_SESSION_SECONDS.contains(seconds));
    seconds.ok_or_else(|| {
        let (least, most) = (ROLE_SESSION_SECONDS.start(), ROLE_SESSION_SECONDS.end());
        let rule = format!("Member must have value greater than or equal to {least} and less than or equal to {most}");
        Fault::constraint(given, "durationSeconds", rule)
    })
}

fn policy(form: &Form) -> Result<Option<String>, Fault> {
    let Some(text) = form.get("Policy") else { return Ok(None) };
    if text.chars().count() > POLICY_CHARS_MAX {
        let rule = format!("Member must have length less than or equal to {POLICY_CHARS_MAX}");
        return Err(Fault::constraint("…", "policy", rule));
    }
    if text.len() > PACKED_BYTES_MAX {
        return Err(Fault::packed_policy(packed_percent(text)));
    }
    Policy::session(text).map_err(|why| Fault::malformed_policy(&why.0))?;
    Ok(Some(text.to_owned()))
}

fn packed_percent(policy: &str) -> usize {
    policy.len() * 100 / PACKED_BYTES_MAX
}

/// The role of a request, if it exists and `may` its sender take it. Both refusals are the same.
pub(super) async fn taken(
    call: &Call,
    form: &Form,
    (action, by): (&str, &str),
    may: impl FnOnce(&Role) -> bool + Send + 'static,
) -> Result<Role, Fault> {
    let arn = form.require("RoleArn")?;
    let RoleArn { account, role } = RoleArn::parse(arn)?;
    call.request.set_subject(format!("role={arn:?} {by}"));
    let found = call.blocking(move |store| Ok(store.role(&account, &role))).await;
    let found = found.map_err(|error| Fault::of_keys(&error))?.map_err(|error| Fault::of_store(&error))?;
    found.filter(may).ok_or_else(|| Fault::not_authorized(action))
}

/// Begins a session of a role, and answers its credentials.
pub(super) fn begin(
    call: &Call,
    role: &Role,
    session: NewRoleSession,
    (action, by): (&'static str, &str),
) -> Result<Answer, Fault> {
    let (name, packed) = (session.name.clone(), session.policy.as_deref().map(packed_percent));
    let credentials: RoleCredentials =
        call.store.begin_role_session(role, session).map_err(|error| Fault::of_store(&error))?;
    let arn = format!("arn:aws:sts::{}:assumed-role/{}/{name}", role.account, role.name);
    call.request.set_subject(format!("session={arn} session_key={} {by}", credentials.access_key_id));
    let id = format!("{}:{name}", role.unique_id());
    let answer = Answer::new(action).with_credentials(&credentials);
    let answer = answer.with_all("AssumedRoleUser", &[("Arn", &arn), ("AssumedRoleId", &id)]);
    Ok(match packed {
        Some(percent) => answer.with("PackedPolicySize", &percent.to_string()),
        None => answer,
    })
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Form {
        let pairs =
            pairs.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
        Form::parse(pairs.collect::<Vec<_>>().join("&").as_bytes()).unwrap()
    }

    #[test]
    fn a_role_is_named_by_account_and_name() {
        let arn = RoleArn::parse("arn:aws:iam::cosi-ba-1:role/web").unwrap();
        assert_eq!((arn.account.as_str(), arn.role.as_str()), ("cosi-ba-1", "web"));
        let long = format!("arn:aws:iam::a:role/{}", "x".repeat(2048));
        for bad in [
            "",
            "web",
            "arn:aws:iam::shop:user/web",
            "arn:aws:iam:::role/webwebweb",
            "arn:aws:iam::shop:role/",
            "arn:aws:iam::shop:role/path/web",
            "arn:aws:sts::shop:role/webwebweb",
            "arn:aws-cn:iam::shop:role/web",
            &long,
        ] {
            assert!(RoleArn::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_lengths_of_sessions_are_those_of_aws() {
        let name = |name: &str| session(&form(&[("RoleSessionName", name)])).is_ok();
        assert!(name("ab") && name("botocore-session-1=,.@+_") && name(&"x".repeat(64)));
        assert!(!name("") && !name("a") && !name("a b") && !name("a/b") && !name("é1") && !name(&"x".repeat(65)));
        let seconds = |given: &str| {
            session(&form(&[("RoleSessionName", "ab"), ("DurationSeconds", given)])).map(|session| session.seconds).ok()
        };
        assert_eq!(session(&form(&[("RoleSessionName", "ab")])).unwrap().seconds, 3600);
        for (given, expected) in [
            ("900", Some(900)),
            ("43200", Some(43_200)),
            ("899", None),
            ("43201", None),
            ("-900", None),
            ("+900", None),
        ] {
            assert_eq!(seconds(given), expected, "{given}");
        }
        assert_eq!(seconds("99999999999999999999"), None);
    }

    #[test]
    fn policies_of_sessions_are_read_and_small() {
        let taken = |policy: &str| session(&form(&[("RoleSessionName", "ab"), ("Policy", policy)])).is_ok();
        let statement = r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}"#;
        let policy = |statement: &str| format!(r#"{{"Version":"2012-10-17","Statement":[{statement}]}}"#);
        assert!(taken(&policy(statement)));
        assert!(!taken("{}") && !taken("[]") && !taken(&policy("")));
        assert!(!taken(&policy(&statement.replace("\"Effect\"", "\"Principal\":\"*\",\"Effect\""))));
        assert!(!taken(&policy(&statement.replace("s3:GetObject", "s3:GetObjects"))));
        assert!(taken(&policy(&statement.replace("s3:GetObject", "kms:Decrypt"))));
        assert!(!taken(&policy(&statement.replace('*', &format!("arn:aws:s3:::{}", "x".repeat(2048))))));
        assert!(!taken(&policy(&statement.replace('*', &format!("arn:aws:s3:::a/{}", "\u{10000}".repeat(1500))))));
    }
}
