//! Headers covered by a Signature Version 4, collected as `s3s` does for the canonical request.

use http::{HeaderMap, Uri, Version};

/// The named headers with their values, in the given order; `None` if one is absent or not text. Over HTTP/2 the host
/// is the authority.
pub(crate) fn collect<'a>(
    names: &[&'a str],
    headers: &'a HeaderMap,
    uri: &'a Uri,
    version: Version,
) -> Option<Vec<(&'a str, &'a str)>> {
    let mut signed = Vec::new();
    for &name in names {
        let before = signed.len();
        for value in headers.get_all(name) {
            signed.push((name, std::str::from_utf8(value.as_bytes()).ok()?));
        }
        if signed.len() == before {
            let host = uri.authority().filter(|_| name == "host" && version == Version::HTTP_2)?;
            signed.push((name, host.as_str()));
        }
    }
    Some(signed)
}
