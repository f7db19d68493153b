//! Texts with wildcards and policy variables.
//!
//! - `*` matches any text, `?` any one character.
//! - `${key}` is the literal value of a condition key: a wildcard in the value has no effect. `${key, 'else'}` has a
//!   default for requests without the key; without a default such a request does not match. `${*}`, `${?}` and `${$}`
//!   are these characters themselves.

use std::borrow::Cow;

use super::glob::{Glob, TooShort};
use super::key::Key;
use super::question::Facts;

/// Whether `*` and `?` are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wildcards {
    Special,
    Plain,
}

/// Whether case matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Matters,
    Folded,
}

/// Whether `${…}` is a variable: in policies of 2012-10-17, not in older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variables {
    Known,
    Unknown,
}

impl Case {
    /// A text in the form in which it is compared.
    fn fold(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Matters => Cow::Borrowed(text),
            Self::Folded => Cow::Owned(text.chars().flat_map(char::to_lowercase).collect()),
        }
    }
}

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pieces: Box<[Piece]>,
    case: Case,
}

/// A part of a pattern. Two texts are never adjacent, and neither are two `*`.
#[derive(Clone, Debug)]
enum Piece {
    Any,
    One,
    /// In the form for comparison.
    Text(Box<str>),
    Variable(Box<Variable>),
}

#[derive(Clone, Debug)]
struct Variable {
    key: Key,
    otherwise: Option<String>,
}

impl Pattern {
    /// Parses a pattern; the error names the invalid variable.
    pub(super) fn parse(text: &str, wildcards: Wildcards, variables: Variables, case: Case) -> Result<Self, String> {
        let mut parsed = Parsed::default();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if variables == Variables::Known
                && let Some(inner) = rest.strip_prefix("${")
            {
                let end =
                    inner.find('}').ok_or_else(|| format!("\"{text}\" has a variable without its closing brace"))?;
                match inner.get(..end).unwrap_or_default() {
                    literal @ ("*" | "?" | "$") => parsed.text.push_str(literal),
                    inner => parsed.push(Piece::Variable(Box::new(Variable::parse(inner)?)), case),
                }
                rest = inner.get(end + 1..).unwrap_or_default();
                continue;
            }
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
            match (next, wildcards) {
                ('*', Wildcards::Special) => parsed.push(Piece::Any, case),
                ('?', Wildcards::Special) => parsed.push(Piece::One, case),
                _ => parsed.text.push(next),
            }
        }
        Ok(Self { pieces: parsed.end(case), case })
    }

    /// Whether it matches one and the same text in every request.
    pub(super) fn is_fixed(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// The condition keys of its variables.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(&variable.key),
            _ => None,
        })
    }

    /// Whether `text` matches, with variables taken from `facts`.
    pub(super) fn matches(&self, text: &str, facts: &dyn Facts) -> bool {
        self.run(text, |glob, variable| {
            let found = facts.values(&variable.key).into_iter().next();
            let value = found.or_else(|| variable.otherwise.clone()).ok_or(TooShort)?;
            glob.text(&self.case.fold(&value))
        })
    }

    /// Whether `text` matches for some values of the variables.
    pub(super) fn may_match(&self, text: &str) -> bool {
        self.run(text, |glob, _| {
            glob.any();
            Ok(())
        })
    }

    /// Splits the pattern at its first colons into the parts of an ARN.
    pub(super) fn split_arn(&self) -> Vec<Self> {
        let mut parts = vec![Vec::new()];
        for piece in &self.pieces {
            let Piece::Text(text) = piece else {
                parts.last_mut().expect("there is always one").push(piece.clone());
                continue;
            };
            for (at, text) in text.splitn(ARN_PARTS + 1 - parts.len(), ':').enumerate() {
                if at > 0 {
                    parts.push(Vec::new());
                }
                if !text.is_empty() {
                    parts.last_mut().expect("there is always one").push(Piece::Text(text.into()));
                }
            }
        }
        parts.into_iter().map(|pieces| Self { pieces: pieces.into(), case: self.case }).collect()
    }

    /// Whether `text` matches, with variables filled in by `fill`.
    fn run(&self, text: &str, fill: impl Fn(&mut Glob, &Variable) -> Result<(), TooShort>) -> bool {
        let text = self.case.fold(text);
        let mut glob = Glob::new(text.len());
        let filled = self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Any => {
                glob.any();
                Ok(())
            }
            Piece::One => glob.one(),
            Piece::Text(wanted) => glob.text(wanted),
            Piece::Variable(variable) => fill(&mut glob, variable),
        });
        filled.is_ok() && glob.matches(&text)
    }
}

