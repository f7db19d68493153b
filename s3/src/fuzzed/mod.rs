//! The bodies of the fuzz targets (`fuzz/`): parsers of untrusted bytes, called with arbitrary bytes.
//!
//! - Each function accepts any bytes and panics only where a guarantee is broken.
//! - The corpora run as ordinary tests, below.

mod wire;

use std::collections::BTreeMap;

use http::request::Parts;
use s3_policy::{Facts, Key, Policy, Question, Scope, Verdict};
use s3s::dto::{CopySource, Range};

use crate::address::Resource;
use crate::body::{Kind, ended, is_form};
use crate::checksum::Claims;
use crate::cors::Asked;
use crate::{guard, names, post, presigned_v2, query, rewrite, tagging, token};
pub use wire::Endpoint;

/// Continuation tokens: a decoded token encodes to the same text.
pub fn token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(key) = token::decode(&text) {
        assert_eq!(token::encode(&key), text, "no other text is this token");
    }
    assert_eq!(token::decode(&token::encode(&text)).ok().as_deref(), Some(&*text));
}

/// Bucket policies: parses one, and evaluates it.
pub fn policy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let put = Policy::parse(&text, "abc", &|account| account.len() < 8);
    let Ok(policy) = Policy::stored(&text, "abc") else {
        assert!(put.is_err(), "what is taken can be read");
        return;
    };
    let _ = (policy.size(), policy.is_public(), policy.mentions(|key| key.tag().is_some()));
    for (account, resource) in [(None, "abc"), (Some("alice"), "abc/a/b?c*"), (Some("bob"), "abc/${aws:username}")] {
        for action in ["s3:GetObject", "s3:ListBucket"] {
            let question = Question { account, action, resource, facts: &Anything };
            let possible = [Scope::Resource, Scope::SomeKey].map(|scope| policy.could_allow(&question, scope));
            let allowed = policy.judge(&question) == Verdict::Allowed;
            assert!(!allowed || possible == [true, true], "what is allowed was possible before");
        }
    }
}

/// Facts with a value for every condition key.
struct Anything;

impl Facts for Anything {
    fn values(&self, key: &Key) -> Vec<String> {
        match key.name() {
            "aws:sourceip" => vec!["192.0.2.7".to_owned()],
            "aws:currenttime" => vec!["2026-01-31T12:00:00Z".to_owned()],
            _ => vec!["7".to_owned(), "true".to_owned(), "a*b?c".to_owned()],
        }
    }

    fn once(&self, _: usize, decide: &dyn Fn() -> bool) -> bool {
        decide()
    }
}

/// Request heads: the checks before `s3s`, and headers with their own grammar. The first line is method and URI, each
/// further one a header.
pub fn head(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(mut head) = parts(&text) else { return };
    rewrite::check_head(&mut head);
    query::order_repeated(&mut head.uri);
    let _ = guard::hoist(&mut head);
    let endpoint = guard::Endpoint { region: "us-east-1", presigned_v2: true };
    let _ = guard::check(&head, Resource::Object, Kind::of(&head, true), endpoint);
    presigned_v2::parse(&head);
    let _ = (Asked::of(&head).is_some(), Claims::from_headers(&head.headers).is_ok(), is_form(&head));
    for value in head.headers.values().filter_map(|value| value.to_str().ok()) {
        if let Ok(source) = CopySource::parse(value) {
            let _ = names::source(&source).is_ok();
        }
        if let Ok(span) = Range::parse(value).map(|range| range.check(1000)) {
            assert!(span.is_err() || span.is_ok_and(|span| span.end <= 1000), "a range lies in its object");
        }
        let _ = tagging::from_query(value).is_ok();
    }
}

fn parts(text: &str) -> Option<Parts> {
    let mut lines = text.lines();
    let (method, uri) = lines.next()?.split_once(' ')?;
    let mut request = http::Request::builder().method(method).uri(uri);
    for (name, value) in lines.map_while(|line| line.split_once(':')) {
        request = request.header(name, value.trim());
    }
    request.body(()).ok().map(|request| request.into_parts().0)
}

/// Chunked bodies received in pieces: the detected end does not depend on the pieces. The first byte is the size of the
/// pieces.
pub fn frames(bytes: &[u8]) {
    let Some((size, body)) = bytes.split_first() else { return };
    for trailed in [false, true] {
        let whole = ended(trailed, std::iter::once(body));
        assert_eq!(ended(trailed, body.chunks(usize::from(*size).max(1))), whole);
    }
}

/// Forms, their policies, and the XML of their tags.
pub fn form(bytes: &[u8]) {
    post::read(bytes);
    let _ = tagging::from_xml(&String::from_utf8_lossy(bytes)).is_ok();
}

/// Requests to STS, and the tokens, keys and policies in them.
pub fn sts(bytes: &[u8]) {
    crate::sts::parse(bytes);
    s3_oidc::parse_foreign(bytes);
    let _ = Policy::session(&String::from_utf8_lossy(bytes)).is_ok();
}

/// The targets by name, except those that need an [`Endpoint`].
pub fn targets() -> BTreeMap<&'static str, fn(&[u8])> {
    BTreeMap::from([
        ("token", token as fn(&[u8])),
        ("policy", policy),
        ("head", head),
        ("frames", frames),
        ("form", form),
        ("sts", sts),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpora_break_no_promise() {
        for (name, target) in targets() {
            corpora::run(name, target);
        }
    }

    #[test]
    fn no_request_of_the_corpus_is_answered_as_a_failure_of_the_server() {
        let endpoint = Endpoint::start();
        corpora::run("wire", |bytes| endpoint.ask(bytes));
    }
}
