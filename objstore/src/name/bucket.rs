//! Bucket names, which are also the names of snapshots and the ids of volumes.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A valid bucket name (S3 User Guide, "General purpose bucket naming rules"): 3 to 63 lower-case letters, digits,
/// dots and hyphens, starting and ending with a letter or digit, no two dots together, not an IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketName(String);

impl BucketName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BucketName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match fault(name) {
            None => Ok(Self(name.to_owned())),
            Some(why) => Err(Error::invalid("bucket name", name, why)),
        }
    }
}

fn fault(name: &str) -> Option<&'static str> {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    if !(3..=63).contains(&bytes.len()) {
        return Some("it has to be 3 to 63 characters long");
    }
    if !bytes.iter().all(|byte| alphanumeric(byte) || matches!(byte, b'.' | b'-')) {
        return Some("use only lower-case letters, digits, \".\" and \"-\"");
    }
    if !bytes.first().is_some_and(alphanumeric) || !bytes.last().is_some_and(alphanumeric) {
        return Some("it has to start and end with a letter or digit");
    }
    if name.contains("..") {
        return Some("it must not hold two dots together");
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() {
        return Some("it must not look like an IP address");
    }
    None
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_s3_rules() {
        for good in ["abc", "a-b.c", "0ab", "x".repeat(63).as_str()] {
            assert!(good.parse::<BucketName>().is_ok(), "{good}");
        }
        for bad in ["", "ab", "x".repeat(64).as_str(), "Abc", "a_b", "-ab", "ab-", "a..b", "192.168.0.1", "a/b", "é.é"]
        {
            assert!(bad.parse::<BucketName>().is_err(), "{bad}");
        }
    }
}