/// A pattern being parsed.
#[derive(Default)]
struct Parsed {
    pieces: Vec<Piece>,
    /// The text after them.
    text: String,
}

impl Parsed {
    fn push(&mut self, piece: Piece, case: Case) {
        self.push_text(case);
        // Several adjacent `*` mean the same as one.
        if !matches!((&piece, self.pieces.last()), (Piece::Any, Some(Piece::Any))) {
            self.pieces.push(piece);
        }
    }

    fn push_text(&mut self, case: Case) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(case.fold(&self.text).into()));
            self.text.clear();
        }
    }

    fn end(mut self, case: Case) -> Box<[Piece]> {
        self.push_text(case);
        self.pieces.into()
    }
}

impl Variable {
    /// Parses the text between the braces.
    fn parse(inner: &str) -> Result<Self, String> {
        let (name, otherwise) = match inner.split_once(',') {
            None => (inner, None),
            Some((name, quoted)) => {
                let quoted = quoted.trim();
                let bare = quoted.strip_prefix('\'').and_then(|quoted| quoted.strip_suffix('\''));
                let bare = bare.ok_or_else(|| format!("the default in \"${{{inner}}}\" is not in single quotes"))?;
                (name, Some(bare.to_owned()))
            }
        };
        let key = Key::parse(name.trim()).ok_or_else(|| format!("\"${{{inner}}}\" is not a policy variable"))?;
        Ok(Self { key, otherwise })
    }
}

/// The parts of an ARN: `arn:partition:service:region:account:resource`.
pub(super) const ARN_PARTS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Given;

    fn matched(pattern: &str, text: &str) -> bool {
        let given = Given::new(&[("aws:username", &["al*ce"])]);
        let pattern = Pattern::parse(pattern, Wildcards::Special, Variables::Known, Case::Matters).unwrap();
        pattern.matches(text, &given)
    }

    #[test]
    fn wildcards_and_variables_match() {
        let table = [
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a?c", "aüc", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "ab-ab-a", false),
            ("*.jpg", "a.jpg.jpg", true),
            ("home/${aws:username}/*", "home/al*ce/x", true),
            ("home/${aws:username}/*", "home/alxxce/x", false),
            ("home/${aws:PrincipalAccount}/*", "home//x", false),
            ("home/${aws:PrincipalAccount, 'public'}/*", "home/public/x", true),
            ("a${*}b${?}c${$}", "a*b?c$", true),
            ("a${*}b", "axb", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(matched(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn case_is_folded_on_both_sides() {
        let pattern = Pattern::parse("S3:Get*Ü", Wildcards::Special, Variables::Unknown, Case::Folded).unwrap();
        assert!(pattern.may_match("s3:gETx\u{fc}") && !pattern.may_match("s3:putx\u{fc}"));
    }

    #[test]
    fn variables_that_are_none_are_refused() {
        for text in ["${", "${nobody}", "${aws:username, x}"] {
            assert!(Pattern::parse(text, Wildcards::Plain, Variables::Known, Case::Matters).is_err(), "{text}");
            assert!(Pattern::parse(text, Wildcards::Plain, Variables::Unknown, Case::Matters).is_ok(), "{text}");
        }
    }

    #[test]
    fn an_arn_has_six_parts_whatever_its_variables_hold() {
        let arn = "arn:aws:iam::${aws:PrincipalAccount}:user/a:b";
        let pattern = Pattern::parse(arn, Wildcards::Special, Variables::Known, Case::Matters).unwrap();
        let parts = pattern.split_arn();
        assert_eq!(parts.len(), ARN_PARTS);
        assert!(parts[5].may_match("user/a:b") && parts[4].may_match("x") && parts[3].may_match(""));
        assert!(!parts[5].may_match("user/a") && !parts[3].may_match("x"));
    }
}
