//! Names, validated once at the border: inside, nothing is checked again.

mod bucket;
mod key;
mod uuid;

pub use bucket::BucketName;
pub use key::{Hidden, KEY_BYTES_MAX, Key, NAME_BYTES_MAX, mountable};
pub use uuid::is_uuid;

use crate::error::{Error, Result};

const ACCOUNT_NAME_RULE: &str = "use 1 to 128 letters, digits and characters of \"_+=,.@-\", beginning with a letter or a \
                                 digit; \"anonymous\" and \"deleted-NUMBER\" are reserved";

/// Parses the name of an account: 1 to 128 letters, digits and `_+=,.@-` (as for IAM users), so that a policy can name it
/// and nothing else by it.
pub(crate) fn account(name: &str) -> Result<String> {
    if is_account_name(name) {
        return Ok(name.to_owned());
    }
    Err(Error::invalid("account name", name, ACCOUNT_NAME_RULE))
}

/// Whether a policy can tell an account of this name from every other caller. Accounts of earlier versions may have others.
pub fn is_account_name(name: &str) -> bool {
    let number = name.strip_prefix("deleted-").filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    (1..=128).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte))
        && !name.eq_ignore_ascii_case("anonymous")
        && number.is_none()
}

/// Parses a name of a node: 1 to 128 visible ASCII characters, none of them `/`.
pub(crate) fn plain(what: &'static str, name: &str) -> Result<String> {
    let good = (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if good {
        return Ok(name.to_owned());
    }
    Err(Error::invalid(what, name, "use 1 to 128 visible ASCII characters without \"/\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_no_name_that_a_policy_takes_for_something_else() {
        for name in ["a", "alice", "7", "cosi-ba-1f2e", "Bob.Smith+x=y,z@example-org_1", "anonymous2", "deleted-1x"] {
            assert!(is_account_name(name) && account(name).is_ok(), "{name}");
        }
        let long = "a".repeat(129);
        for name in [
            "",
            "*",
            "?",
            "..",
            ".",
            "-a",
            "_a",
            "${aws:username}",
            "<b>",
            "a/b",
            "a:b",
            "a b",
            "a\"b",
            "#7",
            "é",
            "anonymous",
            "Anonymous",
            "deleted-7",
            &long,
        ] {
            assert!(!is_account_name(name) && account(name).is_err(), "{name}");
        }
    }
}
