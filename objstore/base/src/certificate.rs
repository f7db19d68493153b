//! What is read of certificates (RFC 5280, section 4.1): the expiry, and the names of a peer's certificate.
//!
//! - The TLS library has verified the certificate whose names are read; nothing is decided here about any other.

use time::{Date, Month, OffsetDateTime, Time};

const BOOLEAN: u8 = 0x01;
const OBJECT_ID: u8 = 0x06;
const OCTETS: u8 = 0x04;
const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`: the version, which certificates of version 1 lack.
const VERSION: u8 = 0xa0;
/// `[3]`: the extensions.
const EXTENSIONS: u8 = 0xa3;
/// `[2]` of a general name: a name of DNS.
const DNS_NAME: u8 = 0x82;
/// The types of text of a common name that hold ASCII or UTF-8.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// id-ce-subjectAltName, 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The expiry of a DER certificate in seconds since 1970; `None` if the bytes are not a certificate.
pub fn expiry(certificate: &[u8]) -> Option<i64> {
    let (validity, _) = expect(from_validity(certificate)?, SEQUENCE)?;
    let (_, _, not_after) = element(validity)?;
    let (tag, time, _) = element(not_after)?;
    seconds(tag, std::str::from_utf8(time).ok()?)
}

/// The fields from the validity on.
fn from_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut fields, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, rest)) = expect(fields, VERSION) {
        fields = rest;
    }
    // Serial number, signature algorithm, issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        fields = expect(fields, tag)?.1;
    }
    Some(fields)
}

/// The DNS names of a DER certificate, and its common names; none if the bytes are not a certificate.
pub fn names(certificate: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    // What is read before bytes that are none is kept: the certificate has that name.
    let _ = collect(certificate, &mut names);
    names
}

fn collect(certificate: &[u8], names: &mut Vec<String>) -> Option<()> {
    let (_, fields) = expect(from_validity(certificate)?, SEQUENCE)?;
    let (subject, fields) = expect(fields, SEQUENCE)?;
    for part in elements(subject, SET) {
        for attribute in elements(part, SEQUENCE) {
            let (kind, value) = expect(attribute, OBJECT_ID)?;
            let (tag, text, _) = element(value)?;
            if kind == COMMON_NAME && TEXTS.contains(&tag) {
                names.extend(std::str::from_utf8(text).ok().map(str::to_owned));
            }
        }
    }
    // The public key, and the unique ids of old certificates.
    let (_, mut fields) = expect(fields, SEQUENCE)?;
    let extensions = loop {
        let (tag, content, rest) = element(fields)?;
        match tag {
            EXTENSIONS => break content,
            _ => fields = rest,
        }
    };
    let (extensions, _) = expect(extensions, SEQUENCE)?;
    for extension in elements(extensions, SEQUENCE) {
        let (kind, rest) = expect(extension, OBJECT_ID)?;
        let value = expect(rest, BOOLEAN).map_or(rest, |(_, value)| value);
        if kind == ALTERNATIVE_NAMES {
            let (alternatives, _) = expect(expect(value, OCTETS)?.0, SEQUENCE)?;
            let dns = elements(alternatives, DNS_NAME).filter_map(|name| std::str::from_utf8(name).ok());
            names.extend(dns.map(str::to_owned));
        }
    }
    Some(())
}

/// The contents of the elements with this tag, one behind the other.
fn elements(mut bytes: &[u8], tag: u8) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (found, content, rest) = element(bytes)?;
        bytes = rest;
        Some((found, content))
    })
    .filter(move |(found, _)| *found == tag)
    .map(|(_, content)| content)
}

/// The content of an element with this tag, and what follows it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The first element: its tag, its content, and what follows (X.690, section 8.1).
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = bytes else { return None };
    let (length, rest) = match length {
        short @ 0..0x80 => (usize::from(*short), rest),
        long => {
            let count = usize::from(long & 0x7f);
            let (digits, rest) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ` (RFC 5280, section 4.1.2.5).
fn seconds(tag: u8, text: &str) -> Option<i64> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    let digits = rest.strip_suffix('Z').filter(|digits| digits.len() == 10 && digits.is_ascii())?;
    let pair = |at: usize| number(&digits[at..at + 2]).and_then(|pair| u8::try_from(pair).ok());
    let date = Date::from_calendar_date(year.into(), Month::try_from(pair(0)?).ok()?, pair(2)?).ok()?;
    let time = Time::from_hms(pair(4)?, pair(6)?, pair(8)?).ok()?;
    Some(OffsetDateTime::new_utc(date, time).unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(year: i32) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 3, 4);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms_of_a_time() {
        // 2049 is the last year of the short form.
        for (year, expected) in [(2031, 1_930_348_800), (2049, 2_498_428_800), (2050, 2_529_964_800)] {
            assert_eq!(expiry(&certificate(year)), Some(expected), "{year}");
        }
    }

    #[test]
    fn the_names_of_a_certificate_are_its_dns_names_and_its_common_name() {
        let sans = ["node-a", "node-a.example.org"].map(str::to_owned);
        let mut params = rcgen::CertificateParams::new(sans.to_vec()).unwrap();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "nodes");
        params.distinguished_name.push(rcgen::DnType::CommonName, "Node A");
        params.subject_alt_names.push(rcgen::SanType::IpAddress([10, 0, 0, 1].into()));
        params.is_ca = rcgen::IsCa::ExplicitNoCa;
        let der = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec();
        let mut read = names(&der);
        read.sort();
        assert_eq!(read, ["Node A", "node-a", "node-a.example.org"]);
        let mut nameless = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        nameless.distinguished_name = rcgen::DistinguishedName::new();
        let der = nameless.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec();
        assert_eq!(names(&der), Vec::<String>::new());
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_end_and_do_no_harm() {
        let whole = certificate(2040);
        for length in 0..whole.len() {
            assert_eq!(expiry(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                // Whatever the result, it must not panic.
                let _ = (expiry(&changed), names(&changed));
            }
        }
        assert_eq!(seconds(UTC_TIME, "+10304000000Z"), None);
        assert_eq!(seconds(UTC_TIME, "ü0304000000Z"), None);
    }
}
