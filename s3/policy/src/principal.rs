//! Principals in policies: accounts of this store.
//!
//! - An account is named by its plain name, as `arn:aws:iam::NAME:root`, or as a user, `arn:aws:iam::…:user/NAME`.

use super::json::Json;
use super::syntax::{Malformed, texts};

/// The callers that a statement concerns.
#[derive(Debug)]
pub(super) enum Principals {
    /// All callers, signed or anonymous.
    Everyone,
    /// The accounts of these names.
    Accounts(Vec<String>),
}

impl Principals {
    /// Parses a `Principal` element; `exists` says whether an account exists.
    pub(super) fn parse(given: &Json, exists: &dyn Fn(&str) -> bool) -> Result<Self, Malformed> {
        let kinds = match given {
            Json::Text(text) if text == "*" => return Ok(Self::Everyone),
            Json::Object(kinds) if !kinds.is_empty() => kinds,
            _ => return Err(Malformed("Invalid principal in policy: give \"*\" or {\"AWS\": …}.".into())),
        };
        let mut accounts = Vec::new();
        for (kind, names) in kinds {
            if !matches!(kind.as_str(), "AWS" | "CanonicalUser") {
                let words = format!("Invalid principal in policy: there are no principals of kind \"{kind}\" here.");
                return Err(Malformed(words));
            }
            for name in texts("Principal", names)? {
                if name == "*" {
                    return Ok(Self::Everyone);
                }
                accounts.push(account(&name).filter(|account| exists(account)).ok_or_else(|| {
                    Malformed(format!("Invalid principal in policy: \"{name}\" is not an account of this store."))
                })?);
            }
        }
        Ok(Self::Accounts(accounts))
    }

    /// Whether they include an account, or the anonymous caller.
    pub(super) fn include(&self, account: Option<&str>) -> bool {
        match (self, account) {
            (Self::Everyone, _) => true,
            (Self::Accounts(_), None) => false,
            (Self::Accounts(accounts), Some(account)) => accounts.iter().any(|named| named == account),
        }
    }
}

/// The account name in a principal.
fn account(principal: &str) -> Option<String> {
    let Some(rest) = principal.strip_prefix("arn:aws:iam::") else { return Some(principal.to_owned()) };
    if let Some(name) = rest.strip_suffix(":root") {
        return Some(name.to_owned());
    }
    let (_, path) = rest.split_once(":user/")?;
    path.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_many_spellings() {
        let table = [
            ("bob", Some("bob")),
            ("arn:aws:iam::bob:root", Some("bob")),
            ("arn:aws:iam:::user/bob", Some("bob")),
            ("arn:aws:iam::123456789012:user/some/path/bob", Some("bob")),
            ("arn:aws:iam::123456789012:role/bob", None),
            ("arn:aws:iam::123456789012:user/", None),
        ];
        for (principal, expected) in table {
            assert_eq!(account(principal).as_deref(), expected, "{principal}");
        }
    }
}
