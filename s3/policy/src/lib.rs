//! Bucket policies: the language, and its evaluation.
//!
//! - The language is AWS's, 2008-10-17 and 2012-10-17 (S3 User Guide, Bucket policies; IAM User Guide, IAM JSON policy
//!   reference). Unknown elements are refused when a policy is set, never ignored.
//! - A denying statement overrides all allowing ones.
//! - This crate knows neither HTTP requests nor the store: it receives a [`Question`], and values for conditions
//!   through [`Facts`].

mod action;
mod condition;
mod document;
mod glob;
mod json;
mod key;
mod pattern;
mod principal;
mod public;
mod question;
mod resource;
mod statement;
mod syntax;
#[cfg(test)]
mod tests;

pub use condition::{ANONYMOUS, Known};
pub use document::Policy;
pub use key::Key;
pub use question::{Facts, Question, Scope, Verdict};
pub use syntax::Malformed;
