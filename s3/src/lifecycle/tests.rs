//! Round trips of lifecycle rules, and the refusals of invalid ones.

use objstore::lifecycle::Expiration;
use s3s::xml::{Deserialize as _, Deserializer, Serializer};

use s3s::dto;

use super::parse::rules;
use super::write;
use crate::error::Failure;

fn read(rules: &str) -> Vec<dto::LifecycleRule> {
    let xml = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    dto::BucketLifecycleConfiguration::deserialize(&mut Deserializer::new(xml.as_bytes())).unwrap().rules
}

fn code(rule: &str) -> String {
    rules(read(&format!("<Rule>{rule}</Rule>"))).err().map(|error| error.code().as_str().to_owned()).unwrap_or_default()
}

/// A rule with this filter and action.
fn with(filter: &str, action: &str) -> String {
    code(&format!("<Status>Enabled</Status>{filter}{action}"))
}

const DAYS: &str = "<Expiration><Days>1</Days></Expiration>";

#[test]
fn what_was_put_is_what_is_given() {
    let tag = |name: &str| format!("<Tag><Key>{name}</Key><Value>v</Value></Tag>");
    let filters = [
        "<Filter><Prefix>a/</Prefix></Filter>".to_owned(),
        "<Filter></Filter>".to_owned(),
        "<Prefix></Prefix>".to_owned(),
        "<Prefix>logs/</Prefix>".to_owned(),
        format!("<Filter>{}</Filter>", tag("one")),
        "<Filter><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></Filter>".to_owned(),
        "<Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>".to_owned(),
        format!(
            "<Filter><And><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><Prefix>p</Prefix>{}{}</And></Filter>",
            tag("one"),
            tag("two")
        ),
    ];
    for filter in filters {
        let action = format!(
            "{DAYS}<NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>"
        );
        let given = read(&format!("<Rule><ID>x</ID><Status>Disabled</Status>{filter}{action}</Rule>"));
        let parsed = rules(given.clone()).unwrap();
        assert_eq!(parsed.iter().map(write::rule).collect::<Vec<_>>(), given, "{filter}");
    }
}

#[test]
fn written_rules_read_back() {
    let given = read(&format!("<Rule><Status>Enabled</Status><Prefix>a</Prefix>{DAYS}</Rule>"));
    let written = write::rule(&rules(given).unwrap()[0]);
    let mut xml = Vec::new();
    let configuration = dto::BucketLifecycleConfiguration { rules: vec![written.clone()] };
    s3s::xml::Serialize::serialize(&configuration, &mut Serializer::new(&mut xml)).unwrap();
    let again = dto::BucketLifecycleConfiguration::deserialize(&mut Deserializer::new(&xml)).unwrap();
    assert_eq!(again.rules, [written]);
}

#[test]
fn rules_without_an_id_get_one_of_their_own() {
    let rule = |id: &str| format!("<Rule>{id}<Status>Enabled</Status><Prefix>a</Prefix>{DAYS}</Rule>");
    let parsed = rules(read(&[rule(""), rule("<ID>rule-1</ID>"), rule("")].concat())).unwrap();
    assert_eq!(parsed.iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>(), ["rule-2", "rule-1", "rule-3"]);
    let twice = rules(read(&rule("<ID>a</ID>").repeat(2))).unwrap_err();
    assert_eq!(twice.code().as_str(), "InvalidArgument");
    assert_eq!(
        code(&format!("<ID>{}</ID><Status>Enabled</Status><Prefix/>{DAYS}", "a".repeat(256))),
        "InvalidArgument"
    );
    assert_eq!(rules(read(&rule("").repeat(1_001))).unwrap_err().code().as_str(), "InvalidRequest");
    assert_eq!(rules(Vec::new()).unwrap_err().code().as_str(), "MalformedXML");
}

