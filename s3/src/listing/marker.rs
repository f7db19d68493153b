//! Markers: where the next page of a listing begins, as an answer tells it.
//!
//! - A marker is a key or a common prefix. One that XML cannot carry is told as a token, which gives it back exactly: a
//!   marker that was only shown legibly would pass over what lies between the two.
//! - A key that looks like a token is told as one too, so no key is taken for another.

use super::Encoding;
use crate::{token, xml};

/// How a token begins.
const TOKEN: &str = "amphora:marker:";

/// The marker that a client gives; an empty one is none.
pub(crate) fn given(marker: Option<&String>) -> Option<String> {
    let marker = super::given(marker)?;
    let named = marker.strip_prefix(TOKEN).and_then(|token| token::decode(token).ok());
    Some(named.unwrap_or(marker))
}

/// Whether a marker is told as a token.
pub(crate) fn is_token(marker: &str, encoding: Encoding) -> bool {
    encoding == Encoding::Plain && !xml::carries(marker) || marker.starts_with(TOKEN)
}

/// A marker, as written.
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
