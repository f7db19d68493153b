//! The product code of a Rust file as a list of tokens: without comments, without string and character literals, and
//! without items behind `#[cfg(test)]`.
//!
//! It knows only as much of Rust's syntax as these checks need: names, `::`, brackets and single characters.

/// A name, a `::` or one other character, and its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// The product code of a file.
pub struct Product<'a> {
    pub tokens: Vec<Token<'a>>,
    /// Modules in their own files that are declared here behind `#[cfg(test)]`.
    pub test_modules: Vec<&'a str>,
}

/// Reads a file.
pub fn product(text: &str) -> Product<'_> {
    let all = tokens(text);
    let mut product = Product { tokens: Vec::new(), test_modules: Vec::new() };
    let mut at = 0;
    while at < all.len() {
        if is_test_attribute(&all[at..]) {
            let item = item_start(&all, at);
            product.test_modules.extend(declared_module(&all[item..]));
            at = item_end(&all, item);
        } else {
            product.tokens.push(all[at]);
            at += 1;
        }
    }
    product
}

/// `#[cfg(…)]` that names `test` without a `not`.
fn is_test_attribute(tokens: &[Token<'_>]) -> bool {
    if !texts(tokens).take(3).eq(["#", "[", "cfg"]) {
        return false;
    }
    let attribute = &tokens[..=closing(tokens, 1)];
    texts(attribute).any(|text| text == "test") && !texts(attribute).any(|text| text == "not")
}

/// The index of the item after the attributes at `at`.
fn item_start(tokens: &[Token<'_>], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|token| token.text == "#") {
        at = closing(tokens, at + 1) + 1;
    }
    at
}

/// `mod name;` or `pub mod name;`.
fn declared_module<'a>(item: &[Token<'a>]) -> Option<&'a str> {
    let at = item.iter().take(6).position(|token| token.text == "mod")?;
    (item.get(at + 2)?.text == ";").then(|| item[at + 1].text)
}

/// The index after the last token of the item, field, variant or statement at `at`.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    const ITEMS: [&str; 14] = [
        "pub", "fn", "mod", "use", "impl", "struct", "enum", "const", "static", "type", "trait", "async", "unsafe",
        "let",
    ];
    let is_item = tokens.get(at).is_some_and(|token| ITEMS.contains(&token.text));
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "{" => return closing(tokens, at) + 1,
            "(" | "[" => at = closing(tokens, at),
            ")" | "]" | "}" => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The bracket that closes the one at `open`.
pub fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, text) in texts(tokens).enumerate().skip(open) {
        match text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len().saturating_sub(1)
}

fn texts<'t>(tokens: &'t [Token<'_>]) -> impl Iterator<Item = &'t str> {
    tokens.iter().map(|token| token.text)
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest).unwrap_or_else(|| {
            let length = token_length(rest, first);
            tokens.push(Token { text: &rest[..length], line });
            length
        });
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

fn token_length(rest: &str, first: char) -> usize {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    match first {
        ':' if rest.starts_with("::") => 2,
        _ if part(first) => rest.find(|c| !part(c)).unwrap_or(rest.len()),
        _ => first.len_utf8(),
    }
}

/// The length of the white space, comment or literal that `rest` starts with.
fn skipped(rest: &str) -> Option<usize> {
    let until = |from: usize, end: &str| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    if rest.starts_with(char::is_whitespace) {
        return Some(rest.len() - rest.trim_start().len());
    }
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(until(2, "*/"));
    }
    let literal = rest.strip_prefix('b').unwrap_or(rest);
    let prefix = rest.len() - literal.len();
    if let Some(raw) = literal.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            return Some(until(prefix + hashes + 2, &format!("\"{}", &raw[..hashes])));
        }
    }
    match literal.chars().next()? {
        '"' => Some(prefix + quoted(literal, '"')),
        '\'' => Some(prefix + character(literal)),
        _ => None,
    }
}

/// The length of a literal in quotes, in which a backslash escapes the next character.
fn quoted(literal: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in literal.char_indices().skip(1) {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    literal.len()
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character(literal: &str) -> usize {
    let mut inside = literal.chars().skip(1);
    match (inside.next(), inside.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(literal, '\''),
        _ => 1,
    }
}

#[test]
fn comments_literals_and_tests_are_no_product_code() {
    let text = r##"//! crate::a
        /* crate::b */ let s = "crate::c \" \\"; let r = r#"crate::"d"#; let c = '"'; let l: &'static str = b"crate::e";
        #[cfg(test)]
        mod tests;
        #[cfg(any(test, feature = "fuzzing"))]
        #[doc(hidden)]
        pub mod fuzzed;
        #[cfg(not(test))]
        struct Kept { #[cfg(test)] f: Option<f>, g: u8 }
        #[cfg(test)]
        fn gone<A, B>(a: [A; 2]) -> B { if a { b } }
        end"##;
    let product = product(text);
    let words: Vec<_> = texts(&product.tokens).filter(|text| text.chars().all(char::is_alphanumeric)).collect();
    let kept = "let s let r let c let l static str cfg not test struct Kept g u8 end";
    assert_eq!(words, kept.split(' ').collect::<Vec<_>>());
    assert_eq!(product.test_modules, ["tests", "fuzzed"]);
    assert_eq!(product.tokens.last(), Some(&Token { text: "end", line: 12 }));
}
