//! The question that a policy decides, the facts for its conditions, and the verdict.

use crate::key::Key;

/// A question to a policy: may this account perform this action?
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The account's name; `None` is anonymous.
    pub account: Option<&'a str>,
    /// The action, as in `s3:GetObject`.
    pub action: &'a str,
    /// `bucket` or `bucket/key`.
    pub resource: &'a str,
    /// Values for its conditions.
    pub facts: &'a dyn Facts,
}

/// What is known of a question's resource before the body of the request was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The resource itself.
    Resource,
    /// Only that it is some key of the bucket.
    SomeKey,
}

/// The values of a request for conditions and variables.
pub trait Facts {
    /// The values of a condition key; empty if the request has none.
    fn values(&self, key: &Key) -> Vec<String>;

    /// The result of `decide` for the statement with this number. It does not depend on the object, so it may be
    /// cached.
    fn once(&self, statement: usize, decide: &dyn Fn() -> bool) -> bool;
}

/// The verdict of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A statement denies the action.
    Denied,
    /// A statement allows it and none denies it.
    Allowed,
    /// No statement applies.
    Silent,
}

impl Verdict {
    /// The verdict for a caller who may be either of two: denied if one is denied, allowed if both are allowed.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Denied, _) | (_, Self::Denied) => Self::Denied,
            (Self::Allowed, Self::Allowed) => Self::Allowed,
            _ => Self::Silent,
        }
    }
}
