//! The values of a condition, parsed for its operator.

use std::net::IpAddr;

use base64::Engine as _;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use super::net::Net;
use super::operator::{Order, Test};
use crate::pattern::{ARN_PARTS, Case, Pattern, Variables, Wildcards};
use crate::question::Facts;

/// The values that a request's value is compared with.
#[derive(Debug)]
pub(super) enum Values {
    Texts(Vec<Pattern>),
    Arns(Vec<Vec<Pattern>>),
    Numbers(Order, Vec<f64>),
    Dates(Order, Vec<OffsetDateTime>),
    Bools(Vec<bool>),
    Binaries(Vec<Vec<u8>>),
    Nets(Vec<Net>),
    /// Whether the key has to be absent.
    Absent(Vec<bool>),
}

impl Values {
    /// Parses the values; the error says what is wrong with one.
    pub(super) fn parse(test: Test, given: &[String], variables: Variables) -> Result<Self, String> {
        let texts = |wildcards, case| each(given, |text| Pattern::parse(text, wildcards, variables, case));
        Ok(match test {
            Test::Text => Self::Texts(texts(Wildcards::Plain, Case::Matters)?),
            Test::TextFolded => Self::Texts(texts(Wildcards::Plain, Case::Folded)?),
            Test::TextLike => Self::Texts(texts(Wildcards::Special, Case::Matters)?),
            Test::Arn => {
                let arns = texts(Wildcards::Special, Case::Matters)?;
                Self::Arns(arns.iter().map(Pattern::split_arn).collect())
            }
            Test::Number(order) => Self::Numbers(order, each(given, |text| or(number(text), text, "number"))?),
            Test::Date(order) => Self::Dates(order, each(given, |text| or(date(text), text, "date"))?),
            Test::Bool => Self::Bools(each(given, |text| or(boolean(text), text, "true or false"))?),
            Test::Binary => Self::Binaries(each(given, |text| or(binary(text), text, "base64"))?),
            Test::Ip => Self::Nets(each(given, |text| or(Net::parse(text), text, "range of addresses"))?),
            Test::Null => Self::Absent(each(given, |text| or(boolean(text), text, "true or false"))?),
        })
    }

    /// Whether a request's value matches one of them.
    pub(super) fn hold(&self, found: &str, facts: &dyn Facts) -> bool {
        match self {
            Self::Texts(patterns) => patterns.iter().any(|pattern| pattern.matches(found, facts)),
            Self::Arns(arns) => arns.iter().any(|arn| arn_matches(arn, found, facts)),
            Self::Numbers(order, limits) => {
                number(found).is_some_and(|found| limits.iter().any(|limit| order.fits(&found, limit)))
            }
            Self::Dates(order, limits) => {
                date(found).is_some_and(|found| limits.iter().any(|limit| order.fits(&found, limit)))
            }
            Self::Bools(wanted) => boolean(found).is_some_and(|found| wanted.contains(&found)),
            Self::Binaries(wanted) => binary(found).is_some_and(|found| wanted.contains(&found)),
            Self::Nets(nets) => found.parse::<IpAddr>().is_ok_and(|found| nets.iter().any(|net| net.contains(found))),
            Self::Absent(_) => false,
        }
    }

    /// Whether each matches itself only: texts without a wildcard or a variable.
    pub(super) fn are_fixed(&self) -> bool {
        match self {
            Self::Texts(patterns) => patterns.iter().all(Pattern::is_fixed),
            Self::Arns(arns) => arns.iter().flatten().all(Pattern::is_fixed),
            _ => false,
        }
    }

    /// Whether a text matches one of them for some values of their variables.
    pub(super) fn may_hold(&self, text: &str) -> bool {
        match self {
            Self::Texts(patterns) => patterns.iter().any(|pattern| pattern.may_match(text)),
            _ => false,
        }
    }

    pub(super) fn patterns(&self) -> Box<dyn Iterator<Item = &Pattern> + '_> {
        match self {
            Self::Texts(patterns) => Box::new(patterns.iter()),
            Self::Arns(arns) => Box::new(arns.iter().flatten()),
            _ => Box::new(std::iter::empty()),
        }
    }
}

fn each<T>(given: &[String], read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    given.iter().map(|text| read(text)).collect()
}

fn or<T>(read: Option<T>, text: &str, what: &str) -> Result<T, String> {
    read.ok_or_else(|| format!("\"{text}\" is not a valid {what}"))
}

/// Compares part by part, so that a wildcard does not match across a colon.
fn arn_matches(arn: &[Pattern], found: &str, facts: &dyn Facts) -> bool {
    let parts: Vec<&str> = found.splitn(ARN_PARTS, ':').collect();
    parts.len() == arn.len() && arn.iter().zip(parts).all(|(pattern, part)| pattern.matches(part, facts))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn binary(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// A time, a date, or seconds since 1970.
fn date(text: &str) -> Option<OffsetDateTime> {
    if let Ok(moment) = OffsetDateTime::parse(text, &Rfc3339) {
        return Some(moment);
    }
    if let Ok(day) = Date::parse(text, format_description!("[year]-[month]-[day]")) {
        return Some(day.midnight().assume_utc());
    }
    OffsetDateTime::from_unix_timestamp(text.parse().ok()?).ok()
}
