//! Conditions of a policy statement.
//!
//! - All conditions of a statement have to hold. Of one condition's values any may match; for a negated operator, none
//!   may.
//! - A request without the key meets only negated conditions, those with `IfExists`, and `ForAllValues`.

mod net;
mod operator;
mod values;

pub(super) use net::Net;

use operator::{Operator, Quantifier};
use values::Values;

use super::json::Json;
use super::key::Key;
use super::pattern::{Pattern, Variables};
use super::question::Facts;
use super::syntax::{Malformed, texts};

/// Facts about a caller outside of any request.
pub trait Known {
    /// Whether the value of a key is known, or known to be absent.
    fn knows(&self, key: &Key) -> bool;

    /// The known values.
    fn facts(&self) -> &dyn Facts;
}

/// A condition.
#[derive(Debug)]
pub(super) struct Condition {
    operator: Operator,
    key: Key,
    values: Values,
    asks_object: bool,
}

/// Keys whose fixed values identify the caller (S3 User Guide, Blocking public access, "The meaning of public"). AWS
/// lists more; the others have no value in this store, or one that the caller chooses.
const NAMES_CALLER: [&str; 3] = ["aws:principalaccount", "aws:principalarn", "aws:userid"];

/// The `aws:userid` of anonymous callers (IAM User Guide, IAM policy elements: Variables and tags).
pub const ANONYMOUS: &str = "anonymous";

impl Condition {
    /// Parses a `Condition` element.
    pub(super) fn parse_all(given: &Json, variables: Variables) -> Result<Vec<Self>, Malformed> {
        let Json::Object(operators) = given else {
            return Err(Malformed("Invalid policy syntax: Condition is an object of operators.".into()));
        };
        let mut conditions = Vec::new();
        for (name, keys) in operators {
            let operator = Operator::parse(name)
                .ok_or_else(|| Malformed(format!("Invalid Condition type: \"{name}\" is not a condition operator.")))?;
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

    /// Whether a request meets it.
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

    /// Whether only callers that it names can meet it, by values that never change.
    pub(super) fn names_callers(&self) -> bool {
        NAMES_CALLER.contains(&self.key.name())
            && self.asks_value()
            && self.values.are_fixed()
            && !self.values.may_hold(ANONYMOUS)
    }

    /// The ranges of addresses from which it can be met, if it tests the caller's address.
    pub(super) fn source_ranges(&self) -> Option<&[Net]> {
        match &self.values {
            Values::Nets(nets) if self.key.name() == "aws:sourceip" && self.asks_value() => Some(nets),
            _ => None,
        }
    }

    /// Whether it requires the key with one of the given values.
    fn asks_value(&self) -> bool {
        let Operator { negated, if_exists, quantifier, .. } = self.operator;
        !negated && !if_exists && quantifier != Quantifier::All
    }

    /// Whether a caller can meet it as far as `known` says; unknown keys may have any value.
    pub(super) fn may_hold(&self, known: &dyn Known) -> bool {
        let mut keys = std::iter::once(&self.key).chain(self.patterns().flat_map(Pattern::keys));
        keys.any(|key| !known.knows(key)) || self.holds(known.facts())
    }

    /// Its keys that no request has a value for.
    pub(super) fn keys_without_values(&self) -> impl Iterator<Item = &Key> {
        let keys = std::iter::once(&self.key).chain(self.patterns().flat_map(Pattern::keys));
        keys.filter(|key| !key.has_values())
    }

    /// Whether it tests a value that can differ between objects of one request.
    pub(super) fn asks_object(&self) -> bool {
        self.asks_object
    }

    /// Whether it tests a value from the request's body, or one that can differ between objects.
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
