//! The methods of a type are in at most two folders, so that "where is `Store::put_object`?" has one answer.
//!
//! - A folder is one right below `src/`; files right in `src/` are a folder of their own.
//! - A type that is defined in a folder is another type than one of the same name elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{Kind, blocks};
use super::code::product;
use super::tree::{File, Finding};

/// The most folders with methods of one type.
const FOLDERS_MAX: usize = 2;

/// How many types have methods in more folders. This number only falls.
const SCATTERED_MAX: usize = 0;

/// The types whose methods stand in too many folders, if there are more of them than may be.
pub fn beyond_ceiling(files: &[File]) -> Vec<Finding> {
    let crates = files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let found: Vec<Finding> = crates.flat_map(|name| scattered(name, files)).collect();
    if found.len() > SCATTERED_MAX { found } else { Vec::new() }
}

/// In which folders a name is defined, and in which it has methods, each with the first such place.
#[derive(Default)]
struct Places<'a> {
    defined: BTreeSet<&'a str>,
    methods: BTreeMap<&'a str, (&'a File, usize)>,
}

fn scattered(name: &str, files: &[File]) -> Vec<Finding> {
    let folder = format!("{name}/src/");
    let mut types: BTreeMap<&str, Places<'_>> = BTreeMap::new();
    for file in files {
        let Some(path) = file.path.strip_prefix(&folder).filter(|path| path.ends_with(".rs")) else { continue };
        let folder = path.split_once('/').map_or("", |(folder, _)| folder);
        if folder == "tests" {
            continue;
        }
        for block in blocks(&product(&file.text).tokens) {
            let places = types.entry(block.name).or_default();
            match block.kind {
                Kind::Definition => _ = places.defined.insert(folder),
                Kind::Methods => _ = places.methods.entry(folder).or_insert((file, block.line)),
                Kind::Trait => {}
            }
        }
    }
    types.iter().filter_map(|(name, places)| judge(name, places)).collect()
}

fn judge(name: &str, places: &Places<'_>) -> Option<Finding> {
    let foreign: Vec<_> = places.methods.iter().filter(|(folder, _)| !places.defined.contains(*folder)).collect();
    let folders = foreign.len() + usize::from(!places.defined.is_empty());
    let (_, (file, line)) = foreign.last().filter(|_| folders > FOLDERS_MAX)?;
    let others: Vec<_> = foreign.iter().map(|(_, (file, line))| format!("{}:{line}", file.path)).collect();
    Some(file.finding(
        *line,
        format!(
            "`{name}` has methods in {folders} folders, at most {FOLDERS_MAX} may have them: move them together, or \
             give the second job a type of its own: {}",
            others.join(", ")
        ),
    ))
}

#[test]
fn a_type_with_methods_in_three_folders_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let files = |third: &str| {
        [
            file("k/Cargo.toml", ""),
            file("k/src/a/mod.rs", "pub struct A; impl A { fn f() {} }"),
            file("k/src/a/deep/b.rs", "impl A { fn g() {} }"),
            file("k/src/c.rs", "impl crate::a::A { fn h() {} }"),
            file("k/src/d/mod.rs", third),
        ]
    };
    assert_eq!(beyond_ceiling(&files("impl super::Trait for A { fn i() {} } #[cfg(test)] mod t { impl A {} }")), []);
    assert_eq!(beyond_ceiling(&files("struct A; impl A { fn i() {} }")), [], "another type of this name");
    let found = beyond_ceiling(&files("use crate::a::A;\nimpl A { fn i() {} }"));
    assert_eq!((found.len(), found[0].path.as_str(), found[0].line), (1, "k/src/d/mod.rs", 2));
}
