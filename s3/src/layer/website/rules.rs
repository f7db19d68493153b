//! Routing rules: the choice of the rule for a request, and the key or URL of its redirect (S3 User Guide, "Configuring
//! a webpage redirect").
//!
//! - The first rule whose condition holds decides. Rules with an error code apply only after an error, all others
//!   before the object is looked up.

use std::borrow::Cow;

use objstore::store::{RoutingRule, Website};

/// The rule for a key, before the object is looked for, or after that failed with a status.
pub(super) fn first<'a>(website: &'a Website, key: &str, failed: Option<u16>) -> Option<&'a RoutingRule> {
    website.rules.iter().find(|rule| {
        let error = rule.error_code.map(|code| u16::try_from(code).unwrap_or_default());
        error == failed && rule.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_str()))
    })
}

/// The key that a rule leads to: what the rule says as it is, and what remains of the key that was asked for.
pub(super) fn target<'a>(rule: &'a RoutingRule, key: &'a str) -> (Cow<'a, str>, &'a str) {
    if let Some(replaced) = &rule.replace_key {
        return (replaced.into(), "");
    }
    match &rule.replace_prefix {
        Some(replaced) => {
            let prefix = rule.key_prefix.as_deref().unwrap_or_default();
            (replaced.into(), key.strip_prefix(prefix).unwrap_or(key))
        }
        None => ("".into(), key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(prefix: Option<&str>, error: Option<u32>, to: &str) -> RoutingRule {
        RoutingRule {
            key_prefix: prefix.map(str::to_owned),
            error_code: error,
            replace_prefix: Some(to.into()),
            ..RoutingRule::default()
        }
    }

    #[test]
    fn the_first_rule_that_holds_decides() {
        let website = Website {
            rules: vec![
                rule(Some("docs/"), Some(404), "gone/"),
                rule(Some("docs/"), None, "documents/"),
                rule(None, Some(404), "all/"),
            ],
            ..Website::default()
        };
        let led = |key: &'static str, failed| {
            let found = first(&website, key, failed).map(|rule| target(rule, key));
            found.map(|(start, rest)| format!("{start}{rest}"))
        };
        assert_eq!(led("docs/a", None).as_deref(), Some("documents/a"));
        assert_eq!(led("docs/a", Some(404)).as_deref(), Some("gone/a"));
        assert_eq!(led("x", Some(404)).as_deref(), Some("all/x"));
        assert_eq!((led("x", None), led("x", Some(403))), (None, None));
        let whole = RoutingRule { replace_key: Some("a#!/".into()), ..rule(None, None, "b") };
        assert_eq!(target(&whole, "x"), ("a#!/".into(), ""));
    }
}
