//! Query parameters of a URL, decoded as `s3s` decodes them.
//!
//! - Names are decoded before they are compared, so that a percent-encoded spelling of a known name does not bypass the
//!   guards.

pub(crate) mod signature_v2;
mod subresource;

pub(crate) use subresource::{SUBRESOURCES, chosen};

use std::collections::BTreeSet;
use std::mem;

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that Signature Version 4 encodes: all but letters, digits and these four.
const SIGNED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Decoded names and values in their order.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Of a request.
    pub(crate) fn of(uri: &Uri) -> Self {
        Self(pairs(uri.query().unwrap_or_default()).map(pair).collect())
    }

    /// All parameters.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// Whether a parameter has exactly this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(found, _)| found == name)
    }

    /// The value of the only parameter with exactly this name; `None` if there is none, or more than one.
    pub(crate) fn only(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
        found.next().filter(|_| found.next().is_none())
    }

    /// Whether a parameter has this name in any case.
    pub(crate) fn has_in_any_case(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The value of the first parameter with this name in any case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

fn pairs(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|pair| !pair.is_empty())
}

fn pair(raw: &str) -> (String, String) {
    let (name, value) = raw.split_once('=').unwrap_or((raw, ""));
    (decode(name), decode(value))
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Sorts parameters of the same name by value, as Signature Version 4 signs them; `s3s` keeps them in their order.
pub(crate) fn order_repeated(uri: &mut Uri) {
    let Some(query) = uri.query().filter(|query| query.contains('&')) else { return };
    let mut named: Vec<((String, String), &str)> = pairs(query).map(|raw| (canonical(raw), raw)).collect();
    let mut seen = BTreeSet::new();
    if named.iter().all(|((name, _), _)| seen.insert(name.as_str())) {
        return;
    }
    named.sort();
    let ordered: Vec<&str> = named.into_iter().map(|(_, raw)| raw).collect();
    let target = format!("{}?{}", uri.path(), ordered.join("&"));
    replace_target(uri, &target);
}

/// Keeps the parameters whose decoded names are `wanted`.
pub(crate) fn retain_parameters(uri: &mut Uri, wanted: impl Fn(&str) -> bool) {
    let kept: Vec<&str> = pairs(uri.query().unwrap_or_default()).filter(|raw| wanted(&pair(raw).0)).collect();
    let target = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), kept.join("&")) };
    replace_target(uri, &target);
}

fn replace_target(uri: &mut Uri, target: &str) {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = target.parse().ok();
    if let Ok(ordered) = Uri::from_parts(parts) {
        drop(mem::replace(uri, ordered));
    }
}

fn canonical(raw: &str) -> (String, String) {
    let (name, value) = pair(raw);
    let encode = |text: &str| utf8_percent_encode(text, SIGNED).to_string();
    (encode(&name), encode(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_spelling() {
        let query = Query::of(&"/b?X%2dAmz-Date=a%2Bb+c&&uploads&=x".parse().unwrap());
        assert!(query.has("X-Amz-Date") && query.has("uploads") && !query.has("x-amz-date"));
        assert_eq!(query.get("x-amz-date"), Some("a+b c"));
        assert_eq!(query.pairs().len(), 3);
    }

    #[test]
    fn parameters_are_taken_out_in_every_spelling() {
        for (given, expected) in
            [("/b/k?a=1&%62=2&c", "/b/k?a=1&c"), ("/b/k?b", "/b/k"), ("http://host/b?b=1&B=2", "http://host/b?B=2")]
        {
            let mut uri: Uri = given.parse().unwrap();
            retain_parameters(&mut uri, |name| name != "b");
            assert_eq!(uri.to_string(), expected);
        }
        let query = Query::of(&"/b?a=1&b=2&b=3".parse().unwrap());
        assert_eq!((query.only("a"), query.only("b"), query.only("c")), (Some("1"), None, None));
    }

    #[test]
    fn only_repeated_parameters_are_put_in_order() {
        for (given, expected) in [
            ("/b/k", "/b/k"),
            ("/b/k?b=2&a=1", "/b/k?b=2&a=1"),
            ("/b/k?p=v2&p=V1", "/b/k?p=V1&p=v2"),
            ("/b/k?p=v2&a&%70=V1", "/b/k?a&%70=V1&p=v2"),
            ("http://host/b?p=2&p=1", "http://host/b?p=1&p=2"),
        ] {
            let mut uri: Uri = given.parse().unwrap();
            order_repeated(&mut uri);
            assert_eq!(uri.to_string(), expected);
        }
    }
}
