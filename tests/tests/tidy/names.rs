//! Names of code in the pages for who works on it: files, and functions by their type, have to exist.
//!
//! - In `docs/internals/`, but not in its decisions, which may name what has been moved or removed since.
//! - `store/object.rs` is a file with that end of its path. `Store::put_object` is a function, a constant or a variant
//!   in a block of that type; `content::INLINE_MAX` stands in a file of that module or crate.
//! - In the page on the architecture, `write_cold` stands in some Rust file. Other pages name things of other projects.

use std::collections::{HashMap, HashSet};

use super::blocks::blocks;
use super::code::product;
use super::links::{prose, spans};
use super::tree::{File, Finding};

/// The page in which every name with an underscore is one of the code.
const ARCHITECTURE: &str = "docs/internals/architecture.md";

/// What the sources have.
struct Code<'a> {
    paths: Vec<&'a str>,
    /// The members of all types.
    members: HashSet<(&'a str, &'a str)>,
    /// In which files each name stands.
    names: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Code<'a> {
    fn of(files: &'a [File]) -> Self {
        let mut code = Self { paths: Vec::new(), members: HashSet::new(), names: HashMap::new() };
        for file in files.iter().filter(|file| file.is_rust()) {
            code.paths.push(&file.path);
            let product = product(&file.text);
            for block in blocks(&product.tokens) {
                code.members.extend(block.members.into_iter().map(|member| (block.name, member)));
            }
            for token in product.tokens.into_iter().filter(|token| token.text.len() > 1) {
                let places = code.names.entry(token.text).or_default();
                if places.last() != Some(&file.path.as_str()) {
                    places.push(&file.path);
                }
            }
        }
        code
    }

    /// Whether a file's path ends with this.
    fn has_file(&self, path: &str) -> bool {
        let ends =
            |file: &&str| file.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with('/'));
        self.paths.iter().any(ends)
    }

    /// Whether a type, a module or a crate has a name in it.
    fn has_member(&self, of: &str, name: &str) -> bool {
        if of.starts_with(char::is_uppercase) {
            return self.members.contains(&(of, name));
        }
        let is_in = |file: &&str| file.split('/').any(|part| part.strip_suffix(".rs").unwrap_or(part) == of);
        self.names.get(name).is_some_and(|files| files.iter().any(is_in))
    }

    /// Whether a code span of a page names nothing that is absent.
    fn has(&self, page: &File, span: &str) -> bool {
        if let Some(path) = span.strip_suffix(".rs") {
            return expanded(path).iter().all(|path| self.has_file(&format!("{path}.rs")));
        }
        let name = span.strip_suffix("()").unwrap_or(span);
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c)) {
            return true;
        }
        match name.rsplit_once("::") {
            Some((path, name)) => self.has_member(path.rsplit("::").next().unwrap_or(path), name),
            None => page.path != ARCHITECTURE || !name.contains('_') || self.names.contains_key(name),
        }
    }
}

/// The paths that one with alternatives in braces stands for.
fn expanded(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (names, after))) => names.split(',').map(|name| format!("{before}{name}{after}")).collect(),
        None => vec![path.to_owned()],
    }
}

/// Names in the pages that the code does not have.
pub fn missing(files: &[File]) -> Vec<Finding> {
    let code = Code::of(files);
    let is_page = |path: &str| path.strip_prefix("docs/internals/").is_some_and(|name| !name.contains('/'));
    let pages = files.iter().filter(|file| is_page(&file.path) && file.path.ends_with(".md"));
    let in_page =
        |page| prose(page).into_iter().flat_map(move |(line, text)| spans(text).map(move |span| (page, line, span)));
    pages
        .flat_map(in_page)
        .filter(|(page, _, span)| !code.has(page, span))
        .map(|(page, line, span): (&File, _, _)| {
            page.finding(line, format!("`{span}` is not in the code: name what is"))
        })
        .collect()
}

#[test]
fn a_name_that_the_code_lost_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let code = "pub enum E { Variant } impl super::A { fn held(&self) { some_call() } } pub const LIMIT: u8 = 1;";
    let page = "`a/b.rs` `b.rs` `a/{b,c}.rs`\n`A::held` `E::Variant` `a::LIMIT` `some_call()` `x y_z` `word`\n\
                `gone.rs`\n`a/{b,d}.rs`\n`A::gone`\n`E::held`\n`c::LIMIT`\n`other_call`\n```\n`gone.rs`\n```\n";
    let files = [
        file("k/src/a/b.rs", code),
        file("k/src/a/c.rs", ""),
        file(ARCHITECTURE, page),
        file("docs/internals/testing.md", "`other_call`"),
        file("docs/internals/decisions/0001.md", "`gone.rs`"),
    ];
    let lines: Vec<_> = missing(&files).into_iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7, 8]);
}
