//! Strict validation of XML documents in requests: refuses content that the reader of `s3s` would silently skip.
//!
//! - `s3s` skips CDATA sections, comments, document types, attributes, text between elements, unknown top-level
//!   elements, and any text after the digits of a number. A lifecycle rule with its prefix in a CDATA section would
//!   apply to the whole bucket. Such a document does not mean what would be done, so it is `MalformedXML`.
//! - `s3s` itself refuses repeated elements, elements inside a value, entities, and unknown elements further down.
//! - This module uses the XML reader that `s3s` uses, so both see the same events.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// The most levels of elements; the deepest document of S3 has six (a tag in the filter of a lifecycle rule).
const LEVELS_MAX: usize = 16;
/// The most bytes of a number.
const NUMBER_BYTES_MAX: usize = 32;

/// Why a document is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// The document is not well-formed XML.
    #[error("The XML you provided was not well-formed.")]
    Syntax,
    /// It has a character that XML does not allow.
    #[error("The document has a control character, which XML 1.0 cannot have.")]
    Character,
    /// It declares an unsupported encoding.
    #[error("The document declares another encoding than UTF-8; send UTF-8.")]
    Encoding,
    /// It has a document type.
    #[error("The document has a document type (<!DOCTYPE …>); leave it out.")]
    DocumentType,
    /// It has a CDATA section.
    #[error("The document has a CDATA section; write the text itself, with &amp; for & and &lt; for <.")]
    Cdata,
    /// It has a comment or a processing instruction where a value belongs.
    #[error("The document has a comment or a processing instruction inside a value; leave it out.")]
    Comment,
    /// It has text between elements.
    #[error("The document has text beside its elements; only an element without others in it has a value.")]
    Text,
    /// It has a carriage return in a value.
    #[error("The document has a carriage return in a value; write &#13; if it belongs to the value.")]
    CarriageReturn,
    /// It has an unknown element.
    #[error("The document has an element that S3 does not know at its place; check its name and its case.")]
    Element,
    /// It has an unknown attribute.
    #[error("The document has an attribute that means nothing; only xmlns, xml and xsi attributes are read.")]
    Attribute,
    /// It has a number that is not a whole number.
    #[error("The document has an element whose value has to be a whole number, and is not.")]
    Number,
    /// It has too many levels.
    #[error("The document has more than {LEVELS_MAX} levels of elements.")]
    Deep,
}

/// Elements in which `s3s` skips unknown children, and the children that it knows.
const KNOWN: [(&str, &[&str]); 36] = [
    ("AbacStatus", &["Status"]),
    ("AccelerateConfiguration", &["Status"]),
    ("AccessControlList", &["Grant"]),
    ("AccessControlPolicy", &["AccessControlList", "Owner"]),
    ("BucketLoggingStatus", &["LoggingEnabled"]),
    ("CORSConfiguration", &["CORSRule"]),
    ("CompleteMultipartUpload", &["Part"]),
    ("Condition", &["HttpErrorCodeReturnedEquals", "KeyPrefixEquals"]),
    ("CreateBucketConfiguration", &["Bucket", "Location", "LocationConstraint", "Tags"]),
    ("Delete", &["Object", "Quiet"]),
    ("ErrorDocument", &["Key"]),
    ("GlacierJobParameters", &["Tier"]),
    ("IndexDocument", &["Suffix"]),
    ("LegalHold", &["Status"]),
    ("LifecycleConfiguration", &["Rule"]),
    ("LoggingEnabled", &["TargetBucket", "TargetGrants", "TargetObjectKeyFormat", "TargetPrefix"]),
    (
        "NotificationConfiguration",
        &["CloudFunctionConfiguration", "EventBridgeConfiguration", "QueueConfiguration", "TopicConfiguration"],
    ),
    ("ObjectLockConfiguration", &["ObjectLockEnabled", "Rule"]),
    ("OwnershipControls", &["Rule"]),
    ("PartitionedPrefix", &["PartitionDateSource"]),
    (
        "PublicAccessBlockConfiguration",
        &["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"],
    ),
    ("Redirect", &["HostName", "HttpRedirectCode", "Protocol", "ReplaceKeyPrefixWith", "ReplaceKeyWith"]),
    ("RedirectAllRequestsTo", &["HostName", "Protocol"]),
    ("RequestPaymentConfiguration", &["Payer"]),
    (
        "RestoreRequest",
        &["Days", "Description", "GlacierJobParameters", "OutputLocation", "SelectParameters", "Tier", "Type"],
    ),
    ("Retention", &["Mode", "RetainUntilDate"]),
    ("RoutingRule", &["Condition", "Redirect"]),
    ("RoutingRules", &["RoutingRule"]),
    ("SimplePrefix", &[]),
    ("TagSet", &["Tag"]),
    ("Tagging", &["TagSet"]),
    ("Tags", &["Tag"]),
    ("TargetGrants", &["Grant"]),
    ("TargetObjectKeyFormat", &["PartitionedPrefix", "SimplePrefix"]),
    ("VersioningConfiguration", &["MfaDelete", "Status"]),
    ("WebsiteConfiguration", &["ErrorDocument", "IndexDocument", "RedirectAllRequestsTo", "RoutingRules"]),
];

