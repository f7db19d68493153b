//! Bucket policies: who besides the holders of grants may do what, and who may not.
//!
//! - The language is that of AWS, 2008-10-17 and 2012-10-17 (S3 User Guide, Bucket policies; IAM User Guide, IAM JSON
//!   policy reference). What is not known is refused when a policy is put, never passed over.
//! - A statement that denies wins over all that allow.
//! - Nothing here knows of requests or of the store: what is asked comes as a [`Question`], what a condition wants to
//!   know through [`Facts`].

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

/// Bytes of a policy (S3 User Guide, Bucket policies).
const BYTES_MAX: usize = 20 * 1024;

/// Why a policy is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

/// A policy, ready to be asked.
#[derive(Debug)]
pub(crate) struct Policy {
    statements: Vec<Statement>,
    /// The condition keys in it that never have a value, of a policy that was put before they were refused.
    without_values: Vec<String>,
}

/// Where a policy comes from, which decides how strictly it is read.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// Somebody puts it. The function tells which accounts there are.
    Put(&'a dyn Fn(&str) -> bool),
    /// It lies in the store, perhaps from a time with fewer rules.
    Stored,
}

impl Origin<'_> {
    /// Whether a statement can be about the account of this name. Accounts may have been deleted since a stored policy was
    /// put; their names then mean nobody.
    fn knows(self, account: &str) -> bool {
        match self {
            Self::Put(exists) => exists(account),
            Self::Stored => true,
        }
    }
}

/// What a policy is asked.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The account by name; none is anonymous.
    pub(crate) account: Option<&'a str>,
    /// The action, as in `s3:GetObject`.
    pub(crate) action: &'a str,
    /// `bucket` or `bucket/key`.
    pub(crate) resource: &'a str,
    /// What else is known.
    pub(crate) facts: &'a dyn Facts,
}

/// What is known of the resource of a question before the body of its request was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The resource itself.
    Resource,
    /// That it is some key of the bucket.
    SomeKey,
}

/// What conditions and variables can know of a request.
pub(crate) trait Facts {
    /// The values of a condition key: none if the request has it not.
    fn values(&self, key: &Key) -> Vec<String>;

    /// What `decide` says of the statement of this number. It says the same whatever object the request is about, so it
    /// need be asked once only.
    fn once(&self, statement: usize, decide: &dyn Fn() -> bool) -> bool;
}

/// What a policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A statement denies it.
    Denied,
    /// A statement allows it, and none denies it.
    Allowed,
    /// No statement is about it.
    Silent,
}

impl Verdict {
    /// What holds for a caller that may be either of two: what is denied one of them, and what is allowed both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Denied, _) | (_, Self::Denied) => Self::Denied,
            (Self::Allowed, Self::Allowed) => Self::Allowed,
            _ => Self::Silent,
        }
    }
}

impl Policy {
    /// Reads the policy that somebody puts to `bucket`; `exists` tells which accounts there are.
    pub(crate) fn parse(text: &str, bucket: &str, exists: &dyn Fn(&str) -> bool) -> Result<Self, Malformed> {
        Self::read(text, bucket, Origin::Put(exists))
    }

    /// Reads the policy that `bucket` has. A statement that depends on a condition key without values was taken once: then
    /// it allows nothing, and what it denies it denies whatever the value.
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

    /// What it says.
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

    /// Whether it could allow what is asked, whatever the body says that is still to come: its statements that deny are
    /// left aside, and of those that allow what depends on the body or on the object.
    pub(crate) fn could_allow(&self, question: &Question<'_>, scope: Scope) -> bool {
        let mut allowing = self.statements.iter().filter(|statement| !statement.denies());
        allowing.any(|statement| statement.could_be_about(question, scope))
    }

    /// Whether a statement may deny an account an action that no request asks for: on some key, under conditions of which
    /// `known` tells what it can.
    pub(crate) fn may_deny(&self, account: &str, action: &str, known: &dyn Known) -> bool {
        let what = (action, action::Kinds::of(action));
        self.statements.iter().any(|statement| statement.denies() && statement.may_be_about(account, what, known))
    }

    /// How many statements it has.
    pub(crate) fn size(&self) -> usize {
        self.statements.len()
    }

    /// Whether it lets anybody in whom it does not name (S3 User Guide, the meaning of "public").
    pub(crate) fn is_public(&self) -> bool {
        public::is_public(self.statements.iter().map(Statement::reach))
    }

    /// The condition keys in it that never have a value: only a policy that was put long ago has some.
    pub(crate) fn without_values(&self) -> &[String] {
        &self.without_values
    }

    /// Whether an answer depends on a condition key.
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
