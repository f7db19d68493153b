//! Texts of errors that are constants (`&'static str`) in the program that made them, such as the name of a field.
//!
//! A decoded text becomes a constant again by staying in memory until the process ends. The number and the length of
//! such texts are bounded, so a peer cannot fill the memory with them.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// The most different words that are kept.
const WORDS_MAX: usize = 256;
/// The longest word, in bytes.
const WORD_BYTES_MAX: usize = 64;
/// Stands for a word beyond these bounds.
const OTHER: &str = "value";

static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The fixed word of a text.
pub(crate) fn fixed(text: &str) -> &'static str {
    if text.len() > WORD_BYTES_MAX {
        return OTHER;
    }
    let mut words = WORDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = words.get(text) {
        return known;
    }
    if words.len() >= WORDS_MAX {
        return OTHER;
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    words.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_once_and_no_more_than_their_bound() {
        let first = fixed("prefix");
        assert!(std::ptr::eq(first, fixed("prefix")) && first == "prefix");
        assert_eq!(fixed(&"x".repeat(WORD_BYTES_MAX + 1)), OTHER);
        let words: BTreeSet<_> = (0..10 * WORDS_MAX).map(|number| fixed(&format!("word {number}"))).collect();
        assert!(words.contains(OTHER) && words.len() <= WORDS_MAX + 1);
        assert_eq!(fixed("prefix"), "prefix", "known words stay");
    }
}
