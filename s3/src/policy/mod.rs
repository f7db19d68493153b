//! Bucket policies: the language, and its evaluation.
//!
//! - The language is AWS's, 2008-10-17 and 2012-10-17 (S3 User Guide, Bucket policies; IAM User Guide, IAM JSON policy
//!   reference). Unknown elements are refused when a policy is set, never ignored.
//! - A denying statement overrides all allowing ones.
//! - This module knows neither requests nor the store: it receives a [`Question`], and values for conditions through
//!   [`Facts`].

mod action;
mod cache;
mod condition;
mod glob;
mod json;
mod pattern;
mod principal;
mod public;
mod resource;
mod statement;
#[cfg(test)]
mod tests;

pub(crate) use cache::{Policies, Rule};
pub(crate) use condition::{ANONYMOUS, Key, Known};

use json::Json;
use pattern::Variables;
use statement::Statement;

/// The largest policy in bytes (S3 User Guide, Bucket policies).
const BYTES_MAX: usize = 20 * 1024;

/// Why a policy is malformed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

/// A parsed policy.
#[derive(Debug)]
pub(crate) struct Policy {
    statements: Vec<Statement>,
    /// Its condition keys that never have a value here; only a policy set before they were refused has some.
    without_values: Vec<String>,
}

/// The origin of a policy, which decides how strictly it is parsed.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// A client sets it. The function says whether an account exists.
    Put(&'a dyn Fn(&str) -> bool),
    /// It was stored earlier, possibly under fewer rules.
    Stored,
}

impl Origin<'_> {
    /// Whether a statement may name this account. Accounts of a stored policy may have been deleted; their names then
    /// match no one.
    fn knows(self, account: &str) -> bool {
        match self {
            Self::Put(exists) => exists(account),
            Self::Stored => true,
        }
    }
}

/// A question to a policy: may this account perform this action?
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The account's name; `None` is anonymous.
    pub(crate) account: Option<&'a str>,
    /// The action, as in `s3:GetObject`.
    pub(crate) action: &'a str,
    /// `bucket` or `bucket/key`.
    pub(crate) resource: &'a str,
    /// Values for its conditions.
    pub(crate) facts: &'a dyn Facts,
}

/// What is known of a question's resource before the body of the request was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The resource itself.
    Resource,
    /// Only that it is some key of the bucket.
    SomeKey,
}

/// The values of a request for conditions and variables.
pub(crate) trait Facts {
    /// The values of a condition key; empty if the request has none.
    fn values(&self, key: &Key) -> Vec<String>;

    /// The result of `decide` for the statement with this number. It does not depend on the object, so it may be
    /// cached.
    fn once(&self, statement: usize, decide: &dyn Fn() -> bool) -> bool;
}

/// The verdict of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A statement denies the action.
    Denied,
    /// A statement allows it and none denies it.
    Allowed,
    /// No statement applies.
    Silent,
}

impl Verdict {
    /// The verdict for a caller who may be either of two: denied if one is denied, allowed if both are allowed.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Denied, _) | (_, Self::Denied) => Self::Denied,
            (Self::Allowed, Self::Allowed) => Self::Allowed,
            _ => Self::Silent,
        }
    }
}

impl Policy {
    /// Parses a policy that a client sets on `bucket`; `exists` says whether an account exists.
    pub(crate) fn parse(text: &str, bucket: &str, exists: &dyn Fn(&str) -> bool) -> Result<Self, Malformed> {
        Self::read(text, bucket, Origin::Put(exists))
    }

    /// Parses the stored policy of `bucket`. Earlier versions accepted condition keys without values: a statement that
    /// depends on one allows nothing, and denies regardless of that key.
    pub(crate) fn stored(text: &str, bucket: &str) -> Result<Self, Malformed> {
        Self::read(text, bucket, Origin::Stored)
    }

