//! UUIDs, as Kubernetes writes the `uid` of its objects.

/// Whether `text` is a UUID in lower case with hyphens (RFC 9562, section 4).
pub fn is_uuid(text: &str) -> bool {
    let is_hyphen_due = |at| matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, byte): (usize, u8)| match is_hyphen_due(at) {
        true => byte == b'-',
        false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_uuids_are_uuids() {
        assert!(is_uuid("0a1b2c3d-1111-2222-3333-444455556666"));
        for text in [
            "",
            "1",
            "0a1b2c3d-1111-2222-3333-44445555666",
            "0a1b2c3d-1111-2222-3333-4444555566667",
            "0A1b2c3d-1111-2222-3333-444455556666",
            "0a1b2c3d11111-2222-3333-444455556666",
            "0a1b2c3d-1111-2222-3333-44445555666g",
        ] {
            assert!(!is_uuid(text), "{text}");
        }
    }
}
