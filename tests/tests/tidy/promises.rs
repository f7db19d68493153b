//! Promises in `docs/`: each names the test that would fail without it, and that test has to exist.
//!
//! - A promise is a row of a table whose last column is headed "test". That column names tests in code spans: the path
//!   of a test or of a module with tests, without its crate; a part of a name with `…`; a name in the module of the
//!   span before it; a file or folder.

use super::tree::{File, Finding};

/// The pages with promises.
const PAGES: [&str; 3] = ["docs/durability.md", "docs/security.md", "docs/conformance.md"];

/// Names in the tables that lead to no test.
pub fn missing_tests(files: &[File]) -> Vec<Finding> {
    let tests: Vec<String> = files.iter().flat_map(tests).collect();
    let pages = files.iter().filter(|file| PAGES.contains(&file.path.as_str()));
    pages.flat_map(|page| rows(page).flat_map(|(line, cell)| check_cell(page, line, cell, &tests, files))).collect()
}

/// The last cells of the tables' rows, with their lines.
fn rows(page: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut promises = false;
    page.lines().filter_map(move |(number, line)| {
        let last = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')?.rsplit('|').next()).map(str::trim);
        let is = last.is_some_and(|last| promises || last.starts_with("test"));
        let was = std::mem::replace(&mut promises, is);
        last.filter(|last| was && !last.starts_with('-')).map(|last| (number, last))
    })
}

fn check_cell(page: &File, line: usize, cell: &str, tests: &[String], files: &[File]) -> Vec<Finding> {
    let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    if names.is_empty() && !cell.starts_with("the same") {
        return vec![page.finding(line, "no test: name the one that would fail without it")];
    }
    let mut module = String::new();
    let mut findings = Vec::new();
    for name in names {
        let path = name.split_once(": ").map_or(name, |(_, path)| path);
        let full = if path.contains("::") { path.to_owned() } else { format!("{module}{path}") };
        if tests.iter().any(|test| matches_path(test, &full)) {
            module = full.rsplit_once("::").map_or(String::new(), |(module, _)| format!("{module}::"));
        } else if !files.iter().any(|file| is_in(&file.path, name)) {
            findings.push(page.finding(line, format!("`{name}` is no test: name the one that would fail without it")));
        }
    }
    findings
}

/// Whether a test is one of those that a path stands for.
fn matches_path(test: &str, path: &str) -> bool {
    match path.split_once('…') {
        Some((before, after)) => test.starts_with(before) && test.ends_with(after),
        None => {
            test == path || test.strip_prefix(path).is_some_and(|rest| path.ends_with("::") || rest.starts_with("::"))
        }
    }
}

/// Whether a file has this path, or lies in this folder.
fn is_in(file: &str, path: &str) -> bool {
    let ends = file.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/'));
    ends || file.strip_prefix(path.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

/// The paths of a file's tests, without its crate.
fn tests(file: &File) -> Vec<String> {
    let Some(module) = module(&file.path) else { return Vec::new() };
    let mut marked = false;
    let named = |line: &str| {
        let (_, name) = line.split_once("fn ").filter(|_| !line.trim_start().starts_with('#'))?;
        Some(name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_owned())
    };
    let mut found = Vec::new();
    for (_, line) in file.lines() {
        let is_mark = line.trim_start().starts_with("#[") && line.contains("test");
        if let Some(name) = named(line).filter(|_| marked) {
            // Tests beside the code are in a module at the end of its file.
            let inner = if line.starts_with(' ') { "tests::" } else { "" };
            found.push(format!("{module}{inner}{name}"));
        }
        marked = is_mark || marked && line.trim_start().starts_with("#[");
    }
    found
}

/// The module that a file is, with `::` at its end.
fn module(path: &str) -> Option<String> {
    let path = path.strip_suffix(".rs")?;
    let (_, below) = path.split_once("/src/").or_else(|| path.split_once("/tests/"))?;
    let below = below.strip_suffix("/mod").unwrap_or(below);
    Some(if matches!(below, "lib" | "main" | "mod") { String::new() } else { below.replace('/', "::") + "::" })
}

#[test]
fn a_promise_without_its_test_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let page = "| what | test |\n| --- | --- |\n| a | `gates::in_…`, `out`, `box: meta::` |\n| b | `gates::gone` |\n\
                | c | `…_by` |\n| d | the same |\n| e | |\n| f | `meta::tests`, `lid.rs`, `meta::lid` |\n\n| x | `y` |\n";
    let code = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn holds() {}\n}\n";
    let gate = "#[tokio::test]\nasync fn in_and_by() {}\n#[test]\n#[ignore]\nfn out() {}\nfn gone() {}\n";
    let files = [file(PAGES[0], page), file("box/src/meta/lid.rs", code), file("tests/tests/gates/mod.rs", gate)];
    let found: Vec<_> = missing_tests(&files).into_iter().map(|finding| finding.line).collect();
    assert_eq!(found, [4, 7, 8]);
}
