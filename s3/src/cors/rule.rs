//! Matching of CORS rules, and the response headers of a match.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use objstore::store::CorsRule;

/// The request that a script wants to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptRequest<'a> {
    /// The site that the script came from.
    pub(super) origin: &'a str,
    /// The method it uses.
    pub(super) method: &'a str,
    /// The headers it sends, separated by commas; only a preflight names them.
    pub(super) headers: &'a str,
}

/// The response headers of the first rule that allows `asked`; `None` if none does.
pub(super) fn allow(rules: &[CorsRule], asked: ScriptRequest<'_>) -> Option<HeaderMap> {
    rules.iter().find_map(|rule| Some(told(rule, matching_origin(rule, asked)?, asked)))
}

/// The origin pattern of the rule that matches, if the rule allows `asked`.
fn matching_origin<'a>(rule: &'a CorsRule, asked: ScriptRequest<'_>) -> Option<&'a str> {
    let origin = rule.origins.iter().find(|origin| matches(origin, asked.origin))?;
    let allows = |name: &str| rule.headers.iter().any(|allowed| matches_name(allowed, name));
    let allowed = rule.methods.iter().any(|method| method == asked.method) && names(asked.headers).all(allows);
    allowed.then_some(origin)
}

fn told(rule: &CorsRule, origin: &str, asked: ScriptRequest<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut tell = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    if origin == "*" {
        tell(ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    } else {
        tell(ACCESS_CONTROL_ALLOW_ORIGIN, asked.origin);
        tell(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
    }
    tell(ACCESS_CONTROL_ALLOW_METHODS, &rule.methods.join(", "));
    if names(asked.headers).next().is_some() {
        tell(ACCESS_CONTROL_ALLOW_HEADERS, &names(asked.headers).collect::<Vec<_>>().join(", "));
    }
    if !rule.expose.is_empty() {
        tell(ACCESS_CONTROL_EXPOSE_HEADERS, &rule.expose.join(", "));
    }
    if let Some(seconds) = rule.max_age_seconds {
        tell(ACCESS_CONTROL_MAX_AGE, &seconds.to_string());
    }
    headers
}

/// The names in a comma-separated list of headers.
pub(super) fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Whether `text` matches `pattern`, in which one `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end),
    }
}

/// Whether a header name matches `pattern`, ignoring case. A stranger may send many names, so nothing is allocated.
fn matches_name(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return pattern.eq_ignore_ascii_case(name) };
    let (start, end) = (&pattern[..star], &pattern[star + 1..]);
    name.len() >= start.len() + end.len()
        && name[..start.len()].eq_ignore_ascii_case(start)
        && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &[&str], methods: &[&str], headers: &[&str]) -> CorsRule {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        CorsRule { origins: owned(origins), methods: owned(methods), headers: owned(headers), ..CorsRule::default() }
    }

    fn told_of<'a>(allowed: &'a Option<HeaderMap>, name: &str) -> Option<&'a str> {
        allowed.as_ref()?.get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn one_star_stands_for_anything() {
        let table = [
            ("*", "http://a", true),
            ("*suffix", "foo.suffix", true),
            ("*suffix", "foo.suffix.get", false),
            ("start*end", "startend", true),
            ("start*end", "start12end", true),
            ("start*end", "0start12end", false),
            ("aba*aba", "ababa", false),
            ("prefix*", "prefix", true),
            ("http://a", "http://a", true),
            ("http://a", "http://a.b", false),
        ];
        for (pattern, origin, expected) in table {
            assert_eq!(matches(pattern, origin), expected, "{pattern} {origin}");
        }
    }

    #[test]
    fn the_case_of_a_header_does_not_count() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("X-Amz-*", "x-aMZ-date", true),
            ("*-MD5", "content-md5", true),
            ("content-type", "Content-Type", true),
            ("content-type", "content-typ", false),
            ("é*é", "éxé", true),
            ("é*é", "é", false),
        ] {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!matches("HTTP://a", "http://a") && !matches("http://A*", "http://ab"));
    }

    #[test]
    fn the_first_rule_that_allows_all_of_the_wish_decides() {
        let rules = [rule(&["http://a"], &["PUT", "POST"], &["x-amz-*", "Content-Type"]), rule(&["*"], &["GET"], &[])];
        let ask = |origin, method, headers| allow(&rules, ScriptRequest { origin, method, headers });
        let put = ask("http://a", "PUT", "X-Amz-Date, content-type");
        assert_eq!(told_of(&put, "access-control-allow-origin"), Some("http://a"));
        assert_eq!(told_of(&put, "access-control-allow-credentials"), Some("true"));
        assert_eq!(told_of(&put, "access-control-allow-methods"), Some("PUT, POST"));
        assert_eq!(told_of(&put, "access-control-allow-headers"), Some("X-Amz-Date, content-type"));
        let get = ask("http://a", "GET", "");
        assert_eq!(told_of(&get, "access-control-allow-origin"), Some("*"));
        assert_eq!(told_of(&get, "access-control-allow-credentials"), None);
        for (origin, method, headers) in [
            ("http://b", "PUT", ""),
            ("http://a", "DELETE", ""),
            ("http://a", "PUT", "x-other"),
            ("b", "GET", "x-amz-a"),
        ] {
            assert!(ask(origin, method, headers).is_none(), "{origin} {method} {headers}");
        }
    }
}
