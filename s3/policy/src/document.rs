//! A whole policy: parsing, its statements, and the verdict on a question.

use crate::action::Kinds;
use crate::condition::Known;
use crate::json::Json;
use crate::key::Key;
use crate::pattern::Variables;
use crate::public;
use crate::question::{Question, Scope, Verdict};
use crate::statement::{Origin, Statement};
use crate::syntax::Malformed;

/// The largest policy in bytes (S3 User Guide, Bucket policies).
const BYTES_MAX: usize = 20 * 1024;

/// A parsed policy.
#[derive(Debug)]
pub struct Policy {
    statements: Vec<Statement>,
    /// Its condition keys that never have a value here; only a policy set before they were refused has some.
    without_values: Vec<String>,
}

impl Policy {
    /// Parses a policy that a client sets on `bucket`; `exists` says whether an account exists.
    pub fn parse(text: &str, bucket: &str, exists: &dyn Fn(&str) -> bool) -> Result<Self, Malformed> {
        Self::read(text, Some(bucket), Origin::Put(exists))
    }

    /// Parses a policy that narrows the rights of a session (AWS STS API, AssumeRole, `Policy`). It names no principals,
    /// since it concerns its session alone, and resources of any bucket.
    pub fn session(text: &str) -> Result<Self, Malformed> {
        Self::read(text, None, Origin::Session)
    }

    /// Parses the stored policy of `bucket`. Earlier versions accepted condition keys without values: a statement that
    /// depends on one allows nothing, and denies regardless of that key.
    pub fn stored(text: &str, bucket: &str) -> Result<Self, Malformed> {
        Self::read(text, Some(bucket), Origin::Stored)
    }

    fn read(text: &str, bucket: Option<&str>, origin: Origin<'_>) -> Result<Self, Malformed> {
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
            (Some(key), Origin::Put(_) | Origin::Session) => {
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
    pub fn judge(&self, question: &Question<'_>) -> Verdict {
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

    /// Whether it could allow the action for some content of the unread body. Denying statements are left out, and so
    /// are parts of allowing ones that depend on the body or the object.
    pub fn could_allow(&self, question: &Question<'_>, scope: Scope) -> bool {
        let mut allowing = self.statements.iter().filter(|statement| !statement.denies());
        allowing.any(|statement| statement.could_be_about(question, scope))
    }

    /// Whether a statement may deny an account an action that is not part of a request: on some key, under conditions
    /// evaluated as far as `known` allows.
    pub fn may_deny(&self, account: &str, action: &str, known: &dyn Known) -> bool {
        let what = (action, Kinds::of(action));
        self.statements.iter().any(|statement| statement.denies() && statement.may_be_about(account, what, known))
    }

    /// The number of statements.
    pub fn size(&self) -> usize {
        self.statements.len()
    }

    /// Whether it allows callers that it does not name (S3 User Guide, the meaning of "public").
    pub fn is_public(&self) -> bool {
        public::is_public(self.statements.iter().map(Statement::reach))
    }

    /// Its condition keys that never have a value; only a policy set long ago has some.
    pub fn without_values(&self) -> &[String] {
        &self.without_values
    }

    /// Whether a verdict depends on a condition key.
    pub fn mentions(&self, wanted: impl Fn(&Key) -> bool) -> bool {
        self.statements.iter().any(|statement| statement.mentions(&wanted))
    }
}
