//! Client headers for the access line, such as User-Agent: bounded in length, and never trusted.

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};

/// The most characters of a client's text that are logged.
const TEXT_CHARS_MAX: usize = 256;
/// Length in bytes of a `traceparent` (W3C Trace Context, version 00).
const TRACE_PARENT_BYTES: usize = 55;

/// Headers kept for the access line: reference-counted handles, not copies.
#[derive(Debug, Default)]
pub(crate) struct ClientInfo {
    user_agent: Option<HeaderValue>,
    trace_parent: Option<HeaderValue>,
}

impl ClientInfo {
    /// Takes the headers from a request.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let trace_parent = headers.get("traceparent").filter(|value| is_trace_parent(value.as_bytes())).cloned();
        Self { user_agent: headers.get(USER_AGENT).cloned(), trace_parent }
    }

    /// The program that sent the request, by its User-Agent.
    pub(crate) fn user_agent(&self) -> Option<String> {
        self.user_agent.as_ref().map(|value| bounded(&String::from_utf8_lossy(value.as_bytes())))
    }

    /// The trace that the request belongs to, if the header is well-formed.
    pub(crate) fn trace_parent(&self) -> Option<&str> {
        self.trace_parent.as_ref().and_then(|value| value.to_str().ok())
    }
}

/// The part of a text that is logged.
pub(crate) fn bounded(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// `version-trace_id-parent_id-flags`, each in lower-case hex (W3C Trace Context, "traceparent Header").
fn is_trace_parent(bytes: &[u8]) -> bool {
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    bytes.len() == TRACE_PARENT_BYTES
        && bytes.iter().enumerate().all(|(at, byte)| if matches!(at, 2 | 35 | 52) { *byte == b'-' } else { hex(byte) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_a_client_says_is_bounded_and_a_trace_is_well_formed() {
        let said = |agent: &[u8], trace: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_bytes(agent).unwrap());
            headers.insert("traceparent", HeaderValue::from_str(trace).unwrap());
            ClientInfo::of(&headers)
        };
        let known = said(b"aws-cli/2\xff", TRACE);
        assert_eq!((known.user_agent().as_deref(), known.trace_parent()), (Some("aws-cli/2\u{fffd}"), Some(TRACE)));
        assert_eq!(said(&[b'x'; 10_000], TRACE).user_agent().map(|text| text.len()), Some(TEXT_CHARS_MAX));
        for bad in ["", "00-1-2-3", &TRACE.to_uppercase(), &TRACE.replace('-', "_"), &format!("{TRACE}-more")] {
            assert_eq!(said(b"a", bad).trace_parent(), None, "{bad}");
        }
    }
}
