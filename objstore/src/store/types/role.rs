//! Roles, and the sessions of those who take them.

use super::{Account, Creator, Secret};
use crate::clock::Timestamp;

/// The letters of unique ids.
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Identities of OpenID Connect that a role trusts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrustedIdentity {
    /// The issuer, exactly as tokens name it.
    pub issuer: String,
    /// The subject; each `*` stands for any characters.
    pub subject: String,
    /// The audience, exactly; `None`: any that is configured for the issuer.
    pub audience: Option<String>,
}

impl TrustedIdentity {
    /// Whether it includes the identity that a verified token has.
    pub fn includes(&self, issuer: &str, subject: &str, audience: &str) -> bool {
        self.issuer == issuer
            && self.audience.as_ref().is_none_or(|trusted| trusted == audience)
            && matches(&self.subject, subject)
    }
}

/// Whether a text matches a pattern in which each `*` stands for any characters. The parts between are found from the
/// left, so the time is bounded by the product of both lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        let Some((_, behind)) = text.split_once(part) else { return false };
        text = behind;
    }
    true
}

/// A role to create.
#[derive(Clone, Debug)]
pub struct NewRole {
    /// The account whose rights it gives.
    pub account: String,
    /// Its name, unique in its account.
    pub name: String,
    /// The creator.
    pub creator: Creator,
    /// The identities of OpenID Connect that may take it.
    pub identities: Vec<TrustedIdentity>,
    /// The accounts whose keys may take it.
    pub accounts: Vec<String>,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The account whose rights it gives, by name.
    pub account: String,
    /// The id of that account.
    pub account_id: u64,
    /// Its name, unique in its account.
    pub name: String,
    /// Its number, never reused.
    pub id: u64,
    /// Time of creation.
    pub created: Timestamp,
    /// The creator.
    pub creator: Creator,
    /// The identities of OpenID Connect that may take it.
    pub identities: Vec<TrustedIdentity>,
    /// The accounts whose keys may take it, by name.
    pub accounts: Vec<String>,
}

impl Role {
    /// Its name as AWS writes it.
    pub fn arn(&self) -> String {
        arn(&self.account, &self.name)
    }

    /// Its unique id, in the form that AWS has for roles.
    pub fn unique_id(&self) -> String {
        unique_id(self.id)
    }
}

fn arn(account: &str, role: &str) -> String {
    format!("arn:aws:iam::{account}:role/{role}")
}

fn unique_id(id: u64) -> String {
    let letters = (0..16).rev().map(|place| {
        let digit = id.checked_shr(place * 5).unwrap_or(0) % 32;
        char::from(LETTERS[usize::try_from(digit).unwrap_or(0)])
    });
    format!("AROA{}", letters.collect::<String>())
}

/// A session of a role that begins.
#[derive(Clone, Debug)]
pub struct NewRoleSession {
    /// The name of the session, which its beginner chose.
    pub name: String,
    /// How long it lasts, in seconds.
    pub seconds: u32,
    /// A policy that narrows the rights of the role's account.
    pub policy: Option<String>,
}

/// The credentials of a role's session: the only time that they are returned, since the store keeps none.
#[derive(Clone, Debug)]
pub struct RoleCredentials {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret: Secret,
    /// The session token.
    pub token: Secret,
    /// When they expire.
    pub expires: Timestamp,
}

/// A role's session, as found for a request.
#[derive(Clone, Debug)]
pub struct RoleSession {
    /// The account whose rights it has.
    pub account: Account,
    /// The secret of its access key, to verify signatures.
    pub secret: Secret,
    /// The role's name.
    pub role: String,
    /// The role's unique id.
    pub role_id: String,
    /// The name of the session.
    pub name: String,
    /// The policy that narrows the rights of the account.
    pub policy: Option<String>,
    /// When it expires.
    pub expires: Timestamp,
}

impl RoleSession {
    /// The role, as AWS writes it.
    pub fn role_arn(&self) -> String {
        arn(&self.account.name, &self.role)
    }

    /// The session, as AWS writes it.
    pub fn arn(&self) -> String {
        format!("arn:aws:sts::{}:assumed-role/{}/{}", self.account.name, self.role, self.name)
    }

    /// The unique id of role and session together (`aws:userid`).
    pub fn user_id(&self) -> String {
        format!("{}:{}", self.role_id, self.name)
    }
}

/// Why a session token opens no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFault {
    /// It was not issued here for this access key, or under an earlier master key, or the role or its account was
    /// deleted.
    Invalid,
    /// The session has expired.
    Expired,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_nothing_else_is_special() {
        let account = "system:serviceaccount:shop:web";
        for (pattern, text, expected) in [
            (account, account, true),
            (account, "system:serviceaccount:shop:web2", false),
            ("system:serviceaccount:shop:*", account, true),
            ("system:serviceaccount:*:web", account, true),
            ("system:serviceaccount:*:web", "system:serviceaccount:shop:web:", false),
            ("system:serviceaccount:shop:*", "system:serviceaccount:shop2:web", false),
            ("system:serviceaccount:?hop:web", account, false),
            ("*", "", true),
            ("*", account, true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a**b*c", "axbxbxc", true),
            ("*:web", account, true),
            ("*shop*", account, true),
            ("", "", true),
            ("", "a", false),
            ("A", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        let long = "a*".repeat(500);
        assert!(!matches(&format!("{long}b"), &"a".repeat(1000)));
    }

    #[test]
    fn an_identity_is_of_one_issuer_and_audience() {
        let trusted = TrustedIdentity { issuer: "https://i".into(), subject: "s".into(), audience: Some("a".into()) };
        assert!(trusted.includes("https://i", "s", "a"));
        for (issuer, subject, audience) in
            [("https://i/", "s", "a"), ("https://i", "S", "a"), ("https://i", "s", "b"), ("", "s", "a")]
        {
            assert!(!trusted.includes(issuer, subject, audience), "{issuer} {subject} {audience}");
        }
        assert!(TrustedIdentity { audience: None, ..trusted }.includes("https://i", "s", "b"));
    }

    #[test]
    fn unique_ids_have_the_form_of_aws_and_differ() {
        let ids = [0, 1, 31, 32, u64::MAX].map(unique_id);
        assert_eq!(ids[1], "AROAAAAAAAAAAAAAAAAB");
        assert!(ids.iter().all(|id| id.len() == 20));
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
    }
}
