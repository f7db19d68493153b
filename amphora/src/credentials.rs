//! Access keys in files: the shared-credentials format of the AWS tools, profile `[default]`.
//!
//! - Files written here are readable by their owner only. A file that other users may read is refused.
//!
//! A crash during a write leaves the file as it was before.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use objstore::disk::{Disk as _, RealDisk, read_named};
use objstore::store::Secret;
use zeroize::Zeroizing;

/// The largest file in bytes; the AWS tools' files may have many profiles.
const FILE_MAX: u64 = 1 << 20;
const PROFILE: &str = "default";
const ID: &str = "aws_access_key_id";
const SECRET: &str = "aws_secret_access_key";

/// An access key id and its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret: Secret,
}

impl Credentials {
    /// Checks both halves: visible ASCII, so that they fit into a header and a line.
    ///
    /// # Errors
    /// What is wrong, without the values.
    pub fn new(access_key_id: String, secret: String) -> Result<Self, String> {
        let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !(3..=128).contains(&access_key_id.len()) || !visible(&access_key_id) || access_key_id.contains(['/', ',']) {
            return Err("an access key id has 3 to 128 visible ASCII characters without \"/\" and \",\"".into());
        }
        if !(8..=128).contains(&secret.len()) || !visible(&secret) {
            return Err("a secret access key has 8 to 128 visible ASCII characters".into());
        }
        Ok(Self { access_key_id, secret: Secret::new(secret) })
    }

    /// Reads the `[default]` profile of a file.
    ///
    /// # Errors
    /// The file and what it lacks, or that other users may read it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let (bytes, permissions) = read_named(path, FILE_MAX)
            .map_err(|error| format!("the credentials file {shown} cannot be read: {error}"))?;
        let bytes = Zeroizing::new(bytes);
        permissions.of_a_secret().map_err(|why| format!("the credentials file {shown} {why}"))?;
        let text =
            std::str::from_utf8(&bytes).map_err(|_| format!("the credentials file {shown} is not UTF-8 text"))?;
        Self::parse(text).map_err(|why| format!("the credentials file {shown}: {why}"))
    }

    /// Reads the `[default]` profile of a text.
    fn parse(text: &str) -> Result<Self, String> {
        let mut within = false;
        let (mut id, mut secret) = (None, None);
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                within = section.trim() == PROFILE;
            } else if within && let Some((name, value)) = line.split_once('=') {
                match name.trim() {
                    ID => id = Some(value.trim().to_owned()),
                    SECRET => secret = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
        }
        let missing = |name: &str| format!("it has no {name} in its profile [{PROFILE}]");
        Self::new(id.ok_or_else(|| missing(ID))?, secret.ok_or_else(|| missing(SECRET))?)
    }

    /// Writes a file that only its owner may read, unless it contains these credentials already.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = self.to_text();
        let same = |(old, _): (Vec<u8>, _)| *Zeroizing::new(old) == text.as_bytes();
        let is_file = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        if is_file && read_named(path, FILE_MAX).is_ok_and(same) {
            let private = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
            return private.map_err(|error| format!("the credentials file {}: {error}", path.display()));
        }
        let written = RealDisk::new().write_atomic(path, text.as_bytes(), 0o600);
        written.map_err(|error| crate::failure::with_causes(&error))
    }

    fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("[{PROFILE}]\n{ID} = {}\n{SECRET} = {}\n", self.access_key_id, self.secret.reveal()))
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.access_key_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Credentials {
        Credentials::new("AKEXAMPLE".into(), "secret/with+signs=".into()).expect("good")
    }

    #[test]
    fn what_is_written_is_read_and_private() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("credentials");
        std::fs::write(&path, "a longer text than the one that follows, which must not show through").expect("old");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("mode");
        key().write(&path).expect("written");
        key().write(&path).expect("written again");
        assert_eq!(Credentials::read(&path), Ok(key()));
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("mode");
        let why = Credentials::read(&path).expect_err("open to others");
        assert!(why.contains("0644") && why.contains("chmod"), "{why}");
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .expect("made");
        assert!(Credentials::read(&path).expect_err("a FIFO").contains("FIFO"));
        assert!(Credentials::read(Path::new("/dev/zero")).expect_err("a device").contains("device"));
    }

    #[test]
    fn only_the_default_profile_counts() {
        let text = "# ours\n[other]\naws_access_key_id=AKOTHER\n[ default ]\n aws_access_key_id=AKEXAMPLE\nregion = x\n\
                    aws_secret_access_key = secret/with+signs=\n";
        assert_eq!(Credentials::parse(text), Ok(key()));
    }

    #[test]
    fn what_is_missing_is_named_and_secrets_are_not() {
        let error = Credentials::parse("[default]\naws_access_key_id = AKEXAMPLE\n").expect_err("half");
        assert!(error.contains("aws_secret_access_key"), "{error}");
        let error = Credentials::parse("[default]\naws_access_key_id = AKEXAMPLE\naws_secret_access_key = s3cr\n");
        assert!(!error.expect_err("short").contains("s3cr"));
        assert!(!format!("{:?}", key()).contains("secret/with"));
    }
}
