//! Runs the corpora of the fuzz targets (`fuzz/corpus/`) as ordinary tests of the crates that the targets test.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The smallest number of files of a corpus: fewer means that some were lost.
const FILES_MIN: usize = 12;

/// Runs a target on every file of its corpus.
///
/// # Panics
/// If the target panics, or its corpus is missing or has too few files.
pub fn run(target: &str, feed: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files: Vec<_> = files.map(|entry| entry.expect("a file of the corpus").path()).collect();
    assert!(files.len() >= FILES_MIN, "{}: {} files", folder.display(), files.len());
    for file in files {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let kept = catch_unwind(AssertUnwindSafe(|| feed(&bytes)));
        assert!(kept.is_ok(), "the target fails on {}: its panic is above", file.display());
    }
}
