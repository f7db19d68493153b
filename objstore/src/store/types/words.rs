//! Limits on an object's tags, user metadata and headers, for both handles.

/// The most tags of an object (S3 User Guide, "Categorizing your storage using tags").
pub const OBJECT_TAGS_MAX: usize = 10;
/// The most characters in a tag's name.
pub const TAG_NAME_CHARS_MAX: usize = 128;
/// The most characters in a tag's value.
pub const TAG_VALUE_CHARS_MAX: usize = 256;
/// The most bytes of all names and values of user metadata (S3 User Guide, "Working with object metadata").
pub const METADATA_BYTES_MAX: usize = 2048;
/// The most bytes of an object's headers, the limit of AWS for a whole request.
pub const HEADERS_BYTES_MAX: usize = 8 << 10;

const RESERVED: &str = "aws:";

/// Whether a tag name is valid: 1 to 128 letters, digits, spaces or `_.:/=+-@`, without the reserved prefix.
pub fn is_tag_name(name: &str) -> bool {
    let fits = (1..=TAG_NAME_CHARS_MAX).contains(&name.chars().count());
    fits && name.chars().all(is_of_tags) && !is_reserved_tag(name)
}

/// Whether a tag name is reserved: it begins with `aws:`, in any case.
pub fn is_reserved_tag(name: &str) -> bool {
    name.get(..RESERVED.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED))
}

/// Whether a tag value is valid: up to 256 such characters.
pub fn is_tag_value(value: &str) -> bool {
    value.chars().count() <= TAG_VALUE_CHARS_MAX && value.chars().all(is_of_tags)
}

/// Letters, digits and spaces of any script, and some signs; all of them are valid in XML and headers.
fn is_of_tags(one: char) -> bool {
    one.is_alphanumeric() || (one.is_whitespace() && !one.is_control()) || "_.:/=+-@".contains(one)
}

/// Whether a name of user metadata is valid: it can follow `x-amz-meta-`, in lower case, as S3 stores it (RFC 9110,
/// section 5.6.2).
pub fn is_metadata_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

/// Whether a header transports this value unchanged: visible ASCII, with spaces between.
pub fn is_header_value(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value
}

/// Whether a Content-Encoding contains `aws-chunked`, which describes a transfer and never an object.
pub fn names_framing(encoding: &str) -> bool {
    encoding.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("aws-chunked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_letters_and_some_signs() {
        for name in ["a", "Größe 1", "a.b:c/d=e+f-g@h_i", &"x".repeat(TAG_NAME_CHARS_MAX)] {
            assert!(is_tag_name(name), "{name}");
        }
        for name in ["", "a\nb", "a*", "aws:x", "AWS:x", &"x".repeat(TAG_NAME_CHARS_MAX + 1)] {
            assert!(!is_tag_name(name), "{name:?}");
        }
        assert!(is_tag_value("") && is_tag_value(&"é".repeat(TAG_VALUE_CHARS_MAX)));
        assert!(!is_tag_value(&"é".repeat(TAG_VALUE_CHARS_MAX + 1)) && !is_tag_value("a\u{7}"));
    }

    #[test]
    fn metadata_is_what_headers_carry_unchanged() {
        assert!(is_metadata_name("mtime") && is_metadata_name("a-b_c.1~"));
        for name in ["", "Author", "a b", "a:b", "é"] {
            assert!(!is_metadata_name(name), "{name:?}");
        }
        assert!(is_header_value("") && is_header_value("text/plain; charset=utf-8"));
        for value in [" a", "a ", "a\tb", "a\nb", "é", "\u{7f}"] {
            assert!(!is_header_value(value), "{value:?}");
        }
        assert!(names_framing("gzip, AWS-chunked") && !names_framing("gzip"));
    }
}
