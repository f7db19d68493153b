//! The XML of a page of keys, written directly: building it through the structures of `s3s` took as long as reading the
//! page.
//!
//! - `s3s` writes everything except the keys, which follow it: element order has no meaning in these responses.

use std::fmt::Write as _;

use bytes::Bytes;
use objstore::clock::Timestamp;
use objstore::store::Listed;
use s3s::S3Result;
use s3s::xml::{Serialize, Serializer};
use time::OffsetDateTime;

use super::Encoding;
use crate::error::internal;
use crate::xml::{self, Document, element, escape, escaped};
use crate::{checksum, storage_class};

const END: &str = "</ListBucketResult>";
/// The bytes that a key usually takes besides its name.
const KEY_BYTES: usize = 320;

/// The document of `frame` with `objects` inserted. `owner` is their owner, if it is to be shown.
pub(super) fn document(
    frame: &impl Serialize,
    objects: &[Listed],
    encoding: Encoding,
    owner: Option<&str>,
) -> S3Result<Document> {
    let mut bytes = Vec::with_capacity(1024 + KEY_BYTES * objects.len());
    let mut writer = Serializer::new(&mut bytes);
    writer.decl().and_then(|()| frame.serialize(&mut writer)).map_err(|error| internal(&error))?;
    let whole = String::from_utf8(bytes).map_err(|error| internal(&error))?;
    let open = whole.strip_suffix(END).map_or(whole.len(), str::len);
    let mut document = whole;
    document.truncate(open);
    let owner = owner.map(|owner| {
        let owner = escaped(owner);
        format!("<Owner><DisplayName>{owner}</DisplayName><ID>{owner}</ID></Owner>")
    });
    for object in objects {
        write(&mut document, object, encoding, owner.as_deref().unwrap_or_default());
    }
    document.push_str(END);
    Ok(Document(Bytes::from(document)))
}

fn write(document: &mut String, object: &Listed, encoding: Encoding, owner: &str) {
    document.push_str("<Contents>");
    for sum in &object.checksums {
        element(document, "ChecksumAlgorithm", &sum.algorithm);
    }
    if let Some(sum) = object.checksums.first() {
        element(document, "ChecksumType", checksum::kind(sum).as_str());
    }
    document.push_str("<ETag>&quot;");
    escape(document, &object.etag);
    document.push_str("&quot;</ETag><Key>");
    match encoding {
        Encoding::Plain => escape(document, &xml::legible(&object.key)),
        // Percent-encoded text needs no XML escapes.
        Encoding::Url => document.push_str(&encoding.apply(&object.key)),
    }
    document.push_str("</Key><LastModified>");
    write_time(document, object.modified);
    document.push_str("</LastModified>");
    document.push_str(owner);
    // Writing to a string cannot fail.
    let _ = write!(document, "<Size>{}</Size>", object.size);
    element(document, "StorageClass", storage_class::name(object.storage_class.as_ref()));
    document.push_str("</Contents>");
}

/// A time as S3 writes it in XML: `2026-01-02T03:04:05.678Z`.
fn write_time(document: &mut String, time: Timestamp) {
    let Timestamp(nanos) = time;
    let seconds = OffsetDateTime::from_unix_timestamp(nanos.div_euclid(1_000_000_000));
    let time = seconds.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    let numbers = [month as u8, day, hour, minute, second];
    // Writing to a string cannot fail.
    let _ = write!(document, "{year:04}");
    for (mark, number) in ["-", "-", "T", ":", ":"].into_iter().zip(numbers) {
        document.push_str(mark);
        digits(document, number.into(), 2);
    }
    document.push('.');
    digits(document, (nanos.rem_euclid(1_000_000_000) / 1_000_000) as u32, 3);
    document.push('Z');
}

fn digits(document: &mut String, number: u32, count: u32) {
    for place in (0..count).rev() {
        let digit = number / 10_u32.pow(place) % 10;
        document.push(char::from_digit(digit, 10).unwrap_or('0'));
    }
}

#[cfg(test)]
mod tests {
    use objstore::store::Checksum;
    use s3s::dto::{ListObjectsV2Output, TimestampFormat};

    use super::*;
    use crate::response;

    fn listed(key: &str) -> Listed {
        let sum = Checksum { algorithm: "CRC32".into(), value: "y/Q5Jg==".into() };
        let (etag, modified) = ("abc-1".into(), Timestamp(1_767_322_845_678_000_000));
        Listed {
            key: key.into(),
            size: 7,
            etag,
            modified,
            checksums: vec![sum],
            storage_class: Some("GLACIER_IR".into()),
        }
    }

    #[test]
    fn a_page_is_written_into_its_frame() {
        let frame = ListObjectsV2Output { name: Some("b".into()), ..ListObjectsV2Output::default() };
        let Document(bytes) = document(&frame, &[listed("a&b<\"c\'>")], Encoding::Plain, Some("me & you")).unwrap();
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
            <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Contents>\
            <ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>\
            <ETag>&quot;abc-1&quot;</ETag><Key>a&amp;b&lt;&quot;c&apos;&gt;</Key>\
            <LastModified>2026-01-02T03:00:45.678Z</LastModified>\
            <Owner><DisplayName>me &amp; you</DisplayName><ID>me &amp; you</ID></Owner>\
            <Size>7</Size><StorageClass>GLACIER_IR</StorageClass></Contents></ListBucketResult>";
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), expected);
        let Document(bytes) = document(&frame, &[listed("a&b c")], Encoding::Url, None).unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text.contains("<Key>a%26b%20c</Key>") && !text.contains("Owner"), "{text}");
        let Document(bytes) = document(&frame, &[], Encoding::Plain, None).unwrap();
        assert!(bytes.ends_with(b"<Name>b</Name></ListBucketResult>"));
    }

    #[test]
    fn times_are_those_of_other_answers() {
        for nanos in [0, -1, 999_999_999, 1_767_322_845_678_000_000, 951_782_400_000_000_000, -86_400_000_000_001] {
            let (mut written, mut known) = (String::new(), Vec::new());
            write_time(&mut written, Timestamp(nanos));
            response::time(Timestamp(nanos)).format(TimestampFormat::DateTime, &mut known).unwrap();
            assert_eq!(written.as_bytes(), known, "{nanos}");
        }
    }
}
