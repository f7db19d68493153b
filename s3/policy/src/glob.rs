//! Matching of texts with wildcards.
//!
//! - A pattern that requires more bytes than the text has is abandoned while it is built, so a pattern costs no more
//!   than the text it is matched with.
//! - Time grows with the text, not with text times pattern: one user writes a policy, and the requests of all users pay
//!   for its evaluation. Only a segment with `?` takes more, one operation per 64 of its characters and character of
//!   the text.

use std::collections::HashMap;

/// A pattern under construction for texts of one length.
pub(super) struct Glob {
    /// The parts between `*`: one more than there are `*`.
    segments: Vec<Vec<Step>>,
    /// Bytes of the text that the pattern does not require yet.
    room: usize,
}

/// A part of a segment. Two texts are never adjacent.
enum Step {
    /// `?`: any one character.
    One,
    Text(String),
}

/// The pattern requires more than the text has.
pub(super) struct TooShort;

impl Glob {
    /// An empty pattern for a text of this many bytes.
    pub(super) fn new(text_bytes: usize) -> Self {
        Self { segments: vec![Vec::new()], room: text_bytes }
    }

    /// Appends `*`.
    pub(super) fn any(&mut self) {
        self.segments.push(Vec::new());
    }

    /// Appends `?`.
    pub(super) fn one(&mut self) -> Result<(), TooShort> {
        self.take(1)?;
        self.last().push(Step::One);
        Ok(())
    }

    /// Appends a literal text.
    pub(super) fn text(&mut self, text: &str) -> Result<(), TooShort> {
        self.take(text.len())?;
        match self.last().last_mut() {
            _ if text.is_empty() => {}
            Some(Step::Text(before)) => before.push_str(text),
            _ => self.last().push(Step::Text(text.to_owned())),
        }
        Ok(())
    }

    /// Whether all of `text` matches. The first and the last segment have fixed places; each other one takes the first
    /// place where it fits, which leaves the most for those that follow.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (first, rest) = self.segments.split_first().expect("there is always one");
        let Some(after) = strip_start(first, text) else { return false };
        let Some((last, between)) = rest.split_last() else { return after.is_empty() };
        let left = between.iter().try_fold(after, |text, segment| find(segment, text));
        left.is_some_and(|text| ends_with(last, text))
    }

    fn take(&mut self, bytes: usize) -> Result<(), TooShort> {
        self.room = self.room.checked_sub(bytes).ok_or(TooShort)?;
        Ok(())
    }

    fn last(&mut self) -> &mut Vec<Step> {
        self.segments.last_mut().expect("there is always one")
    }
}

/// The rest of `text` after a segment that it begins with.
fn strip_start<'t>(segment: &[Step], text: &'t str) -> Option<&'t str> {
    segment.iter().try_fold(text, |text, step| match step {
        Step::One => {
            let mut chars = text.chars();
            chars.next().map(|_| chars.as_str())
        }
        Step::Text(wanted) => text.strip_prefix(wanted.as_str()),
    })
}

fn ends_with(segment: &[Step], text: &str) -> bool {
    let left = segment.iter().rev().try_fold(text, |text, step| match step {
        Step::One => {
            let mut chars = text.chars();
            chars.next_back().map(|_| chars.as_str())
        }
        Step::Text(wanted) => text.strip_suffix(wanted.as_str()),
    });
    left.is_some()
}

/// The rest of `text` after the first place where a segment fits.
fn find<'t>(segment: &[Step], text: &'t str) -> Option<&'t str> {
    match segment {
        [] => Some(text),
        [Step::Text(wanted)] => text.split_once(wanted.as_str()).map(|(_, after)| after),
        _ => Gapped::new(segment).find(text),
    }
}

/// A segment with `?`, found by shift-and (Baeza-Yates and Gonnet, "A New Approach to Text Searching", 1992): one bit
/// for each of its characters, set while all characters up to it match the last ones read.
struct Gapped {
    /// The positions that match each character; a character that is not listed matches `?` only.
    fits: HashMap<char, Vec<u64>>,
    gaps: Vec<u64>,
    /// The bit of the last character, in the last word.
    end: u64,
}

