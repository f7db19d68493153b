//! Dependency cycles between the modules of each crate: the size of the largest cycle, and the number of arrows inside
//! cycles. Each crate has a ceiling for both, which may only be lowered.
//!
//! A module is a file or folder right below `src/`. An arrow goes from a module to another that its product code names
//! by `crate::…` or `super::…`; names that the crate's root hands on count as the module that they come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::code::{Product, Token, closing, product};
use super::tree::{File, Finding};

/// How many modules of a crate may lie in one cycle, and how many arrows in any.
struct Ceiling {
    name: &'static str,
    cycle: usize,
    arrows: usize,
}

const fn ceiling(name: &'static str, cycle: usize, arrows: usize) -> Ceiling {
    Ceiling { name, cycle, arrows }
}

/// The crates which still have cycles; every other crate has none.
const CEILINGS: [Ceiling; 2] = [ceiling("s3", 35, 197), ceiling("objstore/disk", 2, 2)];

/// The crates whose cycles are larger than their ceiling, each with the arrows inside cycles.
pub fn beyond_ceilings(files: &[File]) -> Vec<Finding> {
    let crates = files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    crates
        .filter_map(|name| {
            let none = ceiling("", 1, 0);
            beyond(CEILINGS.iter().find(|ceiling| ceiling.name == name).unwrap_or(&none), &graph(name, files))
        })
        .collect()
}

fn beyond(ceiling: &Ceiling, graph: &Graph<'_>) -> Option<Finding> {
    let (cycle, arrows) = (graph.largest_cycle(), graph.arrows_in_cycles());
    if cycle <= ceiling.cycle && arrows.len() <= ceiling.arrows {
        return None;
    }
    let first = arrows.first()?;
    let drawn: Vec<_> = arrows.iter().map(ToString::to_string).collect();
    Some(first.file.finding(
        first.line,
        format!(
            "{cycle} modules lie in one cycle and {} arrows inside cycles, at most {} and {} may: move what is used \
             from both sides to the lower module, or hand it down as an argument: {}",
            arrows.len(),
            ceiling.cycle,
            ceiling.arrows,
            drawn.join(", ")
        ),
    ))
}

/// A module, another that it names, and where it first does.
struct Arrow<'a> {
    from: &'a str,
    to: &'a str,
    file: &'a File,
    line: usize,
}

impl fmt::Display for Arrow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {} ({}:{})", self.from, self.to, self.file.path, self.line)
    }
}

/// Which module names which, and where it first does.
#[derive(Default)]
struct Graph<'a> {
    arrows: BTreeMap<(&'a str, &'a str), (&'a File, usize)>,
}

impl<'a> Graph<'a> {
    /// All modules that `from` reaches by arrows.
    fn reached(&self, from: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            let targets = self.arrows.keys().filter(|(from, _)| *from == module).map(|(_, to)| *to);
            next.extend(targets.filter(|to| reached.insert(*to)));
        }
        reached
    }

    /// The number of modules in the largest cycle; 1 if there is none.
    fn largest_cycle(&self) -> usize {
        let modules: BTreeSet<_> = self.arrows.keys().map(|(from, _)| *from).collect();
        let reached: BTreeMap<_, _> = modules.iter().map(|module| (*module, self.reached(module))).collect();
        let returns = |from: &str, to: &str| reached.get(to).is_some_and(|back| back.contains(from));
        let cycles = reached.iter().map(|(from, reached)| reached.iter().filter(|to| returns(from, to)).count());
        cycles.max().unwrap_or_default().max(1)
    }

    /// The arrows that are part of a cycle.
    fn arrows_in_cycles(&self) -> Vec<Arrow<'a>> {
        let arrows = self.arrows.iter().map(|(&(from, to), &(file, line))| Arrow { from, to, file, line });
        arrows.filter(|arrow| self.reached(arrow.to).contains(arrow.from)).collect()
    }
}

/// A file of a crate, and the path of its module.
struct Source<'a> {
    file: &'a File,
    module: Vec<&'a str>,
    product: Product<'a>,
}

fn graph<'a>(name: &str, files: &'a [File]) -> Graph<'a> {
    let sources = sources(&format!("{name}/src/"), files);
    let modules: BTreeSet<_> = sources.iter().filter_map(|source| source.module.first().copied()).collect();
    let root = handed_on(&sources, &modules);
    let mut graph = Graph::default();
    for source in &sources {
        let Some(from) = source.module.first() else { continue };
        for (name, line) in used_names(source) {
            let to = modules.get(name).or_else(|| root.get(name));
            if let Some(to) = to.filter(|to| *to != from) {
                graph.arrows.entry((from, to)).or_insert((source.file, line));
            }
        }
    }
    graph
}

