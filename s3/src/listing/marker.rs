//! Markers: where the next page of a listing begins.
//!
//! - A marker is a key or a common prefix. One that XML cannot carry is sent as a token, which restores it exactly: a
//!   marker with replaced characters would skip the keys in between.
//! - A key that looks like a token is sent as a token too, so no key is mistaken for one.

use super::Encoding;
use crate::{token, xml};

/// The prefix of a token.
const TOKEN: &str = "amphora:marker:";

/// The marker from a client; an empty one counts as absent.
pub(crate) fn given(marker: Option<&String>) -> Option<String> {
    let marker = super::given(marker)?;
    let named = marker.strip_prefix(TOKEN).and_then(|token| token::decode(token).ok());
    Some(named.unwrap_or(marker))
}

/// Whether a marker has to be sent as a token.
pub(crate) fn is_token(marker: &str, encoding: Encoding) -> bool {
    encoding == Encoding::Plain && !xml::carries(marker) || marker.starts_with(TOKEN)
}

/// A marker in the form of a response.
pub(crate) fn written(marker: &str, encoding: Encoding) -> String {
    match is_token(marker, encoding) {
        true => encoding.apply(&format!("{TOKEN}{}", token::encode(marker))),
        false => encoding.apply(marker),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marker_comes_back_exactly() {
        for marker in ["a", "a b", "a\u{1}", "a\u{fffd}", "a\rb", TOKEN, "amphora:marker:AAAA", "ü/\u{7f}"] {
            let told = written(marker, Encoding::Plain);
            assert!(xml::carries(&told), "{told:?}");
            assert_eq!(given(Some(&told)).as_deref(), Some(marker));
            let told = percent_encoding::percent_decode_str(&written(marker, Encoding::Url)).decode_utf8_lossy().into();
            assert_eq!(given(Some(&told)).as_deref(), Some(marker));
        }
        assert_eq!(written("a b", Encoding::Plain), "a b");
        assert_eq!(given(Some(&String::new())), None);
        assert_eq!(given(Some(&"amphora:marker:nonsense".to_owned())).as_deref(), Some("amphora:marker:nonsense"));
    }
}
