//! Conditions of a statement.
//!
//! - All conditions of a statement have to hold; of the values of one, any will do, and of those of a negated one,
//!   none.
//! - A request without the key meets a negated condition, one with `IfExists`, and `ForAllValues`; no other.

mod key;
mod net;
mod operator;
mod values;

pub(crate) use key::Key;

use operator::{Operator, Quantifier, Test};
use values::Values;

use super::json::Json;
use super::pattern::{Pattern, Variables};
use super::{Facts, Malformed, texts};

/// A condition.
#[derive(Debug)]
pub(super) struct Condition {
    operator: Operator,
    key: Key,
    values: Values,
    asks_object: bool,
}

/// Keys whose fixed values make a statement about everybody one about few (S3 User Guide, the meaning of "public").
const NARROWING: [&str; 12] = [
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceip",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:userid",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
];

impl Condition {
    /// Reads a `Condition` element.
    pub(super) fn parse_all(given: &Json, variables: Variables) -> Result<Vec<Self>, Malformed> {
        let Json::Object(operators) = given else {
            return Err(Malformed("Invalid policy syntax: Condition is an object of operators.".into()));
        };
        let mut conditions = Vec::new();
        for (name, keys) in operators {
            let operator = Operator::parse(name)
                .ok_or_else(|| Malformed(format!("Invalid Condition type: \"{name}\" is no operator.")))?;
            let Json::Object(keys) = keys else {
                return Err(Malformed(format!("Invalid policy syntax: \"{name}\" holds an object of keys.")));
            };
            for (key, given) in keys {
                conditions.push(Self::parse(operator, key, given, variables)?);
            }
        }
        Ok(conditions)
    }

    fn parse(operator: Operator, name: &str, given: &Json, variables: Variables) -> Result<Self, Malformed> {
        let key = Key::parse(name)
            .ok_or_else(|| Malformed(format!("Policy has an invalid condition key: \"{name}\" is not known.")))?;
        let given = texts(name, given)?;
        let values = Values::parse(operator.test, &given, variables)
            .map_err(|why| Malformed(format!("Policy has an invalid value of the condition key {name}: {why}.")))?;
        let asks_object = key.is_of_object() || values.patterns().flat_map(Pattern::keys).any(Key::is_of_object);
        Ok(Self { operator, key, values, asks_object })
    }

    /// Whether the request meets it.
    pub(super) fn holds(&self, facts: &dyn Facts) -> bool {
        let found = facts.values(&self.key);
        if let Values::Absent(wanted) = &self.values {
            return wanted.contains(&found.is_empty());
        }
        let Operator { negated, if_exists, quantifier, .. } = self.operator;
        if found.is_empty() {
            return match quantifier {
                Quantifier::All => true,
                Quantifier::Any => if_exists,
                Quantifier::One => negated || if_exists,
            };
        }
        let meets = |value: &String| self.values.hold(value, facts);
        match quantifier {
            Quantifier::One => found.iter().any(meets) != negated,
            Quantifier::All => found.iter().all(|value| meets(value) != negated),
            Quantifier::Any => found.iter().any(|value| meets(value) != negated),
        }
    }

    /// Whether only few, and always the same, can meet it.
    pub(super) fn narrows(&self) -> bool {
        let Operator { test, negated, if_exists, quantifier } = self.operator;
        // The range of an address says something only where addresses are compared.
        let fits = (test == Test::Ip) == (self.key.name() == "aws:sourceip");
        NARROWING.contains(&self.key.name())
            && fits
            && !negated
            && !if_exists
            && quantifier != Quantifier::All
            && self.values.are_fixed()
    }

    /// Whether it asks for what differs from one object of a request to another.
    pub(super) fn asks_object(&self) -> bool {
        self.asks_object
    }

    /// Whether it asks for what the body of a request says, or for what differs from one object to another.
    pub(super) fn is_known_late(&self) -> bool {
        self.key.is_known_late() || self.patterns().flat_map(Pattern::keys).any(Key::is_known_late)
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.values.patterns()
    }
}
