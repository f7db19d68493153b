//! Words that a reader has to decode: each may stand on so many lines of the tree, and that number only falls.
//!
//! `docs/glossary.md` has the terms to use. Who removes some of these words lowers their ceiling to what is left.

use super::tree::{File, Finding, has_word};

/// A word or phrase, and on how many lines of sources and documents it may stand.
struct Ceiling {
    word: &'static str,
    lines: usize,
    instead: &'static str,
}

const fn ceiling(word: &'static str, lines: usize, instead: &'static str) -> Ceiling {
    Ceiling { word, lines, instead }
}

/// The words. In pieces where a word would find itself.
const CEILINGS: [Ceiling; 17] = [
    ceiling(concat!("The ", "same,"), 15, "name the thing again, so that the comment stands alone"),
    ceiling(concat!("who", "ever"), 25, "name who: the client, the caller, the account"),
    ceiling(concat!("Who", "ever"), 7, "name who: the client, the caller, the account"),
    ceiling(concat!("nobody", "'s"), 6, "name the state: unreferenced, without an owner"),
    ceiling(concat!("who ", "comes"), 4, "name who: the next thread, the next client"),
    ceiling(concat!("by ", "now"), 6, "leave it out, or give the time"),
    ceiling(concat!("a", "new"), 23, "again, or a new one"),
    ceiling(concat!("men", "ded"), 34, "repaired, fixed"),
    ceiling(concat!("is ", "told"), 27, "is notified, is logged, receives"),
    ceiling(concat!("are ", "told"), 6, "are notified, receive"),
    ceiling(concat!("lets ", "go"), 3, "releases, closes"),
    ceiling(concat!("of its ", "own accord"), 3, "by itself"),
    ceiling(concat!("what", "ever"), 62, "any, or name the cases"),
    ceiling(concat!("some", "body"), 44, "name who: a client, an operator, a program"),
    ceiling(concat!("past the ", "server"), 21, "by passthrough"),
    ceiling(concat!("warr", "ant"), 9, "access check"),
    ceiling(concat!("makes ", "up for"), 1, "compensates"),
];

/// The words of which there are more than their ceiling, each at the first file that has it.
pub fn beyond_ceilings(files: &[File]) -> Vec<Finding> {
    CEILINGS.iter().filter_map(|ceiling| beyond(ceiling, files)).collect()
}

fn beyond(Ceiling { word, lines, instead }: &Ceiling, files: &[File]) -> Option<Finding> {
    let written = files.iter().filter(|file| file.path.ends_with(".rs") || file.path.ends_with(".md"));
    let found: Vec<_> = written
        .flat_map(|file| file.lines().filter(|(_, line)| has_word(line, word)).map(move |(number, _)| (file, number)))
        .collect();
    let (file, number) = found.first().filter(|_| found.len() > *lines)?;
    let count = found.len();
    Some(file.finding(
        *number,
        format!("`{word}` stands on {count} lines, at most {lines} may have it: write instead: {instead}"),
    ))
}

#[test]
fn a_word_beyond_its_ceiling_is_found() {
    let file = |text: &str| File { path: "docs/a.md".to_owned(), text: text.to_owned() };
    let word = ceiling("decode", 1, "read");
    assert_eq!(beyond(&word, &[file("decode it"), file("decoder")]), None, "one line may have it");
    let found = beyond(&word, &[file("x\ndecode it"), file("to decode")]).expect("two lines have it");
    assert_eq!((found.line, found.what_to_do.contains("on 2 lines, at most 1")), (2, true));
}