/// Further elements that contain only elements; `s3s` skips text in them.
const HOLDERS: [&str; 18] = [
    "AbortIncompleteMultipartUpload",
    "And",
    "Bucket",
    "CORSRule",
    "DefaultRetention",
    "Expiration",
    "Filter",
    "Grant",
    "Grantee",
    "Location",
    "NoncurrentVersionExpiration",
    "NoncurrentVersionTransition",
    "Object",
    "Owner",
    "Part",
    "Rule",
    "Tag",
    "Transition",
];

/// Elements whose value is a whole number: `s3s` would read `30 days` as 30.
const NUMBERS: [&str; 10] = [
    "Days",
    "DaysAfterInitiation",
    "MaxAgeSeconds",
    "NewerNoncurrentVersions",
    "NoncurrentDays",
    "ObjectSizeGreaterThan",
    "ObjectSizeLessThan",
    "PartNumber",
    "Size",
    "Years",
];

/// Refuses a document that contains anything `s3s` would skip.
pub(crate) fn check(document: &[u8]) -> Result<(), Malformed> {
    check_characters(document)?;
    let (mut reader, mut levels) = (Reader::from_reader(document), Levels::default());
    loop {
        match reader.read_event().map_err(|_| Malformed::Syntax)? {
            // If an element is not closed, `s3s` refuses the document too.
            Event::Eof => return Ok(()),
            Event::Start(start) => levels.open(&start)?,
            Event::Empty(start) => {
                levels.open(&start)?;
                levels.close()?;
            }
            Event::End(_) => levels.close()?,
            Event::Text(text) => levels.text(&text)?,
            Event::GeneralRef(_) => levels.reference()?,
            Event::CData(_) => return Err(Malformed::Cdata),
            Event::DocType(_) => return Err(Malformed::DocumentType),
            Event::Comment(_) | Event::PI(_) => levels.interrupt(),
            Event::Decl(declaration) => match declaration.encoding() {
                None if levels.0.is_empty() => {}
                Some(Ok(name)) if levels.0.is_empty() && is_read(&name) => {}
                _ => return Err(Malformed::Encoding),
            },
        }
    }
}

/// Whether an encoding of this name is supported.
fn is_read(encoding: &str) -> bool {
    ["utf-8", "us-ascii"].iter().any(|known| known.eq_ignore_ascii_case(encoding))
}

/// Whether an element of this name contains elements and no value.
fn holds_elements(name: &str) -> bool {
    HOLDERS.contains(&name) || KNOWN.iter().any(|(element, _)| *element == name)
}

/// Refuses characters that XML 1.0 does not allow: control characters except three, U+FFFE and U+FFFF, also as
/// references.
fn check_characters(document: &[u8]) -> Result<(), Malformed> {
    let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    let none = |three: &[u8]| matches!(three, [0xef, 0xbf, 0xbe | 0xbf]);
    match document.iter().any(control) || document.windows(3).any(none) {
        true => Err(Malformed::Character),
        false => Ok(()),
    }
}

/// An open element.
#[derive(Default)]
struct Open {
    name: String,
    /// Whether it contains elements.
    filled: bool,
    /// Whether it contains text other than white space.
    text: bool,
    /// Whether its text has a literal carriage return.
    carriage_return: bool,
    /// Whether it contains a comment or a processing instruction.
    interrupted: bool,
    /// Its value so far, if it has to be a number.
    number: Option<String>,
}

/// The open elements, the outermost first.
#[derive(Default)]
struct Levels(Vec<Open>);

