//! Small checksummed record files: one line of JSON, and its SHA-256 on the next line.
//!
//! - A flipped bit must not show one bucket in place of another, so a record that does not match its checksum is not
//!   read.

use objstore::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::volume_id::hex;

/// Encodes a record as the content of its file.
///
/// # Errors
/// If it cannot be written as JSON, such as a path that is not UTF-8.
pub fn seal(record: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(record).map_err(|error| Error::io("encoding a record", error.into()))?;
    Ok(sealed(&text))
}

fn sealed(text: &str) -> String {
    format!("{text}\n{}\n", hex(&Sha256::digest(text)))
}

/// Decodes the output of [`seal`].
///
/// # Errors
/// What is wrong with it, in words.
pub fn unseal<T: DeserializeOwned>(content: &[u8]) -> Result<T, String> {
    let content = std::str::from_utf8(content).map_err(|error| error.to_string())?;
    let text = content.lines().next().unwrap_or_default();
    if content != sealed(text) {
        return Err("its checksum does not match".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The kernel's boot id: mounts do not outlive a boot.
///
/// # Errors
/// If the system does not provide it.
pub fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let id = std::fs::read_to_string(path).map_err(|error| Error::io(format!("reading {path}"), error))?;
    Ok(id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_or_not_at_all() {
        let file = seal(&("bucket", 7)).unwrap();
        assert_eq!(unseal::<(String, u32)>(file.as_bytes()), Ok(("bucket".to_owned(), 7)));
        for at in 0..file.len() {
            let mut changed = file.clone().into_bytes();
            changed[at] ^= 1;
            assert!(unseal::<(String, u32)>(&changed).is_err(), "{at}");
            assert!(unseal::<(String, u32)>(&file.as_bytes()[..at]).is_err(), "{at}");
        }
    }
}
