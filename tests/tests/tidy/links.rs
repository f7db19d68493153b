//! Links of the documents: pages, headings, files and commands that the texts name have to exist.
//!
//! - `docs/SUMMARY.md` lists every page of `docs/`, because mdBook builds only what it lists.
//! - A link from a page in `docs/` leads to another page in `docs/`, because the site has no other files. Files outside
//!   are linked by the address of the repository.

use std::collections::HashMap;

use super::tree::{File, Finding};

/// How documents in `docs/` name a file outside of it.
const REPOSITORY: &str = "https://github.com/amphora-storage/amphora/blob/main/";

const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages of `docs/` that the table of contents lacks, and pages it lists that do not exist.
pub fn unlisted_pages(files: &[File]) -> Vec<Finding> {
    let Some(summary) = files.iter().find(|file| file.path == SUMMARY) else { return Vec::new() };
    let listed: Vec<String> =
        prose(summary).iter().flat_map(|(_, line)| targets(line)).filter_map(|link| resolve(SUMMARY, &link)).collect();
    let pages = files.iter().filter(|file| is_page(file) && file.path != SUMMARY);
    pages
        .filter(|page| !listed.contains(&page.path))
        .map(|page| page.finding(1, format!("list this page in {SUMMARY}")))
        .collect()
}

fn is_page(file: &File) -> bool {
    file.path.starts_with("docs/") && file.path.ends_with(".md")
}

/// Links that lead to no file or to no heading, and paths in code spans that no file has.
pub fn broken(files: &[File]) -> Vec<Finding> {
    let by_path: HashMap<&str, &File> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    documents.flat_map(|file| broken_in(file, &by_path)).collect()
}

fn broken_in(file: &File, files: &HashMap<&str, &File>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in prose(file) {
        let links = targets(line).into_iter().filter_map(|link| check_link(file, &link, files));
        let paths = spans(line).filter(|path| !file.is_history() && is_missing(path, files));
        let paths = paths.map(|path| format!("`{path}` does not exist"));
        findings.extend(links.chain(paths).map(|what| file.finding(number, what)));
    }
    findings
}

/// The fault of a link, if there is one.
fn check_link(file: &File, link: &str, files: &HashMap<&str, &File>) -> Option<String> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match path.strip_prefix(REPOSITORY) {
        Some(path) => path.to_owned(),
        None if path.contains("://") || path.starts_with("mailto:") => return None,
        None if path.is_empty() => file.path.clone(),
        None => resolve(&file.path, path)?,
    };
    if is_page(file) && !link.starts_with(REPOSITORY) && !target.starts_with("docs/") {
        return Some(format!("`{link}` leaves docs/: write {REPOSITORY}{target}"));
    }
    if is_folder(&target, files) && heading.is_empty() {
        return None;
    }
    let Some(page) = files.get(target.as_str()) else { return Some(format!("`{link}` leads to no file")) };
    let known = heading.is_empty() || headings(page).iter().any(|known| known == heading);
    (!known).then(|| format!("`{link}` leads to no heading of {target}"))
}

/// A relative path, seen from the folder of a file.
fn resolve(from: &str, path: &str) -> Option<String> {
    let path = path.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

/// Whether a code span is a path of this repository, written out, that no file or folder has. It begins with the name of
/// a folder at the root; there it may lie, or, like `tests/main.rs` in the README of a crate, at any folder.
fn is_missing(path: &str, files: &HashMap<&str, &File>) -> bool {
    let written_out = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let inside = path.split_once('/').filter(|(_, rest)| written_out && rest.contains(['.', '/']));
    let ours = inside.is_some_and(|(top, _)| is_folder(top, files));
    let (as_file, as_folder) = (format!("/{path}"), format!("/{}/", path.trim_end_matches('/')));
    let exists = |file: &&str| {
        let file = format!("/{file}");
        file.ends_with(&as_file) || file.contains(&as_folder)
    };
    ours && !files.keys().any(exists)
}

fn is_folder(path: &str, files: &HashMap<&str, &File>) -> bool {
    let folder = format!("{}/", path.trim_end_matches('/'));
    files.keys().any(|file| file.starts_with(&folder))
}

/// The lines of a document outside of its code blocks.
pub fn prose(file: &File) -> Vec<(usize, &str)> {
    let mut code = false;
    let mut lines = Vec::new();
    for (number, line) in file.lines() {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        if !code && !fence {
            lines.push((number, line));
        }
    }
    lines
}

/// The targets of the links in a line: `[text](target)`, not in code.
fn targets(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect();
    text.match_indices("](")
        .filter_map(|(at, _)| text[at + 2..].split_once(')'))
        .map(|(target, _)| target.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

/// The code spans of a line.
pub fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn headings(page: &File) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(page) {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let kept = text.trim().to_lowercase();
        let kept =
            kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c });
        let anchor: String = kept.collect();
        let times = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if times == 0 { anchor } else { format!("{anchor}-{times}") });
    }
    anchors
}

#[test]
fn a_link_to_nothing_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let page = "# A page\n[in](b.md#two-words), [here](#a-page), [out](https://a.example/b)\n[gone](c.md) `docs/c.md`\n\
                [no heading](b.md#three)\n```\n[code](d.md)\n```\n`[span](e.md)` `docs/b.md` `docs/…`\n[out](../a.rs)\n";
    let address = format!("[a]({REPOSITORY}a.rs) [b]({REPOSITORY}b.rs)\n");
    let files = [
        file("a.rs", ""),
        file("docs/a.md", page),
        file("docs/b.md", &format!("## Two words!\n{address}")),
        file(SUMMARY, "- [A](a.md)\n"),
    ];
    let found: Vec<_> = broken(&files).into_iter().map(|finding| (finding.path, finding.line)).collect();
    let expected = [("docs/a.md", 3), ("docs/a.md", 3), ("docs/a.md", 4), ("docs/a.md", 9), ("docs/b.md", 2)];
    assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    let unlisted: Vec<_> = unlisted_pages(&files).into_iter().map(|finding| finding.path).collect();
    assert_eq!(unlisted, ["docs/b.md"]);
}