impl Levels {
    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), Malformed> {
        let name = start.name();
        let name: &str = name.as_ref();
        if let Some(parent) = self.0.last_mut() {
            parent.filled = true;
            let known = KNOWN.iter().find(|(element, _)| *element == parent.name);
            if known.is_some_and(|(_, known)| !known.contains(&name)) {
                return Err(Malformed::Element);
            }
        }
        // Without the check for repeated attributes, which takes quadratic time.
        for attribute in start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|_| Malformed::Syntax)?;
            let key: &str = attribute.key.as_ref();
            if key != "xmlns" && !["xmlns:", "xml:", "xsi:"].iter().any(|space| key.starts_with(space)) {
                return Err(Malformed::Attribute);
            }
        }
        if self.0.len() == LEVELS_MAX {
            return Err(Malformed::Deep);
        }
        let number = NUMBERS.contains(&name).then(String::new);
        self.0.push(Open { name: name.to_owned(), number, ..Open::default() });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Malformed> {
        let Some(open) = self.0.pop() else { return Err(Malformed::Syntax) };
        if open.filled || holds_elements(&open.name) {
            return if open.text { Err(Malformed::Text) } else { Ok(()) };
        }
        if open.interrupted {
            return Err(Malformed::Comment);
        }
        if open.text && open.carriage_return {
            return Err(Malformed::CarriageReturn);
        }
        match open.number.is_none_or(|number| number.trim().parse::<i64>().is_ok()) {
            true => Ok(()),
            false => Err(Malformed::Number),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Malformed> {
        let blank = text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        let Some(open) = self.0.last_mut() else {
            return if blank { Ok(()) } else { Err(Malformed::Text) };
        };
        open.text |= !blank;
        open.carriage_return |= text.contains('\r');
        if let Some(number) = &mut open.number {
            if number.len() + text.len() > NUMBER_BYTES_MAX {
                return Err(Malformed::Number);
            }
            number.push_str(text);
        }
        Ok(())
    }

    /// Handles a character reference such as `&amp;` or `&#38;`.
    fn reference(&mut self) -> Result<(), Malformed> {
        let Some(open) = self.0.last_mut() else { return Err(Malformed::Text) };
        open.text = true;
        if open.number.is_some() { Err(Malformed::Number) } else { Ok(()) }
    }

    fn interrupt(&mut self) {
        if let Some(open) = self.0.last_mut() {
            open.interrupted = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_says_more_than_is_read_is_refused() {
        let rule = |rule: &str| format!("<LifecycleConfiguration><Rule>{rule}</Rule></LifecycleConfiguration>");
        for (document, expected) in [
            (rule("<Prefix><![CDATA[logs/]]></Prefix>"), Malformed::Cdata),
            (rule("<Prefix>logs<![CDATA[/]]></Prefix>"), Malformed::Cdata),
            (rule("<Prefix>lo<!-- -->gs/</Prefix>"), Malformed::Comment),
            (rule("<Prefix><!-- logs/ --></Prefix>"), Malformed::Comment),
            (rule("<Prefix>lo<?x y?>gs/</Prefix>"), Malformed::Comment),
            (rule("logs/<Prefix/>"), Malformed::Text),
            (rule("<Filter>&amp;<Prefix>a</Prefix></Filter>"), Malformed::Text),
            (rule("<Filter>logs/</Filter>"), Malformed::Text),
            (rule("<Filter Prefix=\"logs/\"/>"), Malformed::Attribute),
            (rule("<Prefix>a\rb</Prefix>"), Malformed::CarriageReturn),
            (rule("<Prefix>a\u{1}b</Prefix>"), Malformed::Character),
            (rule("<Prefix>a\u{ffff}b</Prefix>"), Malformed::Character),
            (rule("<Expiration><Days>30 days</Days></Expiration>"), Malformed::Number),
            (rule("<Expiration><Days>3.5</Days></Expiration>"), Malformed::Number),
            (rule("<Expiration><Days>1 0</Days></Expiration>"), Malformed::Number),
            (rule("<Expiration><Days>1&#48;</Days></Expiration>"), Malformed::Number),
            ("<!DOCTYPE d><Delete/>".into(), Malformed::DocumentType),
            ("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><Delete/>".into(), Malformed::Encoding),
            ("text<Delete/>".into(), Malformed::Text),
            ("<Delete/>text".into(), Malformed::Text),
            ("<Delete/>&amp;".into(), Malformed::Text),
            ("<Delete><object/></Delete>".into(), Malformed::Element),
            ("<Delete><s3:Object/></Delete>".into(), Malformed::Element),
            ("<Tagging><TagSet><tag/></TagSet></Tagging>".into(), Malformed::Element),
            ("<a>".repeat(17), Malformed::Deep),
            ("<a></b>".into(), Malformed::Syntax),
        ] {
            assert_eq!(check(document.as_bytes()), Err(expected), "{document}");
        }
    }

    #[test]
    fn a_document_as_clients_write_it_is_taken() {
        for document in [
            "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\r\n<!-- made by hand -->\r\n<Delete \
             xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\r\n  <Quiet>true</Quiet>\r\n  <!-- two -->\r\n  \
             <Object><Key>a&amp;b&#13;c &#x1F600;</Key><Size>  7 </Size></Object>\r\n  <Object><Key> </Key></Object>\r\n</Delete>\r\n",
            "<Tagging><TagSet>\r\n<!-- none --></TagSet></Tagging>",
            "<AccessControlPolicy><AccessControlList><Grant><Grantee \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"><ID>x</ID></Grantee>\
             </Grant></AccessControlList></AccessControlPolicy>",
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;e&quot;</ETag></Part>\
             </CompleteMultipartUpload>",
        ] {
            assert_eq!(check(document.as_bytes()), Ok(()), "{document}");
        }
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(KNOWN.is_sorted_by_key(|(name, _)| name) && NUMBERS.is_sorted() && HOLDERS.is_sorted());
    }
}
