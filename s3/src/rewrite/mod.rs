//! Rewriting of request headers into the form that `s3s` accepts.
//!
//! - HTTP requires a server to ignore a Range or date that it cannot parse, and allows any quoted text as an entity tag
//!   (RFC 9110, sections 8.8.3, 13.1 and 14.2). `s3s` refuses such requests. So conditions are rewritten first, and a
//!   header to be ignored gets an empty value, which `s3s` treats as absent.
//! - Repeated lines of the same user metadata are joined, as AWS does.
//! - A signed header is changed only after the signature was verified (`signature`), so rewriting grants no access.

mod signature;

use http::header::{IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use s3s::dto::{self, Timestamp, TimestampFormat};

use crate::conditions::{DATES_OF_SOURCE, NAMING_TAGS};
use crate::entity_tag::{Tags, is_unread};
use crate::service::Call;

const METADATA: &str = "x-amz-meta-";

/// A header and its new value.
type Change = (HeaderName, HeaderValue);

/// Rewrites headers that `s3s` would refuse. If the signature does not verify, they stay unchanged.
pub(crate) async fn headers(call: &Call, head: &mut Parts) {
    join_metadata(&mut head.headers);
    let changes = changes(head);
    if !changes.is_empty() {
        signature::apply(call, head, &changes).await;
    }
}

/// Rewrites the headers of an unsigned head, and checks that nothing is left to rewrite.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn check_head(head: &mut Parts) {
    join_metadata(&mut head.headers);
    for (name, value) in changes(head) {
        head.headers.insert(name, value);
    }
    assert_eq!(changes(head), [], "what was rewritten is read");
}

/// Joins repeated user metadata (S3 API, PutObject). A signature covers the joined value, so it stays valid.
fn join_metadata(headers: &mut HeaderMap) {
    let repeated: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(METADATA) && headers.get_all(*name).iter().nth(1).is_some())
        .cloned()
        .collect();
    for name in repeated {
        let lines: Vec<&[u8]> = headers.get_all(&name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b","[..])) {
            headers.insert(name, joined);
        }
    }
}

fn changes(head: &Parts) -> Vec<Change> {
    let mut changes: Vec<Change> = NAMING_TAGS.into_iter().filter_map(|name| tags(&head.headers, name)).collect();
    changes.extend(DATES_OF_SOURCE.into_iter().filter_map(|name| other_date(&head.headers, name)));
    if head.method == Method::GET || head.method == Method::HEAD {
        changes.extend(odd_range(&head.headers));
        changes
            .extend([IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE].into_iter().filter_map(|name| date(&head.headers, name)));
    }
    changes
}

/// The only line of a header, or `Err` if there are several. `None` if it is absent or empty.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Result<&'a HeaderValue, ()>> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?;
    match lines.next() {
        Some(_) => Some(Err(())),
        None => (!first.is_empty()).then_some(Ok(first)),
    }
}

/// Entity tags that `s3s` cannot parse, in its form.
fn tags(headers: &HeaderMap, name: HeaderName) -> Option<Change> {
    let tags = Tags::of(headers, &name).filter(|_| is_unread(headers, &name))?;
    Some((name, tags.to_header()))
}

/// Empties a Range that is not a single range of bytes.
fn odd_range(headers: &HeaderMap) -> Option<Change> {
    match only(headers, &RANGE)? {
        Ok(value) if value.to_str().is_ok_and(|range| dto::Range::parse(range).is_ok()) => None,
        _ => Some((RANGE, HeaderValue::from_static(""))),
    }
}

/// A date that `s3s` cannot parse, in its form; an invalid date is emptied (RFC 9110, sections 13.1.3 and 13.1.4).
fn date(headers: &HeaderMap, name: HeaderName) -> Option<Change> {
    match only(headers, &name)? {
        Ok(value) if is_read(value) => None,
        found => {
            let written = found.ok().and_then(rewritten_date).unwrap_or(HeaderValue::from_static(""));
            Some((name, written))
        }
    }
}