/// The product code of a crate; programs of their own (`src/bin/`) have modules of their own.
fn sources<'a>(folder: &str, files: &'a [File]) -> Vec<Source<'a>> {
    let mut sources = Vec::new();
    for file in files {
        let Some(path) = file.path.strip_prefix(folder).and_then(|path| path.strip_suffix(".rs")) else { continue };
        let mut module: Vec<_> = path.split('/').collect();
        module.pop_if(|last| matches!(*last, "mod" | "lib" | "main"));
        sources.push(Source { file, module, product: product(&file.text) });
    }
    let of_tests: BTreeSet<Vec<&str>> = sources
        .iter()
        .flat_map(|source| source.product.test_modules.iter().map(|name| [&source.module[..], &[*name]].concat()))
        .collect();
    let is_product = |module: &[&str]| (1..=module.len()).all(|depth| !of_tests.contains(&module[..depth]));
    sources.retain(|source| is_product(&source.module) && source.module.first() != Some(&"bin"));
    sources
}

/// Names that the crate's root re-exports, each with the module that defines it.
fn handed_on<'a>(sources: &[Source<'a>], modules: &BTreeSet<&'a str>) -> BTreeMap<&'a str, &'a str> {
    let mut names = BTreeMap::new();
    for source in sources.iter().filter(|source| source.module.is_empty()) {
        for uses in source.product.tokens.split(|token| token.text == ";") {
            let path = uses.iter().skip_while(|token| token.text != "use").skip(1);
            let mut path = path.map(|token| token.text).skip_while(|text| matches!(*text, "crate" | "self" | "::"));
            if let Some(module) = path.next().and_then(|first| modules.get(first)) {
                names.extend(path.map(|name| (name, *module)));
            }
        }
    }
    names
}

/// The first names after `crate::` that a file uses, each with its line.
fn used_names<'a>(source: &Source<'a>) -> Vec<(&'a str, usize)> {
    let (tokens, mut names) = (&source.product.tokens, Vec::new());
    let mut at = 0;
    while at + 2 < tokens.len() {
        let start = at;
        at += 1;
        if !matches!(tokens[start].text, "crate" | "super") || tokens[at].text != "::" {
            continue;
        }
        let mut depth = if tokens[start].text == "crate" { 0 } else { source.module.len().saturating_sub(1) };
        at += 1;
        while at + 1 < tokens.len() && tokens[at].text == "super" && tokens[at + 1].text == "::" {
            (depth, at) = (depth.saturating_sub(1), at + 2);
        }
        if depth == 0 {
            names.extend(first_names(&tokens[at..]).into_iter().map(|token| (token.text, token.line)));
        }
    }
    names
}

/// The first name of a path, or of each path in a group in braces.
fn first_names<'a>(path: &[Token<'a>]) -> Vec<Token<'a>> {
    if path.first().is_none_or(|token| token.text != "{") {
        return path.first().copied().into_iter().collect();
    }
    let (mut names, mut depth, mut fresh) = (Vec::new(), 0, true);
    for token in &path[1..closing(path, 0)] {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => fresh = true,
            _ if fresh => {
                names.push(*token);
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[(&str, &str)]) -> Vec<File> {
        let file = |(path, text): &(&str, &str)| File { path: format!("k/src/{path}"), text: (*text).to_owned() };
        texts.iter().map(file).collect()
    }

    fn measured(texts: &[(&str, &str)]) -> (usize, Vec<String>) {
        let files = files(texts);
        let graph = graph("k", &files);
        let arrows = graph.arrows_in_cycles();
        (graph.largest_cycle(), arrows.iter().map(|arrow| format!("{}>{}", arrow.from, arrow.to)).collect())
    }

    #[test]
    fn a_cycle_of_modules_is_found_and_counted() {
        let texts = [
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use c::{Name, Other as Third};"),
            ("a.rs", "use crate::b::X;"),
            ("b/mod.rs", "use super::{d, Name};"),
            ("b/deep.rs", "use super::mod_of_b; fn f() -> super::super::d::D {}"),
            ("c.rs", "pub(in crate::c) fn f() { crate::a::g() }"),
            ("d.rs", "//! Below all."),
        ];
        assert_eq!(measured(&texts), (3, ["a>b", "b>c", "c>a"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn tests_comments_and_literals_draw_no_arrows() {
        let texts = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod model;"),
            ("a.rs", "use crate::b::X;"),
            ("b.rs", "// crate::a\nconst A: &str = \"crate::a\"; #[cfg(test)] mod tests { use crate::a::X; }"),
            ("b/fuzzed.rs", "use crate::b;"),
            ("model.rs", "use crate::a::X;"),
            ("model/b.rs", "use crate::a::X;"),
        ];
        assert_eq!(measured(&texts), (1, Vec::new()));
    }

    #[test]
    fn a_crate_beyond_its_ceiling_is_named_with_its_arrows() {
        let files = files(&[("a.rs", "\nuse crate::b;"), ("b.rs", "use crate::a;")]);
        let graph = graph("k", &files);
        assert_eq!(beyond(&ceiling("k", 2, 2), &graph), None);
        let found = beyond(&ceiling("k", 1, 0), &graph).expect("a cycle of two");
        assert_eq!((found.path.as_str(), found.line), ("k/src/a.rs", 2));
        assert!(found.what_to_do.contains("b → a (k/src/b.rs:1)"), "{found}");
    }
}
