//! The particulars of an error: the elements that AWS adds beside the message, and our hint.
//!
//! - They are carried as the source of an [`S3Error`], which `s3s` passes on and never writes.
//! - Each value is truncated here, so an error never takes more than a few kilobytes.

use std::borrow::Cow;

use s3s::S3Error;

use crate::xml::{legible, shown};

/// The most bytes reported of a value; a longer one is truncated.
pub(super) const VALUE_BYTES_MAX: usize = 2048;
/// The most elements of one error.
const ELEMENTS_MAX: usize = 16;

/// The elements and hint of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("particulars of a refusal")]
pub(super) struct Particulars {
    /// The elements, in the order they are written.
    pub(super) elements: Vec<(&'static str, String)>,
    /// Our advice in plain text.
    pub(super) hint: Option<String>,
}

impl Particulars {
    /// The particulars of an error, if this crate made it.
    pub(super) fn find(error: &S3Error) -> Option<&Self> {
        error.source().and_then(|source| source.downcast_ref::<Self>())
    }

    /// The value of an element.
    pub(super) fn element(&self, name: &str) -> Option<&str> {
        self.elements.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
    }

    /// Adds an element unless it is present, with its value truncated.
    pub(super) fn add(&mut self, name: &'static str, value: &str) {
        self.add_whole(name, &bounded(value));
    }

    /// Adds an element unless it is present, with a value that the caller has bounded.
    pub(super) fn add_whole(&mut self, name: &'static str, value: &str) {
        if self.element(name).is_none() && self.elements.len() < ELEMENTS_MAX {
            self.elements.push((name, legible(value).into_owned()));
        }
    }
}

/// Adds particulars to an error.
pub(crate) trait Detail {
    /// Adds an element beside the message. AWS's names are in the S3 User Guide, "Error responses". The first value
    /// counts.
    fn with(self, element: &'static str, value: impl ToString) -> Self;

    /// Sets our advice: what was wrong in our words, and what to do.
    fn hint(self, words: impl Into<String>) -> Self;
}

impl Detail for S3Error {
    fn with(mut self, element: &'static str, value: impl ToString) -> Self {
        let mut particulars = Particulars::find(&self).cloned().unwrap_or_default();
        particulars.add(element, &value.to_string());
        self.set_source(Box::new(particulars));
        self
    }

    fn hint(mut self, words: impl Into<String>) -> Self {
        let mut particulars = Particulars::find(&self).cloned().unwrap_or_default();
        particulars.hint = Some(shown(bounded(&words.into()).into_owned()));
        self.set_source(Box::new(particulars));
        self
    }
}

/// A text, truncated if it is too long.
pub(super) fn bounded(text: &str) -> Cow<'_, str> {
    match text.get(..text.floor_char_boundary(VALUE_BYTES_MAX)) {
        Some(beginning) if beginning.len() < text.len() => Cow::Owned(format!("{beginning}…")),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use s3s::S3ErrorCode;

    use super::*;

    #[test]
    fn a_value_is_bounded_and_legible_and_its_first_counts() {
        let long = "é".repeat(VALUE_BYTES_MAX);
        let error = S3Error::new(S3ErrorCode::InvalidArgument).with("ArgumentValue", &long).with("Key", "a\u{1}");
        let error = error.with("Key", "b").hint(long);
        let told = Particulars::find(&error).cloned().unwrap_or_default();
        assert_eq!(told.element("ArgumentValue").map(str::len), Some(VALUE_BYTES_MAX + '…'.len_utf8()));
        assert_eq!(told.element("Key"), Some("a\u{fffd}"));
        assert!(told.hint.is_some_and(|hint| hint.len() < VALUE_BYTES_MAX + 8));
        let mut many = Particulars::default();
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r"]
            .iter()
            .for_each(|name| many.add(name, "1"));
        assert_eq!(many.elements.len(), ELEMENTS_MAX);
    }
}