impl Gapped {
    fn new(segment: &[Step]) -> Self {
        let chars: Vec<Option<char>> = segment.iter().flat_map(chars).collect();
        let words = chars.len().div_ceil(64);
        let mut gapped = Self { fits: HashMap::new(), gaps: vec![0; words], end: 1 << ((chars.len() + 63) % 64) };
        for (at, char) in chars.iter().enumerate() {
            let mask = match char {
                Some(char) => gapped.fits.entry(*char).or_insert_with(|| vec![0; words]),
                None => &mut gapped.gaps,
            };
            mask[at / 64] |= 1 << (at % 64);
        }
        for mask in gapped.fits.values_mut() {
            mask.iter_mut().zip(&gapped.gaps).for_each(|(word, gaps)| *word |= gaps);
        }
        gapped
    }

    fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut state = vec![0u64; self.gaps.len()];
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            let mask = self.fits.get(&char).unwrap_or(&self.gaps);
            let mut carry = 1;
            for (word, mask) in state.iter_mut().zip(mask) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & mask;
                carry = next;
            }
            if state.last().is_some_and(|word| word & self.end != 0) {
                return Some(chars.as_str());
            }
        }
        None
    }
}

/// The characters of a step; `None` stands for `?`.
fn chars(step: &Step) -> Box<dyn Iterator<Item = Option<char>> + '_> {
    match step {
        Step::One => Box::new(std::iter::once(None)),
        Step::Text(text) => Box::new(text.chars().map(Some)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(pattern: &str, text: &str) -> bool {
        let mut glob = Glob::new(text.len());
        let fits = pattern.chars().try_for_each(|char| match char {
            '*' => {
                glob.any();
                Ok(())
            }
            '?' => glob.one(),
            char => glob.text(char.encode_utf8(&mut [0; 4])),
        });
        fits.is_ok() && glob.matches(text)
    }

    /// A simple recursive matcher to compare with.
    fn plain(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            (['*', rest @ ..], _) => (0..=text.len()).any(|skipped| plain(rest, &text[skipped..])),
            ([], _) => text.is_empty(),
            (['?', pattern @ ..], [_, text @ ..]) => plain(pattern, text),
            ([wanted, pattern @ ..], [found, text @ ..]) => wanted == found && plain(pattern, text),
            (_, []) => false,
        }
    }

    /// All words of these letters up to a length.
    fn words(letters: &[char], most: usize) -> Vec<Vec<char>> {
        let mut words = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..most {
            let longer = words[from..].iter().flat_map(|word: &Vec<char>| {
                letters.iter().map(move |letter| word.iter().copied().chain([*letter]).collect::<Vec<_>>())
            });
            let longer: Vec<_> = longer.collect();
            from = words.len();
            words.extend(longer);
        }
        words
    }

    #[test]
    fn it_matches_as_the_plain_way_does() {
        let texts = words(&['a', 'ü'], 5);
        for pattern in words(&['a', 'ü', '?', '*'], 5) {
            let written: String = pattern.iter().collect();
            for text in &texts {
                let told: String = text.iter().collect();
                assert_eq!(glob(&written, &told), plain(&pattern, text), "{written} on {told}");
            }
        }
    }

    #[test]
    fn segments_reach_over_words() {
        for length in [62, 63, 64, 65, 127, 128, 129, 200] {
            let pattern = format!("*a?{}b*", "a".repeat(length));
            let text = |end| format!("{}{end}x", "a".repeat(length + 5));
            assert!(glob(&pattern, &text("b")), "{length}");
            assert!(!glob(&pattern, &text("c")), "{length}");
            assert!(!glob(&pattern, &format!("{}b", "a".repeat(length))), "{length}");
        }
    }

    #[test]
    fn the_worst_pattern_is_done_in_no_time() {
        let text = "a".repeat(19_000);
        for wanted in ["a".repeat(9_500), "a?".repeat(4_750)] {
            assert!(!glob(&format!("*{wanted}b"), &text));
            assert!(!glob(&format!("*{wanted}b*"), &text));
        }
    }
}
