//! The corpora of the fuzz targets (`fuzz/corpus/`), run as ordinary tests of the crates whose code they reach.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// A corpus of fewer files lost some.
const FILES_MIN: usize = 12;

/// Feeds a target every file of its corpus.
///
/// # Panics
/// The target does, or its corpus is missing or hardly there.
pub fn run(target: &str, feed: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files: Vec<_> = files.map(|entry| entry.expect("a file of the corpus").path()).collect();
    assert!(files.len() >= FILES_MIN, "{}: {} files", folder.display(), files.len());
    for file in files {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let kept = catch_unwind(AssertUnwindSafe(|| feed(&bytes)));
        assert!(kept.is_ok(), "{} breaks a promise: see above", file.display());
    }
}
