//! Names of volumes and snapshots, derived from the names that callers choose.
//!
//! - A requested name that is a valid bucket name is used unchanged, so that people find the bucket of a
//!   PersistentVolume by its name.
//! - Any other becomes `vol-…`, `snap-…` or `group-…` with its readable part and a hash of all of it. The same name always gives
//!   the same bucket.

use objstore::name::BucketName;
use sha2::{Digest, Sha256};
use tonic::Status;

use crate::size_limit::STRING_BYTES_MAX;

/// The most readable characters kept of a name: with prefix, hyphens and hash, at most 63.
const READABLE_CHARS_MAX: usize = 36;
/// Bytes of the hash that are kept.
const HASH_BYTES: usize = 10;

/// The bucket of a volume requested as `name`.
pub(crate) fn for_volume(name: &str) -> Result<BucketName, Status> {
    bucket_name("vol", name)
}

/// The snapshot requested as `name`.
pub(crate) fn for_snapshot(name: &str) -> Result<BucketName, Status> {
    bucket_name("snap", name)
}

/// The group snapshot requested as `name`.
pub(crate) fn for_group(name: &str) -> Result<BucketName, Status> {
    bucket_name("group", name)
}

/// The snapshot of the volume `volume` in the group snapshot `group`.
pub(crate) fn for_member(group: &BucketName, volume: &BucketName) -> Result<BucketName, Status> {
    // No bucket name contains "/", so that no two pairs give one name.
    mapped("snap", &format!("{group}/{volume}")).parse().map_err(crate::status::of)
}

fn bucket_name(prefix: &str, name: &str) -> Result<BucketName, Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("name is missing"));
    }
    // The banned characters of CreateVolumeRequest.name: white space is none of them.
    let banned = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r');
    if name.len() > STRING_BYTES_MAX || name.contains(banned) {
        let shown: String = name.chars().take(STRING_BYTES_MAX).collect();
        return Err(Status::invalid_argument(format!(
            "name {shown:?} is not valid: use at most {STRING_BYTES_MAX} bytes without control characters"
        )));
    }
    match name.parse() {
        Ok(name) => Ok(name),
        Err(_) => mapped(prefix, name).parse().map_err(crate::status::of),
    }
}

fn mapped(prefix: &str, name: &str) -> String {
    let hash = hex(&Sha256::digest(name.as_bytes())[..HASH_BYTES]);
    match readable(name) {
        readable if readable.is_empty() => format!("{prefix}-{hash}"),
        readable => format!("{prefix}-{readable}-{hash}"),
    }
}

/// Lower-case letters and digits, with one hyphen in place of anything else.
fn readable(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let cut: String = joined.chars().take(READABLE_CHARS_MAX).collect();
    cut.trim_end_matches('-').to_owned()
}

/// Bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names_stay_as_they_are() {
        for name in ["pvc-0a1b2c3d-1111-2222-3333-444455556666", "abc", "my.volume"] {
            assert_eq!(for_volume(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn other_names_are_mapped_readably() {
        let id = for_volume("Sanity_Volume/ONE").unwrap();
        assert!(id.as_str().starts_with("vol-sanity-volume-one-"), "{id}");
        let id = for_snapshot("Sanity_Volume/ONE").unwrap();
        assert!(id.as_str().starts_with("snap-sanity-volume-one-"), "{id}");
    }

    #[test]
    fn every_name_gets_a_bucket_name_of_its_own() {
        let long = "A".repeat(128);
        let longer = format!("{}B", "A".repeat(127));
        let names = [long.as_str(), longer.as_str(), "ab", "AB", "a_b", "a b", "é", "日本", "192.168.0.1", "..", "-"];
        let ids: std::collections::HashSet<_> = names.iter().map(|name| for_snapshot(name).unwrap()).collect();
        assert_eq!(ids.len(), names.len());
        assert_eq!(for_volume(&long).unwrap(), for_volume(&long).unwrap());
    }

    #[test]
    fn every_volume_of_every_group_gets_a_snapshot_of_its_own() {
        let names = ["one", "two", "one-two", &"a".repeat(63)].map(|name| for_group(name).unwrap());
        let pairs = names.iter().flat_map(|group| names.iter().map(move |volume| (group, volume)));
        let ids: std::collections::HashSet<_> =
            pairs.map(|(group, volume)| for_member(group, volume).unwrap()).collect();
        assert_eq!(ids.len(), names.len() * names.len());
    }

    #[test]
    fn every_character_that_the_specification_allows_may_be_in_a_name() {
        for name in ["a\tb", "a\nb", "a\rb", "\u{a0}", "a/b", "日本", "👩‍👩‍👧", "\u{10ffff}"] {
            assert!(for_volume(name).is_ok() && for_snapshot(name).is_ok() && for_group(name).is_ok(), "{name:?}");
        }
        assert!(for_volume(&"é".repeat(64)).is_ok(), "128 bytes");
    }

    #[test]
    fn names_out_of_bounds_are_refused() {
        let banned = ('\0'..='\u{8}').chain(['\u{b}', '\u{c}']).chain('\u{e}'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
        let banned: Vec<_> = banned.map(|letter| format!("a{letter}b")).collect();
        assert_eq!(banned.len(), 62);
        for name in ["", "A".repeat(129).as_str()].into_iter().chain(banned.iter().map(String::as_str)) {
            assert_eq!(for_volume(name).unwrap_err().code(), tonic::Code::InvalidArgument, "{name:?}");
        }
    }
}
