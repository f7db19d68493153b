//! The bodies of the fuzz targets (`fuzz/`): parsers of untrusted texts, called with arbitrary bytes.
//!
//! - Each function accepts any bytes and panics only where a guarantee is broken.
//! - The corpora run as ordinary tests, below.

use std::collections::{BTreeMap, HashMap};
use std::path::Component;

pub use crate::controller::fuzzed::Calls;
use crate::mount_flags::MountFlags;
use crate::secret::Error;
use crate::{path, secret, volume_id};

/// Secrets of Kubernetes: a line `NAME=VALUE` for each entry, or else all bytes as the entry `BucketInfo`. An error
/// consists of fixed words and numbers, and a key's Debug output does not show its secret.
pub fn secret(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let entry = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let entries: Option<HashMap<String, String>> = text.lines().map(entry).collect();
    let whole = || HashMap::from([("BucketInfo".to_owned(), text.clone().into_owned())]);
    match secret::parse(&entries.filter(|_| !text.starts_with('{')).unwrap_or_else(whole)) {
        Ok(None) => {}
        Ok(Some(key)) => {
            assert!(!key.id.is_empty() && !key.secret.reveal().is_empty(), "an incomplete key");
            assert_eq!(format!("{:?}", key.secret), "Secret(…)");
        }
        Err(Error::NoKey | Error::NotS3 | Error::Half { .. } | Error::NotBucketInfo { .. }) => {}
    }
}

/// Names, paths and mount options as the sidecars send them. A parsed path or name stays the same when it is parsed
/// again.
pub fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(path) = path::parse("target_path", &text) {
        assert!(path.is_absolute() && path.file_name().is_some(), "{}", path.display());
        assert!(!path.components().any(|part| part == Component::ParentDir), "{}", path.display());
    }
    if let Ok(name) = volume_id::for_volume(&text) {
        assert!(volume_id::for_volume(&text).is_ok_and(|again| again == name), "the same name is the same bucket");
    }
    let _ = volume_id::for_snapshot(&text);
    let given: Vec<String> = text.lines().map(str::to_owned).collect();
    match MountFlags::parse(&given) {
        Ok(flags) => assert!(!flags.prefix.split('/').any(|part| part == ".."), "{}", flags.prefix),
        // Options may hold secrets, so an error names only their position.
        Err(status) => assert_eq!(without_digits(status.message()), without_digits(&refusal_of_any())),
    }
}

fn refusal_of_any() -> String {
    MountFlags::parse(&["?".to_owned()]).map_or_else(|status| status.message().to_owned(), |_| String::new())
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|one| !one.is_ascii_digit()).collect()
}

/// The targets by name, except those that need [`Calls`].
pub fn targets() -> BTreeMap<&'static str, fn(&[u8])> {
    BTreeMap::from([("secret", secret as fn(&[u8])), ("names", names)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpora_break_no_promise() {
        for (name, target) in targets() {
            corpora::run(name, target);
        }
    }

    #[test]
    fn no_call_of_the_corpus_is_answered_as_a_failure_of_the_controller() {
        let calls = Calls::start();
        corpora::run("calls", |bytes| calls.call(bytes));
    }
}
