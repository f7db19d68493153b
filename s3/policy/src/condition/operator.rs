//! Condition operators (IAM User Guide, IAM JSON policy elements: Condition operators).

/// How request values are compared with the policy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// `StringEquals`
    Text,
    /// `StringEqualsIgnoreCase`
    TextFolded,
    /// `StringLike`
    TextLike,
    /// `NumericEquals` and its variants
    Number(Order),
    /// `DateEquals` and its variants
    Date(Order),
    /// `Bool`
    Bool,
    /// `BinaryEquals`
    Binary,
    /// `IpAddress`
    Ip,
    /// `ArnEquals` and `ArnLike`, which mean the same
    Arn,
    /// `Null`
    Null,
}

/// The accepted order of the two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    pub(super) fn fits<T: PartialOrd>(self, found: &T, limit: &T) -> bool {
        match self {
            Self::Equal => found == limit,
            Self::Less => found < limit,
            Self::LessOrEqual => found <= limit,
            Self::Greater => found > limit,
            Self::GreaterOrEqual => found >= limit,
        }
    }
}

/// How several values of a request are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantifier {
    /// No quantifier: a single value.
    One,
    /// `ForAllValues:`
    All,
    /// `ForAnyValue:`
    Any,
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operator {
    pub(super) test: Test,
    /// Whether it holds where the test fails.
    pub(super) negated: bool,
    /// `…IfExists`: it also holds for a request without the key.
    pub(super) if_exists: bool,
    pub(super) quantifier: Quantifier,
}

impl Operator {
    /// Parses the name of an operator.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (quantifier, name) = match name.split_once(':') {
            None => (Quantifier::One, name),
            Some(("ForAllValues", name)) => (Quantifier::All, name),
            Some(("ForAnyValue", name)) => (Quantifier::Any, name),
            Some(_) => return None,
        };
        let (name, if_exists) = match name.strip_suffix("IfExists") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (test, negated) = test(name)?;
        // Null already tests whether the key exists.
        let asked_twice = test == Test::Null && if_exists;
        (!asked_twice).then_some(Self { test, negated, if_exists, quantifier })
    }
}

fn test(name: &str) -> Option<(Test, bool)> {
    Some(match name {
        "StringEquals" => (Test::Text, false),
        "StringNotEquals" => (Test::Text, true),
        "StringEqualsIgnoreCase" => (Test::TextFolded, false),
        "StringNotEqualsIgnoreCase" => (Test::TextFolded, true),
        "StringLike" => (Test::TextLike, false),
        "StringNotLike" => (Test::TextLike, true),
        "NumericEquals" => (Test::Number(Order::Equal), false),
        "NumericNotEquals" => (Test::Number(Order::Equal), true),
        "NumericLessThan" => (Test::Number(Order::Less), false),
        "NumericLessThanEquals" => (Test::Number(Order::LessOrEqual), false),
        "NumericGreaterThan" => (Test::Number(Order::Greater), false),
        "NumericGreaterThanEquals" => (Test::Number(Order::GreaterOrEqual), false),
        "DateEquals" => (Test::Date(Order::Equal), false),
        "DateNotEquals" => (Test::Date(Order::Equal), true),
        "DateLessThan" => (Test::Date(Order::Less), false),
        "DateLessThanEquals" => (Test::Date(Order::LessOrEqual), false),
        "DateGreaterThan" => (Test::Date(Order::Greater), false),
        "DateGreaterThanEquals" => (Test::Date(Order::GreaterOrEqual), false),
        "Bool" => (Test::Bool, false),
        "BinaryEquals" => (Test::Binary, false),
        "IpAddress" => (Test::Ip, false),
        "NotIpAddress" => (Test::Ip, true),
        "ArnEquals" | "ArnLike" => (Test::Arn, false),
        "ArnNotEquals" | "ArnNotLike" => (Test::Arn, true),
        "Null" => (Test::Null, false),
        _ => return None,
    })
}
