//! Object keys: a path in a bucket.
//!
//! - A key is UTF-8 of 1 to 1,024 bytes without NUL (S3 User Guide, "Object key naming guidelines").
//! - Splitting at each `/` gives its components. A key with a component that is empty, `.`, `..` or longer than 255
//!   bytes is visible in S3 only.
//! - A key that ends in `/` is the directory itself.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
pub use objstore_files::NAME_BYTES_MAX;

/// A valid object key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directories the key lies in, outermost first, and its last component: `None` for a key that ends in `/`
    /// and so is the last of these directories.
    pub fn split(&self) -> (Vec<&str>, Option<&str>) {
        let mut components: Vec<&str> = self.0.split('/').collect();
        let last = components.pop().filter(|name| !name.is_empty());
        (components, last)
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self> {
        let why = match key.len() {
            0 => "a key must not be empty",
            len if len > KEY_BYTES_MAX => "a key has at most 1024 bytes",
            _ if key.contains('\0') => "a key must not hold a NUL byte",
            _ => return Ok(Self(key.to_owned())),
        };
        let shown: String = key.chars().take(64).collect();
        Err(Error::invalid("object key", shown, why))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a mount cannot show a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// It has an empty component: it begins with `/` or holds `//`.
    Empty,
    /// It has the component `.` or `..`.
    Dots,
    /// It has a component that is longer than [`NAME_BYTES_MAX`].
    Long,
    /// It is also a folder of other keys, which the mount shows in its place.
    Folder,
}

impl Hidden {
    /// Why a mount cannot show `component`.
    pub fn of_component(component: &str) -> Option<Self> {
        match component {
            "" => Some(Self::Empty),
            "." | ".." => Some(Self::Dots),
            _ => (component.len() > NAME_BYTES_MAX).then_some(Self::Long),
        }
    }
}

/// Whether a mount can show `component`.
pub fn mountable(component: &str) -> bool {
    Hidden::of_component(component).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_split_into_directories_and_a_name() {
        let split = |key: &str| {
            let key: Key = key.parse().unwrap();
            let (dirs, last) = key.split();
            (dirs.into_iter().map(str::to_owned).collect::<Vec<_>>(), last.map(str::to_owned))
        };
        let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert_eq!(split("a"), (owned(&[]), Some("a".into())));
        assert_eq!(split("a/b"), (owned(&["a"]), Some("b".into())));
        assert_eq!(split("a/"), (owned(&["a"]), None));
        assert_eq!(split("/"), (owned(&[""]), None));
        assert_eq!(split("a//b"), (owned(&["a", ""]), Some("b".into())));
    }

    #[test]
    fn keys_refuse_what_s3_refuses() {
        assert!("".parse::<Key>().is_err());
        assert!("a\0b".parse::<Key>().is_err());
        assert!("x".repeat(1025).parse::<Key>().is_err());
        assert!("x".repeat(1024).parse::<Key>().is_ok());
        assert!("../etc/passwd".parse::<Key>().is_ok());
    }
}
