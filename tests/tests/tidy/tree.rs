//! The text files of the repository, and the faults that checks find in them.

use std::fmt;
use std::path::Path;

/// Folders without files written by hand.
const SKIPPED: [&str; 5] = [".git", ".test-tools", "amphora-data", "node_modules", "target"];

/// One text file.
pub struct File {
    /// Its path below the root, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    /// The lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it tells what was: a decision or the changelog, which may name what has been moved or removed since.
    pub fn is_history(&self) -> bool {
        self.path.contains("decisions/") || self.path == "CHANGELOG.md"
    }

    pub fn finding(&self, line: usize, what_to_do: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what_to_do: what_to_do.into() }
    }
}

/// A line that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub what_to_do: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what_to_do)
    }
}

/// All text files, in the order of their paths.
pub fn files() -> Vec<File> {
    let mut files = Vec::new();
    walk(tests::tools::repo(), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn walk(dir: &Path, prefix: &str, files: &mut Vec<File>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let entry = entry.expect("an entry of the tree");
        let name = entry.file_name().into_string().expect("file names here are UTF-8");
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("the kind of an entry");
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            walk(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file()
            // What is not UTF-8 is not text; a file may also vanish while an editor saves it.
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            files.push(File { path, text });
        }
    }
}

/// Whether `line` holds `word` with no letter, digit or underscore on either side.
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}
