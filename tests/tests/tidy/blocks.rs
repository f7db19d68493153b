//! The blocks of a Rust file that have members: inherent and trait implementations, traits and enums.

use super::code::{Token, closing};

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `impl Type { … }`
    Methods,
    /// `impl Trait for Type { … }`
    Trait,
    /// `trait`, `enum` or `struct`: the definition of the name.
    Definition,
}

/// A block: the type or trait that it belongs to, and the names of its functions, constants and variants.
#[derive(Debug)]
pub struct Block<'a> {
    pub kind: Kind,
    pub name: &'a str,
    pub line: usize,
    pub members: Vec<&'a str>,
}

/// All blocks of a file's product code.
pub fn blocks<'a>(tokens: &[Token<'a>]) -> Vec<Block<'a>> {
    let found = (0..tokens.len()).filter_map(|at| match tokens[at].text {
        "impl" if begins_item(tokens, at) => implementation(tokens, at),
        "trait" | "enum" | "struct" => definition(tokens, at),
        _ => None,
    });
    found.collect()
}

/// Whether the `impl` at `at` begins a block and is no type of an argument or a result.
fn begins_item(tokens: &[Token<'_>], at: usize) -> bool {
    at == 0 || matches!(tokens[at - 1].text, "}" | ";" | "]" | "{" | "unsafe")
}

fn implementation<'a>(tokens: &[Token<'a>], at: usize) -> Option<Block<'a>> {
    let open = at + tokens[at..].iter().position(|token| matches!(token.text, "{" | ";"))?;
    let header = &tokens[at + 1..open];
    let header = &header[generics(header)..];
    let header = header.split(|token| token.text == "where").next().unwrap_or_default();
    let (kind, path) = match header.iter().position(|token| token.text == "for") {
        Some(at) => (Kind::Trait, &header[at + 1..]),
        None => (Kind::Methods, header),
    };
    Some(Block { kind, name: last_of_path(path)?, line: tokens[at].line, members: functions(tokens, open) })
}

/// The length of the generic parameters that `header` begins with.
fn generics(header: &[Token<'_>]) -> usize {
    let (mut depth, mut before) = (0_usize, "");
    for (at, token) in header.iter().enumerate() {
        match token.text {
            "<" => depth += 1,
            ">" if before != "-" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { 0 } else { at + 1 };
        }
        before = token.text;
    }
    0
}

/// The last name of a path, without its parameters: `Session` of `super::Session<'_>`.
fn last_of_path<'a>(path: &[Token<'a>]) -> Option<&'a str> {
    let is_name = |token: &&Token<'_>| token.text.starts_with(char::is_alphabetic) && token.text != "dyn";
    let plain = path.iter().take_while(|token| token.text != "<");
    plain.filter(is_name).last().map(|token| token.text)
}

fn definition<'a>(tokens: &[Token<'a>], at: usize) -> Option<Block<'a>> {
    let name = tokens.get(at + 1).filter(|token| token.text.starts_with(char::is_uppercase))?;
    let open = at + tokens[at..].iter().position(|token| matches!(token.text, "{" | ";" | "("))?;
    let members = match tokens[at].text {
        "enum" => variants(tokens, open),
        _ => functions(tokens, open),
    };
    Some(Block { kind: Kind::Definition, name: name.text, line: name.line, members })
}

/// The names of functions and constants right in the block that opens at `open`.
fn functions<'a>(tokens: &[Token<'a>], open: usize) -> Vec<&'a str> {
    let mut names = Vec::new();
    each_inside(tokens, open, |at| {
        if matches!(tokens[at].text, "fn" | "const") && tokens[at + 1].text != "fn" {
            names.push(tokens[at + 1].text);
        }
    });
    names
}

/// The names right in the block that opens at `open` which begin a variant.
fn variants<'a>(tokens: &[Token<'a>], open: usize) -> Vec<&'a str> {
    let mut names = Vec::new();
    each_inside(tokens, open, |at| {
        if tokens[at].text.starts_with(char::is_uppercase) && matches!(tokens[at - 1].text, "{" | "," | "]") {
            names.push(tokens[at].text);
        }
    });
    names
}

/// Calls `visit` for each token of the block that opens at `open` which lies in no bracket inside it.
fn each_inside(tokens: &[Token<'_>], open: usize, mut visit: impl FnMut(usize)) {
    if tokens[open].text != "{" {
        return;
    }
    let (end, mut at) = (closing(tokens, open), open + 1);
    while at < end {
        match tokens[at].text {
            "{" | "(" | "[" => at = closing(tokens, at),
            _ => visit(at),
        }
        at += 1;
    }
}

#[test]
fn blocks_have_the_name_of_their_type_and_their_members() {
    let text = "struct A(u8); enum B<T> { #[x(Y)] C, D(T), E { f: u8 } }
        impl<F: Fn() -> T, T> super::A<T> where T: G { const H: u8 = 1; pub const fn i() -> impl J { fn k() {} } }
        impl L for A { fn m(&self) {} }
        trait N { fn o(); fn p() { q() } }";
    let product = super::code::product(text);
    let found: Vec<_> =
        blocks(&product.tokens).into_iter().map(|block| (block.kind, block.name, block.members)).collect();
    let expected = [
        (Kind::Definition, "A", vec![]),
        (Kind::Definition, "B", vec!["C", "D", "E"]),
        (Kind::Methods, "A", vec!["H", "i"]),
        (Kind::Trait, "A", vec!["m"]),
        (Kind::Definition, "N", vec!["o", "p"]),
    ];
    assert_eq!(found, expected);
}
