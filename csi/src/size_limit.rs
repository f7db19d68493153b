//! Limits of fields. CSI v1.12, Size Limits.
//!
//! - What this driver sends is within them. A message for people that is longer is cut, and logged as a whole.

/// The longest text in bytes.
pub(crate) const STRING_BYTES_MAX: usize = 128;
/// The most bytes of a map's keys and values, and of a list of mount options (MountVolume.mount_flags).
pub(crate) const MAP_BYTES_MAX: usize = 4 << 10;
/// What a text that was cut ends with.
const CUT: &str = "…";

/// A message that fits into a field.
pub(crate) fn message(text: String) -> String {
    if text.len() <= STRING_BYTES_MAX {
        return text;
    }
    tracing::debug!(text, "a message is cut to the limit of its field");
    let mut end = STRING_BYTES_MAX - CUT.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &text[..end])
}

/// The bytes of a map.
#[cfg(test)]
pub(crate) fn bytes(map: &std::collections::HashMap<String, String>) -> usize {
    map.iter().map(|(key, value)| key.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_never_longer_than_its_field() {
        for text in ["", "short", &"x".repeat(128)] {
            assert_eq!(message(text.to_owned()), text);
        }
        for (text, kept) in [("x".repeat(129), 125), ("é".repeat(200), 124), ("日".repeat(50), 123)] {
            let cut = message(text.clone());
            assert!(cut.len() <= STRING_BYTES_MAX && cut.ends_with(CUT), "{cut}");
            assert!(text.starts_with(cut.trim_end_matches(CUT)) && cut.len() == kept + CUT.len(), "{cut}");
        }
    }
}