#[test]
fn actions_are_checked() {
    let none = "<Filter/>";
    let tagged = "<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>";
    let sized = "<Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>";
    let expiration = |of: &str| format!("<Expiration>{of}</Expiration>");
    let noncurrent = |of: &str| format!("<NoncurrentVersionExpiration>{of}</NoncurrentVersionExpiration>");
    let abort =
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    let markers = expiration("<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>");
    let table = [
        (none, DAYS.to_owned(), ""),
        (none, expiration("<Date>2030-01-01T00:00:00Z</Date>"), ""),
        (none, expiration("<Date>2030-01-01T00:00:01Z</Date>"), "InvalidArgument"),
        (none, expiration("<Days>0</Days>"), "InvalidArgument"),
        (none, expiration("<Days>-1</Days>"), "InvalidArgument"),
        (none, expiration(""), "MalformedXML"),
        (none, expiration("<Days>1</Days><Date>2030-01-01T00:00:00Z</Date>"), "MalformedXML"),
        (none, expiration("<Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>"), "MalformedXML"),
        (none, markers.clone(), ""),
        (tagged, markers.clone(), "InvalidRequest"),
        (sized, markers, "InvalidRequest"),
        (none, noncurrent("<NoncurrentDays>1</NoncurrentDays>"), ""),
        (none, noncurrent("<NoncurrentDays>0</NoncurrentDays>"), "InvalidArgument"),
        (none, noncurrent("<NewerNoncurrentVersions>1</NewerNoncurrentVersions>"), "MalformedXML"),
        (
            none,
            noncurrent("<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions>"),
            "InvalidArgument",
        ),
        (none, abort.to_owned(), ""),
        (tagged, abort.to_owned(), "InvalidRequest"),
        (sized, abort.to_owned(), "InvalidRequest"),
        (none, String::new(), "InvalidRequest"),
        (
            none,
            "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>".to_owned(),
            "NotImplemented",
        ),
        ("", DAYS.to_owned(), "MalformedXML"),
        ("<Filter/><Prefix/>", DAYS.to_owned(), "MalformedXML"),
    ];
    for (filter, action, expected) in table {
        assert_eq!(with(filter, &action), expected, "{filter} {action}");
    }
    assert_eq!(code(&format!("<Status>enabled</Status><Filter/>{DAYS}")), "MalformedXML");
}

#[test]
fn a_date_is_refused_for_its_own_reason() {
    let words = |date: &str| {
        let rule =
            format!("<Rule><Status>Enabled</Status><Filter/><Expiration><Date>{date}</Date></Expiration></Rule>");
        Failure::of(&rules(read(&rule)).unwrap_err()).message
    };
    assert!(words("9999-12-31T00:00:00Z").contains("2261"));
    assert!(words("2030-01-01T00:00:01Z").contains("midnight"));
}

#[test]
fn conditions_beside_each_other_all_hold() {
    let filter = "<Filter><Prefix>days1/</Prefix><Tag><Key>a</Key><Value>1</Value></Tag><And><Prefix>days1</Prefix><Tag><Key>b</Key><Value>2</Value></Tag></And></Filter>";
    let parsed = rules(read(&format!("<Rule><Status>Enabled</Status>{filter}{DAYS}</Rule>"))).unwrap();
    let filter = parsed[0].filter.clone().unwrap();
    assert_eq!((filter.prefix.as_deref(), filter.tags.len(), filter.and), (Some("days1/"), 2, true));
    let none = "<Filter><Prefix>a</Prefix><And><Prefix>b</Prefix></And></Filter>";
    assert_eq!(with(none, DAYS), "MalformedXML");
    let sizes = "<Filter><And><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>5</ObjectSizeLessThan></And></Filter>";
    assert_eq!(with(sizes, DAYS), "InvalidRequest");
}

#[test]
fn the_header_names_day_and_rule() {
    let at = objstore::clock::Timestamp(1_700_006_400_000_000_000);
    let shown = super::header(&Expiration { at, rule: "a \"rule\"".into() }).unwrap();
    assert_eq!(shown, "expiry-date=\"Wed, 15 Nov 2023 00:00:00 GMT\", rule-id=\"a%20%22rule%22\"");
}
