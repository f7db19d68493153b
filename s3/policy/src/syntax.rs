//! The syntax that all elements of a policy share, and the error for a malformed element.

use crate::json::Json;

/// Why a policy is malformed.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

/// A text, or a list of texts.
pub(crate) fn texts(what: &str, given: &Json) -> Result<Vec<String>, Malformed> {
    let wrong = || Malformed(format!("Invalid policy syntax: {what} is a text or a list of texts."));
    match given {
        Json::Text(text) => Ok(vec![text.clone()]),
        Json::List(list) if !list.is_empty() => list
            .iter()
            .map(|item| match item {
                Json::Text(text) => Ok(text.clone()),
                _ => Err(wrong()),
            })
            .collect(),
        _ => Err(wrong()),
    }
}
