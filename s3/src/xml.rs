//! What XML 1.0 can carry: keys may hold characters it cannot, and `s3s` fails an answer that has one.

/// Whether XML carries `text` unchanged. A carriage return would be read back as a line feed.
pub(crate) fn carries(text: &str) -> bool {
    !text.chars().any(unfit)
}

/// `text` with a replacement character for each that XML cannot carry: for what is shown and never sent back.
pub(crate) fn shown(text: String) -> String {
    if carries(&text) { text } else { text.replace(unfit, "\u{fffd}") }
}

fn unfit(one: char) -> bool {
    matches!(one, '\0'..='\x08' | '\x0b'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_replaced() {
        assert!(carries("a\tb\nc é\u{10ffff}"));
        for bad in ["a\0", "\x01", "a\rb", "\x1f", "\u{ffff}"] {
            assert!(!carries(bad), "{bad:?}");
            assert!(carries(&shown(bad.to_owned())), "{bad:?}");
        }
    }
}
