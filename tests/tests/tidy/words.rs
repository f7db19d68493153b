//! Words and phrases that readers find hard to understand. Each has a ceiling: the number of lines that may contain it.
//!
//! A ceiling may only be lowered: a change that removes some of these words sets it to the number that is left.
//! `docs/glossary.md` has the terms to use.

use super::tree::{File, Finding, has_word};

/// A word or phrase, and the number of lines in sources and documents that may contain it.
struct Ceiling {
    word: &'static str,
    lines: usize,
    instead: &'static str,
}

const fn ceiling(word: &'static str, lines: usize, instead: &'static str) -> Ceiling {
    Ceiling { word, lines, instead }
}

/// The words, in pieces, so that this file contains none of them.
const CEILINGS: [Ceiling; 17] = [
    ceiling(concat!("The ", "same,"), 0, "name the thing again, so that the comment stands alone"),
    ceiling(concat!("who", "ever"), 0, "name who: the client, the caller, the account"),
    ceiling(concat!("Who", "ever"), 0, "name who: the client, the caller, the account"),
    ceiling(concat!("nobody", "'s"), 0, "name the state: unreferenced, without an owner"),
    ceiling(concat!("who ", "comes"), 0, "name who: the next thread, the next client"),
    ceiling(concat!("by ", "now"), 0, "leave it out, or give the time"),
    ceiling(concat!("a", "new"), 0, "again, or a new one"),
    ceiling(concat!("men", "ded"), 0, "repaired, fixed"),
    ceiling(concat!("is ", "told"), 0, "is notified, is logged, receives"),
    ceiling(concat!("are ", "told"), 0, "are notified, receive"),
    ceiling(concat!("lets ", "go"), 0, "releases, closes"),
    ceiling(concat!("of its ", "own accord"), 0, "by itself"),
    ceiling(concat!("what", "ever"), 0, "any, or name the cases"),
    ceiling(concat!("some", "body"), 0, "name who: a client, an operator, a program"),
    ceiling(concat!("past the ", "server"), 0, "by passthrough"),
    ceiling(concat!("warr", "ant"), 0, "access check"),
    ceiling(concat!("makes ", "up for"), 0, "compensates"),
];

/// The words on more lines than their ceiling, each reported at the first line that has it.
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
        format!("`{word}` is on {count} lines, at most {lines} are allowed; write instead: {instead}"),
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
