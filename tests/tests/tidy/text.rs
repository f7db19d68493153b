//! Rules for every text file: no unfinished work, and no paths of one machine.

use super::tree::{File, Finding, has_word};

/// In pieces, so that this file is no finding.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACROS: [&str; 3] = [concat!("dbg", "!("), concat!("todo", "!("), concat!("unimplemented", "!(")];
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Marks and macros of unfinished work.
pub fn leftovers(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines().filter(|_| !generated(file)) {
        let mark = MARKS.iter().find(|mark| has_word(line, mark));
        let call = MACROS.iter().find(|call| file.is_rust() && line.contains(**call));
        if let Some(found) = mark.or(call) {
            findings
                .push(file.finding(number, format!("`{found}` is left: finish it, or write down the limit in docs/")));
        }
    }
    findings
}

/// Absolute paths that exist only on the author's machine.
pub fn machine_paths(file: &File) -> Vec<Finding> {
    let lines = file.lines().filter(|_| !generated(file));
    let found =
        lines.filter_map(|(number, line)| Some((number, MACHINE_PATHS.iter().find(|path| has_path(line, path))?)));
    found
        .map(|(number, path)| file.finding(number, format!("`{path}` exists on one machine: write a relative path")))
        .collect()
}

/// Whether an absolute path begins here, rather than the middle of an address or a relative path.
fn has_path(line: &str, path: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || "._-~})*".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].chars().next_back().is_some_and(inner))
}

/// Written by a tool.
fn generated(file: &File) -> bool {
    file.path.ends_with(".lock")
}

#[test]
fn leftovers_and_machine_paths_are_found() {
    let text = format!(
        "// {} later\nlet a = \"{}x\";\nhttps://a.example{}b\nmktemp a.XXXXXX\n",
        MARKS[0], MACHINE_PATHS[0], MACHINE_PATHS[0]
    );
    let file = File { path: "s3/src/a.rs".to_owned(), text };
    let lines = |findings: Vec<Finding>| findings.iter().map(|finding| finding.line).collect::<Vec<_>>();
    assert_eq!(lines(leftovers(&file)), [1]);
    assert_eq!(lines(machine_paths(&file)), [2]);
}
