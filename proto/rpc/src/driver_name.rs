//! Names of drivers, which CSI and COSI have in common. CSI v1.12, GetPluginInfoResponse; COSI, DriverGetInfoResponse.

/// What a name has to be, for an error.
pub const RULE: &str = "use a domain name of at most 63 letters, digits, dots and hyphens that begins with a letter, with a \
                        letter or digit at both ends of each part";

/// Whether a driver can have this name (RFC 1035, section 2.3.1).
pub fn is_driver_name(name: &str) -> bool {
    name.len() <= 63 && name.starts_with(|first: char| first.is_ascii_alphabetic()) && is_domain(name)
}

/// Whether each part of a name between dots has letters, digits, and hyphens inside.
pub fn is_domain(name: &str) -> bool {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()].into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
        ends && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_has_the_name_of_a_domain() {
        for good in ["c", "csi.amphora.dev", "CSI-2.v1", &"c".repeat(63)] {
            assert!(is_driver_name(good), "{good}");
        }
        for bad in ["", "1csi", "csi.amphora.dev.", ".csi", "csi/amphora", "csi..dev", "csi-.dev", "csi_dev", "é"] {
            assert!(!is_driver_name(bad), "{bad}");
        }
        assert!(!is_driver_name(&"c".repeat(64)));
    }
}