    fn read(text: &str, bucket: &str, origin: Origin<'_>) -> Result<Self, Malformed> {
        if text.len() > BYTES_MAX {
            let words = format!("A policy has at most {BYTES_MAX} bytes; this one has {}.", text.len());
            return Err(Malformed(words));
        }
        if !text.starts_with('{') {
            return Err(Malformed("Policies must be valid JSON and the first byte must be '{'.".into()));
        }
        let document = Json::read(text).map_err(|error| Malformed(format!("Policies must be valid JSON: {error}.")))?;
        let Json::Object(members) = document else { return Err(Malformed("A policy is a JSON object.".into())) };
        let mut variables = Variables::Unknown;
        let mut given = None;
        for (name, value) in &members {
            match (name.as_str(), value) {
                ("Version", Json::Text(version)) if version == "2012-10-17" => variables = Variables::Known,
                ("Version", Json::Text(version)) if version == "2008-10-17" => {}
                ("Version", _) => {
                    return Err(Malformed("The policy must contain a valid version string: 2012-10-17.".into()));
                }
                ("Id", Json::Text(_)) => {}
                ("Statement", Json::List(list)) if !list.is_empty() => given = Some(list.as_slice()),
                ("Statement", one @ Json::Object(_)) => given = Some(std::slice::from_ref(one)),
                ("Id" | "Statement", _) => return Err(Malformed(format!("Invalid policy syntax: {name}."))),
                _ => return Err(Malformed(format!("Unknown field {name}."))),
            }
        }
        let given = given.ok_or_else(|| Malformed("Missing required field Statement.".into()))?;
        let mut policy = Self { statements: Vec::new(), without_values: Vec::new() };
        for one in given {
            policy.add(Statement::parse(one, bucket, variables, origin)?, origin)?;
        }
        Ok(policy)
    }

    fn add(&mut self, statement: Statement, origin: Origin<'_>) -> Result<(), Malformed> {
        let without_values: Vec<String> = statement.keys_without_values().map(Key::shown).collect();
        match (without_values.first(), origin) {
            (None, _) => self.statements.push(statement),
            (Some(key), Origin::Put(_)) => {
                return Err(Malformed(format!(
                    "Policy has an invalid condition key: \"{key}\" never has a value in this store, so the statement \
                     would not do what it says; remove it, or use another key."
                )));
            }
            (Some(_), Origin::Stored) => self.statements.extend(statement.without_these_keys()),
        }
        self.without_values.extend(without_values);
        Ok(())
    }

    /// The policy's verdict.
    pub(crate) fn judge(&self, question: &Question<'_>) -> Verdict {
        let mut verdict = Verdict::Silent;
        for (number, statement) in self.statements.iter().enumerate() {
            match statement.is_about(number, question) {
                true if statement.denies() => return Verdict::Denied,
                true => verdict = Verdict::Allowed,
                false => {}
            }
        }
        verdict
    }

    /// Whether it could allow the action, whatever the unread body contains. Denying statements are left out, and so
    /// are parts of allowing ones that depend on the body or the object.
    pub(crate) fn could_allow(&self, question: &Question<'_>, scope: Scope) -> bool {
        let mut allowing = self.statements.iter().filter(|statement| !statement.denies());
        allowing.any(|statement| statement.could_be_about(question, scope))
    }

    /// Whether a statement may deny an account an action that is not part of a request: on some key, under conditions
    /// evaluated as far as `known` allows.
    pub(crate) fn may_deny(&self, account: &str, action: &str, known: &dyn Known) -> bool {
        let what = (action, action::Kinds::of(action));
        self.statements.iter().any(|statement| statement.denies() && statement.may_be_about(account, what, known))
    }

    /// The number of statements.
    pub(crate) fn size(&self) -> usize {
        self.statements.len()
    }

    /// Whether it allows callers that it does not name (S3 User Guide, the meaning of "public").
    pub(crate) fn is_public(&self) -> bool {
        public::is_public(self.statements.iter().map(Statement::reach))
    }

    /// Its condition keys that never have a value; only a policy set long ago has some.
    pub(crate) fn without_values(&self) -> &[String] {
        &self.without_values
    }

    /// Whether a verdict depends on a condition key.
    pub(crate) fn mentions(&self, wanted: impl Fn(&Key) -> bool) -> bool {
        self.statements.iter().any(|statement| statement.mentions(&wanted))
    }
}

/// A text, or a list of texts.
fn texts(what: &str, given: &Json) -> Result<Vec<String>, Malformed> {
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