/// A date of a write that `s3s` cannot parse, in its form; an invalid date stays, and is refused.
fn other_date(headers: &HeaderMap, name: HeaderName) -> Option<Change> {
    match only(headers, &name)? {
        Ok(value) if !is_read(value) => rewritten_date(value).map(|written| (name, written)),
        _ => None,
    }
}

fn is_read(value: &HeaderValue) -> bool {
    value.to_str().is_ok_and(|text| Timestamp::parse(TimestampFormat::HttpDate, text).is_ok())
}

/// A date in any of HTTP's formats, in the preferred one (RFC 9110, section 5.6.7).
fn rewritten_date(value: &HeaderValue) -> Option<HeaderValue> {
    let date = httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()?;
    HeaderValue::try_from(httpdate::fmt_http_date(date)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(method: &str, lines: &[(&'static str, &'static str)]) -> Vec<(String, String)> {
        let mut request = http::Request::builder().method(method).uri("/abc/k");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let shown = |(name, value): Change| (name.to_string(), value.to_str().unwrap().to_owned());
        changes(&head).into_iter().map(shown).collect()
    }

    #[test]
    fn what_s3s_reads_stays() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let lines = [
            ("range", "bytes=0-3"),
            ("if-match", "\"abc\""),
            ("if-none-match", "*"),
            ("if-modified-since", date),
            ("if-unmodified-since", ""),
            ("x-amz-copy-source-if-unmodified-since", date),
        ];
        assert_eq!(changed("GET", &lines), []);
        assert_eq!(changed("PUT", &lines), []);
    }

    #[test]
    fn an_odd_range_and_a_bad_date_are_as_none() {
        for odd in ["bytes=0-1,3-4", "lines=0-3", "bytes=x", "bytes=3-1", "0-3", "bytes="] {
            assert_eq!(changed("GET", &[("range", odd)]), [("range".into(), String::new())], "{odd}");
            assert_eq!(changed("PUT", &[("range", odd)]), [], "{odd}");
        }
        assert_eq!(changed("HEAD", &[("range", "bytes=0-3"); 2]), [("range".into(), String::new())]);
        for bad in ["yesterday", "0", "Sun, 06 Nov 1994 08:49:37 +0000x"] {
            let cleared = vec![("if-modified-since".to_owned(), String::new())];
            assert_eq!(changed("GET", &[("if-modified-since", bad)]), cleared, "{bad}");
            assert_eq!(changed("PUT", &[("x-amz-copy-source-if-modified-since", bad)]), [], "{bad}");
        }
    }

    #[test]
    fn tags_and_dates_are_written_as_s3s_reads_them() {
        let one = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(changed("PUT", &[("if-match", "a_b")]), one("if-match", "\"a_b\""));
        assert_eq!(changed("GET", &[("if-none-match", "a,b c")]), one("if-none-match", "\"a\", \"b c\""));
        assert_eq!(changed("GET", &[("if-match", "a"), ("if-match", "b")]), one("if-match", "\"a\", \"b\""));
        let name = "x-amz-copy-source-if-unmodified-since";
        let old = changed("PUT", &[(name, "Sun Nov  6 08:49:37 1994")]);
        assert_eq!(old, one(name, "Sun, 06 Nov 1994 08:49:37 GMT"));
    }

    #[test]
    fn lines_of_the_same_metadata_are_joined() {
        let lines = [("x-amz-meta-a", "1"), ("x-amz-meta-b", "x"), ("x-amz-meta-a", " 2"), ("if-match", "a")];
        let header = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let mut headers: HeaderMap = lines.into_iter().chain([("if-match", "b")]).map(header).collect();
        join_metadata(&mut headers);
        assert_eq!(headers.get_all("x-amz-meta-a").iter().collect::<Vec<_>>(), ["1,2"]);
        assert_eq!((headers.get("x-amz-meta-b").unwrap(), headers.len()), (&HeaderValue::from_static("x"), 4));
    }
}
