//! Policy evaluation, case by case.

use std::collections::BTreeMap;

use super::{Facts, Key, Malformed, Policy, Question, Scope, Verdict};

/// Condition keys with their values.
type Values<'a> = &'a [(&'a str, &'a [&'a str])];

/// Facts given by a test.
pub(super) struct Given(BTreeMap<String, Vec<String>>);

impl Given {
    pub(super) fn new(values: Values<'_>) -> Self {
        let one = |(key, values): &(&str, &[&str])| {
            let key = Key::parse(key).expect("a key");
            (id(&key), values.iter().map(|value| (*value).to_owned()).collect())
        };
        Self(values.iter().map(one).collect())
    }
}

fn id(key: &Key) -> String {
    format!("{}{}", key.name(), key.tag().unwrap_or_default())
}

impl Facts for Given {
    fn values(&self, key: &Key) -> Vec<String> {
        self.0.get(&id(key)).cloned().unwrap_or_default()
    }

    fn once(&self, _: usize, decide: &dyn Fn() -> bool) -> bool {
        decide()
    }
}

fn parse(text: &str) -> Result<Policy, Malformed> {
    Policy::parse(text, "abc", &|account| matches!(account, "alice" | "bob"))
}

#[test]
fn a_session_policy_names_any_bucket_and_no_principal() {
    let policy =
        |statement: &str| Policy::session(&format!(r#"{{"Version": "2012-10-17", "Statement": [{statement}]}}"#));
    let allows = |statement: &str, action: &str, resource: &str| {
        let facts = Given::new(&[("aws:userid", &["AROA:x"])]);
        let policy = policy(statement).unwrap_or_else(|why| panic!("{statement}: {}", why.0));
        let question = Question { account: Some("alice"), action, resource, facts: &facts };
        policy.judge(&question) == Verdict::Allowed
    };
    let one = |action: &str, resource: &str| {
        format!(r#"{{"Effect": "Allow", "Action": "{action}", "Resource": "{resource}"}}"#)
    };
    let get = one("s3:GetObject", "arn:aws:s3:::abc/in/*");
    assert!(allows(&get, "s3:GetObject", "abc/in/k"));
    assert!(!allows(&get, "s3:GetObject", "abc/out/k") && !allows(&get, "s3:GetObject", "abcd/in/k"));
    assert!(!allows(&get, "s3:PutObject", "abc/in/k"));
    for everything in [one("*", "*"), one("s3:*", "arn:aws:s3:::*")] {
        assert!(allows(&everything, "s3:GetObject", "any/k") && allows(&everything, "s3:ListAllMyBuckets", "*"));
    }
    assert!(!allows(&one("s3:*", "arn:aws:s3:::abc*"), "s3:ListAllMyBuckets", "*"));
    assert!(!allows(&one("kms:*", "*"), "s3:GetObject", "abc/k"));
    let home = one("s3:GetObject", "arn:aws:s3:::abc/${aws:userid}/*");
    assert!(allows(&home, "s3:GetObject", "abc/AROA:x/k") && !allows(&home, "s3:GetObject", "abc/AROA:y/k"));
    for bad in [
        get.replace("\"Effect\"", "\"Principal\": \"*\", \"Effect\""),
        get.replace("\"Effect\"", "\"NotPrincipal\": \"*\", \"Effect\""),
        one("s3:GetObjects", "*"),
        one("s3*:Nothing*", "*"),
        one("GetObject", "*"),
        one(":", "*"),
        one("s3:GetObject", "abc/*"),
        one("s3:GetObject", "arn:aws:sqs:::abc"),
        get.replace('}', r#", "Condition": {"StringEquals": {"aws:SourceVpc": "v"}}}"#),
    ] {
        assert!(policy(&bad).is_err(), "{bad}");
    }
    assert!(parse(&format!(r#"{{"Statement": [{}]}}"#, one("s3:GetObject", "*"))).is_err(), "only in sessions");
}

/// A statement for everyone and everything, with `more` in it.
fn allow(more: &str) -> String {
    format!(
        r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Principal": "*", "Action": "s3:*",
        "Resource": ["arn:aws:s3:::abc", "arn:aws:s3:::abc/*"]{more}}}]}}"#
    )
}

fn condition(text: &str) -> String {
    allow(&format!(r#", "Condition": {{{text}}}"#))
}

fn holds(text: &str, values: Values<'_>) -> bool {
    let policy = parse(&condition(text)).unwrap_or_else(|why| panic!("{text}: {}", why.0));
    let facts = Given::new(values);
    let question = Question { account: None, action: "s3:GetObject", resource: "abc/k", facts: &facts };
    policy.judge(&question) == Verdict::Allowed
}

#[test]
fn statements_are_about_their_principals_actions_and_resources() {
    let deny = r#"{"Effect": "Deny", "Principal": {"AWS": ["arn:aws:iam:::user/bob"]}, "Action": "s3:Delete*",
                   "Resource": "arn:aws:s3:::abc/kept/*"}"#;
    let others = r#"{"Effect": "Deny", "NotPrincipal": {"AWS": ["alice", "bob"]}, "NotAction": "s3:GetObject",
                     "NotResource": "arn:aws:s3:::abc/drop/*"}"#;
    let bob = r#"{"Effect": "Allow", "Principal": {"AWS": "bob"}, "Action": ["s3:DeleteObject", "s3:ListBucket"],
                  "Resource": ["arn:aws:s3:::abc", "arn:aws:s3:::abc/*"]}"#;
    let all = r#"{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["s3:getobject", "s3:PutObject"],
                  "Resource": "arn:aws:s3:::ab?/*"}"#;
    let policy = parse(&format!(r#"{{"Id": "x", "Statement": [{deny}, {others}, {bob}, {all}]}}"#)).unwrap();
    let table = [
        (Some("bob"), "s3:DeleteObject", "abc/k", Verdict::Allowed),
        (Some("bob"), "s3:DeleteObject", "abc/kept/k", Verdict::Denied),
        (Some("bob"), "s3:DeleteObjectVersion", "abc/kept/k", Verdict::Denied),
        (Some("bob"), "s3:ListBucket", "abc", Verdict::Allowed),
        (Some("bob"), "s3:ListBucketVersions", "abc", Verdict::Silent),
        (Some("alice"), "s3:DeleteObject", "abc/k", Verdict::Silent),
        (Some("alice"), "s3:GetObject", "abc/k", Verdict::Allowed),
        (Some("alice"), "s3:GetObject", "abc", Verdict::Silent),
        (None, "s3:GetObject", "abc/k", Verdict::Allowed),
        (None, "s3:GetObjectVersion", "abc/k", Verdict::Denied),
        (None, "s3:PutObject", "abc/k", Verdict::Denied),
        (None, "s3:PutObject", "abc/drop/k", Verdict::Allowed),
        (Some("carol"), "s3:PutObject", "abc/k", Verdict::Denied),
    ];
    for (account, action, resource, expected) in table {
        let question = Question { account, action, resource, facts: &Given::new(&[]) };
        assert_eq!(policy.judge(&question), expected, "{account:?} {action} {resource}");
    }
}

#[test]
fn conditions_compare_as_their_operators_say() {
    let table: &[(&str, Values<'_>, bool)] = &[
        // Texts.
        (r#""StringEquals": {"aws:Referer": "a"}"#, &[("aws:Referer", &["a"])], true),
        (r#""StringEquals": {"aws:Referer": "a"}"#, &[("aws:Referer", &["A"])], false),
        (r#""StringEquals": {"aws:Referer": ["b", "a"]}"#, &[("aws:Referer", &["a"])], true),
        (r#""StringEquals": {"aws:Referer": "a*"}"#, &[("aws:Referer", &["ab"])], false),
        (r#""StringEquals": {"aws:Referer": "a"}"#, &[], false),
        (r#""StringEqualsIfExists": {"aws:Referer": "a"}"#, &[], true),
        (r#""StringEqualsIfExists": {"aws:Referer": "a"}"#, &[("aws:Referer", &["b"])], false),
        (r#""StringNotEquals": {"aws:Referer": ["a", "b"]}"#, &[("aws:Referer", &["b"])], false),
        (r#""StringNotEquals": {"aws:Referer": ["a", "b"]}"#, &[("aws:Referer", &["c"])], true),
        (r#""StringNotEquals": {"aws:Referer": "a"}"#, &[], true),
        (r#""StringEqualsIgnoreCase": {"aws:Referer": "ÄB"}"#, &[("aws:Referer", &["äb"])], true),
        (r#""StringNotEqualsIgnoreCase": {"aws:Referer": "AB"}"#, &[("aws:Referer", &["ab"])], false),
        (r#""StringLike": {"aws:Referer": "http://*.org/?"}"#, &[("aws:Referer", &["http://x.org/a"])], true),
        (r#""StringNotLike": {"aws:Referer": "http://*"}"#, &[("aws:Referer", &["http://x"])], false),
        (r#""StringLike": {"aws:Referer": "${aws:username}-*"}"#, &[("aws:Referer", &["bob-1"])], false),
        (
            r#""StringLike": {"aws:Referer": "${aws:username}-*"}"#,
            &[("aws:Referer", &["bob-1"]), ("aws:username", &["bob"])],
            true,
        ),
        // Numbers.
        (r#""NumericEquals": {"s3:max-keys": 10}"#, &[("s3:max-keys", &["10.0"])], true),
        (r#""NumericNotEquals": {"s3:max-keys": "10"}"#, &[("s3:max-keys", &["10"])], false),
        (r#""NumericLessThan": {"s3:max-keys": "10"}"#, &[("s3:max-keys", &["10"])], false),
        (r#""NumericLessThanEquals": {"s3:max-keys": "10"}"#, &[("s3:max-keys", &["10"])], true),
        (r#""NumericGreaterThan": {"s3:max-keys": "10"}"#, &[("s3:max-keys", &["9"])], false),
        (r#""NumericGreaterThanEquals": {"s3:max-keys": "10"}"#, &[("s3:max-keys", &["11"])], true),
        (r#""NumericGreaterThan": {"s3:max-keys": "10"}"#, &[("s3:max-keys", &["many"])], false),
        // Dates.
        (
            r#""DateLessThan": {"aws:CurrentTime": "2030-01-01T00:00:00Z"}"#,
            &[("aws:CurrentTime", &["2029-12-31T23:59:59Z"])],
            true,
        ),
        (
            r#""DateGreaterThan": {"aws:CurrentTime": "2030-01-01"}"#,
            &[("aws:CurrentTime", &["2029-12-31T23:59:59Z"])],
            false,
        ),
        (
            r#""DateEquals": {"aws:CurrentTime": "2030-01-01T01:00:00+01:00"}"#,
            &[("aws:CurrentTime", &["2030-01-01T00:00:00Z"])],
            true,
        ),
        (r#""DateLessThanEquals": {"aws:EpochTime": "86400"}"#, &[("aws:EpochTime", &["86400"])], true),
        (r#""DateGreaterThanEquals": {"aws:EpochTime": 86401}"#, &[("aws:EpochTime", &["86400"])], false),
        (r#""DateNotEquals": {"aws:EpochTime": "1970-01-02"}"#, &[("aws:EpochTime", &["86400"])], false),
        // Booleans and bytes.
        (r#""Bool": {"aws:SecureTransport": false}"#, &[("aws:SecureTransport", &["false"])], true),
        (r#""Bool": {"aws:SecureTransport": "true"}"#, &[("aws:SecureTransport", &["false"])], false),
        (r#""Bool": {"aws:SecureTransport": "true"}"#, &[], false),
        (r#""BoolIfExists": {"aws:SecureTransport": "true"}"#, &[], true),
        (r#""BinaryEquals": {"s3:x-amz-content-sha256": "AQI="}"#, &[("s3:x-amz-content-sha256", &["AQI="])], true),
        (r#""BinaryEquals": {"s3:x-amz-content-sha256": "AQI="}"#, &[("s3:x-amz-content-sha256", &["AQM="])], false),
        // Addresses.
        (r#""IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "::1"]}"#, &[("aws:SourceIp", &["10.1.2.3"])], true),
        (r#""IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "::1"]}"#, &[("aws:SourceIp", &["::1"])], true),
        (r#""IpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#, &[("aws:SourceIp", &["11.1.2.3"])], false),
        (r#""NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#, &[("aws:SourceIp", &["10.1.2.3"])], false),
        (r#""NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#, &[("aws:SourceIp", &["11.1.2.3"])], true),
        // ARNs.
        (
            r#""ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/b*"}"#,
            &[("aws:PrincipalArn", &["arn:aws:iam::bob:user/bob"])],
            true,
        ),
        (
            r#""ArnLike": {"aws:PrincipalArn": "arn:*:user/bob"}"#,
            &[("aws:PrincipalArn", &["arn:aws:iam::bob:user/bob"])],
            false,
        ),
        (
            r#""ArnEquals": {"aws:PrincipalArn": "arn:aws:iam::bob:*"}"#,
            &[("aws:PrincipalArn", &["arn:aws:iam::bob:user/bob"])],
            true,
        ),
        (
            r#""ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::bob:user/bob"}"#,
            &[("aws:PrincipalArn", &["arn:aws:iam::bob:user/bob"])],
            false,
        ),
        (r#""ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::bob:user/bob"}"#, &[], true),
        // Whether the key is there.
        (r#""Null": {"aws:Referer": "true"}"#, &[], true),
        (r#""Null": {"aws:Referer": "true"}"#, &[("aws:Referer", &["a"])], false),
        (r#""Null": {"aws:Referer": false}"#, &[("aws:Referer", &["a"])], true),
        // Many values.
        (
            r#""ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}"#,
            &[("s3:RequestObjectTagKeys", &["a", "b"])],
            true,
        ),
        (
            r#""ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}"#,
            &[("s3:RequestObjectTagKeys", &["a", "c"])],
            false,
        ),
        (r#""ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}"#, &[], true),
        (
            r#""ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}"#,
            &[("s3:RequestObjectTagKeys", &["b", "c"])],
            true,
        ),
        (r#""ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}"#, &[], false),
        (
            r#""ForAllValues:StringNotLike": {"s3:RequestObjectTagKeys": "x*"}"#,
            &[("s3:RequestObjectTagKeys", &["a", "xb"])],
            false,
        ),
        (
            r#""ForAnyValue:StringNotEquals": {"s3:RequestObjectTagKeys": "a"}"#,
            &[("s3:RequestObjectTagKeys", &["a", "b"])],
            true,
        ),
        // Tags, and several at once.
        (r#""StringEquals": {"s3:ExistingObjectTag/Team": "red"}"#, &[("s3:ExistingObjectTag/Team", &["red"])], true),
        (r#""StringEquals": {"s3:ExistingObjectTag/Team": "red"}"#, &[("s3:ExistingObjectTag/team", &["red"])], false),
        (
            r#""StringEquals": {"aws:Referer": "a", "s3:prefix": "p"}, "Bool": {"aws:SecureTransport": true}"#,
            &[("aws:Referer", &["a"]), ("s3:prefix", &["p"]), ("aws:SecureTransport", &["true"])],
            true,
        ),
        (
            r#""StringEquals": {"aws:Referer": "a", "s3:prefix": "p"}, "Bool": {"aws:SecureTransport": true}"#,
            &[("aws:Referer", &["a"]), ("s3:prefix", &["q"]), ("aws:SecureTransport", &["true"])],
            false,
        ),
    ];
    for (text, values, expected) in table {
        assert_eq!(holds(text, values), *expected, "{text} on {values:?}");
    }
}

#[test]
fn variables_name_the_caller_in_policies_of_2012_only() {
    let home = |version: &str| {
        let text = allow("").replace("abc/*", "abc/home/${aws:username}/*").replace("2012-10-17", version);
        parse(&text).unwrap()
    };
    let facts = Given::new(&[("aws:username", &["bob"])]);
    let asked = |policy: &Policy, resource| {
        policy.judge(&Question { account: Some("bob"), action: "s3:GetObject", resource, facts: &facts })
    };
    assert_eq!(asked(&home("2012-10-17"), "abc/home/bob/k"), Verdict::Allowed);
    assert_eq!(asked(&home("2012-10-17"), "abc/home/alice/k"), Verdict::Silent);
    assert_eq!(asked(&home("2008-10-17"), "abc/home/bob/k"), Verdict::Silent);
    assert_eq!(asked(&home("2008-10-17"), "abc/home/${aws:username}/k"), Verdict::Allowed);
}

#[test]
fn what_is_not_understood_is_refused() {
    let with = |from: &str, to: &str| allow("").replace(from, to);
    let table = [
        (String::new(), "first byte"),
        (" {}".into(), "first byte"),
        ("{".into(), "valid JSON"),
        ("{}".into(), "Statement"),
        (r#"{"Statement": []}"#.into(), "Statement"),
        (r#"{"Statement": ["x"]}"#.into(), "object"),
        (r#"{"Statement": {"Effect": "Allow", "Effect": "Deny"}}"#.into(), "given twice"),
        (with("2012-10-17", "2013-01-01"), "version"),
        (with("\"Version\"", "\"Verson\""), "Unknown field Verson"),
        (with("\"Allow\"", "\"allow\""), "Invalid effect"),
        (with("\"Effect\": \"Allow\",", ""), "Effect"),
        (with("\"Principal\": \"*\",", ""), "Principal"),
        (with("\"Principal\": \"*\"", "\"Principal\": \"bob\""), "principal"),
        (with("\"Principal\": \"*\"", "\"Principal\": {}"), "principal"),
        (with("\"Principal\": \"*\"", "\"Principal\": {\"AWS\": []}"), "Principal"),
        (with("\"Principal\": \"*\"", "\"Principal\": {\"AWS\": \"carol\"}"), "\"carol\""),
        (with("\"Principal\": \"*\"", "\"Principal\": {\"Service\": \"x\"}"), "\"Service\""),
        (with("\"Principal\": \"*\"", "\"NotPrincipal\": {\"AWS\": \"bob\"}"), "NotPrincipal"),
        (with("\"Principal\": \"*\"", "\"Principal\": \"*\", \"NotPrincipal\": \"*\""), "exclude"),
        (with("\"Action\": \"s3:*\",", ""), "Action"),
        (with("s3:*", "s3:GetObjekt"), "invalid action"),
        (with("s3:*", "s3:ListAllMyBuckets"), "does not apply"),
        (with("\"arn:aws:s3:::abc\", ", "").replace("s3:*", "s3:ListBucket"), "does not apply"),
        (with(", \"arn:aws:s3:::abc/*\"", "").replace("s3:*", "s3:GetObject"), "does not apply"),
        (with("arn:aws:s3:::abc/*", "arn:aws:s3:::abd/*"), "invalid resource"),
        (with("arn:aws:s3:::abc/*", "abc/*"), "invalid resource"),
        (with("arn:aws:s3:::abc/*", "*"), "invalid resource"),
        (with("abc/*", "abc/${x}"), "policy variable"),
        (allow(r#", "Sid": 1"#).replace("\"Sid\": 1", "\"Sid\": []"), "Sid"),
        (allow(r#", "Notes": "x""#), "Unknown field Notes"),
        (allow(r#", "Condition": []"#), "Condition"),
        (condition(r#""StringIs": {"aws:Referer": "a"}"#), "\"StringIs\""),
        (condition(r#""ForSome:StringEquals": {"aws:Referer": "a"}"#), "operator"),
        (condition(r#""NullIfExists": {"aws:Referer": "true"}"#), "operator"),
        (condition(r#""StringEquals": "a""#), "keys"),
        (condition(r#""StringEquals": {"aws:Refferer": "a"}"#), "invalid condition key"),
        (condition(r#""StringEquals": {"aws:SourceVpc": "a"}"#), "\"aws:sourcevpc\" never has a value"),
        (condition(r#""StringEquals": {"s3:x-amz-nothing": "a"}"#), "invalid condition key"),
        (condition(r#""StringEquals": {"aws:Referer": {}}"#), "aws:Referer"),
        (condition(r#""NumericEquals": {"s3:max-keys": "many"}"#), "number"),
        (condition(r#""DateEquals": {"aws:CurrentTime": "tomorrow"}"#), "date"),
        (condition(r#""Bool": {"aws:SecureTransport": "yes"}"#), "true or false"),
        (condition(r#""IpAddress": {"aws:SourceIp": "10.0.0.0/40"}"#), "range"),
        (condition(r#""BinaryEquals": {"aws:Referer": "*"}"#), "base64"),
        (allow(&" ".repeat(20 * 1024)), "at most"),
    ];
    for (text, words) in table {
        let why = parse(&text).map(|_| "taken".to_owned()).unwrap_or_else(|why| why.0);
        assert!(why.contains(words), "{text}: {why}");
    }
}

#[test]
fn public_is_what_is_not_held_to_fixed_callers_or_ranges() {
    let eighths: Vec<String> = (0..256).map(|n| format!("\"{n}.0.0.0/8\"")).collect();
    let table = [
        (allow(""), true),
        (allow("").replace("\"*\"", "{\"AWS\": \"*\"}"), true),
        (allow("").replace("\"*\"", "{\"AWS\": [\"bob\", \"*\"]}"), true),
        (allow("").replace("\"*\"", "{\"CanonicalUser\": \"*\"}"), true),
        (allow("").replace("\"*\"", "{\"AWS\": \"bob\"}"), false),
        (allow("").replace("Allow", "Deny"), false),
        // Ranges, alone and together.
        (condition(r#""IpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#), false),
        (condition(r#""ForAnyValue:IpAddress": {"aws:SourceIp": ["203.0.113.0/24", "2001:db8::/32"]}"#), false),
        (condition(r#""IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "0.0.0.0/1"]}"#), true),
        (condition(&format!(r#""IpAddress": {{"aws:SourceIp": [{}]}}"#, eighths.join(", "))), true),
        (condition(r#""IpAddress": {"aws:SourceIp": ["::/1", "8000::/1"]}"#), true),
        (condition(r#""IpAddress": {"aws:SourceIp": ["::ffff:0.0.0.0/97", "::ffff:128.0.0.0/97"]}"#), true),
        (condition(r#""IpAddressIfExists": {"aws:SourceIp": "10.0.0.0/8"}"#), true),
        (condition(r#""ForAllValues:IpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#), true),
        (condition(r#""NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#), true),
        (condition(r#""StringLike": {"aws:SourceIp": "*"}"#), true),
        (condition(r#""StringEquals": {"aws:SourceIp": "203.0.113.7"}"#), true),
        // Callers.
        (condition(r#""StringEquals": {"aws:PrincipalAccount": "bob"}"#), false),
        (condition(r#""StringEquals": {"aws:PrincipalAccount": ["bob", "alice"]}"#), false),
        (condition(r#""StringLike": {"aws:PrincipalAccount": "b*"}"#), true),
        (condition(r#""StringLike": {"aws:PrincipalAccount": ["bob", "*"]}"#), true),
        (condition(r#""StringNotEquals": {"aws:PrincipalAccount": "bob"}"#), true),
        (condition(r#""StringEqualsIfExists": {"aws:PrincipalAccount": "bob"}"#), true),
        (condition(r#""ForAllValues:StringEquals": {"aws:PrincipalAccount": "bob"}"#), true),
        (condition(r#""ArnLike": {"aws:PrincipalArn": "arn:aws:iam::bob:user/bob"}"#), false),
        (condition(r#""ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/bob"}"#), true),
        (condition(r#""ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::bob:user/bob"}"#), true),
        (condition(r#""StringEquals": {"aws:userid": "bob"}"#), false),
        (condition(r#""StringEquals": {"aws:userid": "${aws:username}"}"#), true),
        (condition(r#""StringEquals": {"aws:userid": "${aws:username, 'anonymous'}"}"#), true),
        // The anonymous user id is everyone's.
        (condition(r#""StringEquals": {"aws:userid": "anonymous"}"#), true),
        (condition(r#""StringEquals": {"aws:userid": ["bob", "anonymous"]}"#), true),
        (condition(r#""StringEqualsIgnoreCase": {"aws:userid": "ANONYMOUS"}"#), true),
        (condition(r#""ForAnyValue:StringLike": {"aws:userid": "anonymous"}"#), true),
        (condition(r#""StringEquals": {"aws:PrincipalType": "Anonymous"}"#), true),
        (condition(r#""Null": {"aws:userid": "false"}"#), true),
        (condition(r#""Null": {"aws:PrincipalAccount": "true"}"#), true),
        // Conditions that any request can meet.
        (condition(r#""StringEquals": {"aws:username": "bob"}"#), true),
        (condition(r#""StringEquals": {"aws:Referer": "http://x"}"#), true),
        (condition(r#""StringEquals": {"s3:x-amz-server-side-encryption-aws-kms-key-id": "k"}"#), true),
        (condition(r#""Bool": {"aws:SecureTransport": "true"}"#), true),
        (condition(r#""DateGreaterThan": {"aws:CurrentTime": "2000-01-01"}"#), true),
        (condition(r#""NumericLessThan": {"s3:signatureAge": "1e300"}"#), true),
        (condition(r#""StringEquals": {"aws:ResourceAccount": "root"}"#), true),
    ];
    for (text, expected) in table {
        assert_eq!(parse(&text).unwrap().is_public(), expected, "{text}");
    }
}

#[test]
fn statements_are_public_together() {
    let together = |conditions: &[&str]| {
        let one = |condition: &&str| {
            format!(
                r#"{{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::abc/*",
                "Condition": {{{condition}}}}}"#
            )
        };
        let statements: Vec<String> = conditions.iter().map(one).collect();
        parse(&format!(r#"{{"Statement": [{}]}}"#, statements.join(", "))).unwrap().is_public()
    };
    let halves: Vec<String> = [0, 128]
        .map(|first| {
            let ranges: Vec<String> = (first..first + 128).map(|n| format!("\"{n}.0.0.0/8\"")).collect();
            format!(r#""IpAddress": {{"aws:SourceIp": [{}]}}"#, ranges.join(", "))
        })
        .into();
    assert!(together(&[&halves[0], &halves[1]]));
    let own = r#""IpAddress": {"aws:SourceIp": "9.0.0.0/8"}"#;
    let other = r#""IpAddress": {"aws:SourceIp": "11.0.0.0/8"}"#;
    let bob = r#""StringEquals": {"aws:userid": "bob"}"#;
    assert!(!together(&[own, own, bob]) && together(&[own, other]), "two of the widest ranges are more than one");
    let both = r#""IpAddress": {"aws:SourceIp": "0.0.0.0/0"}, "ForAnyValue:IpAddress": {"aws:SourceIp": "9.9.9.9"}"#;
    assert!(!together(&[both]) && !together(&[&format!("{}, {bob}", halves[0])]), "all conditions have to hold");
}

#[test]
fn a_key_that_never_has_a_value_is_refused_by_its_name() {
    for key in [
        "aws:SourceVpce",
        "aws:PrincipalOrgID",
        "aws:ResourceTag/team",
        "aws:PrincipalTag/team",
        "aws:MultiFactorAuthPresent",
        "aws:SourceArn",
        "s3:DataAccessPointArn",
        "s3:BucketTag/team",
    ] {
        for text in [
            condition(&format!(r#""StringEquals": {{"{key}": "x"}}"#)),
            condition(&format!(r#""StringNotEqualsIfExists": {{"{key}": "x"}}"#)).replace("Allow", "Deny"),
            condition(&format!(r#""Null": {{"{key}": "true"}}"#)).replace("Allow", "Deny"),
            condition(&format!(r#""StringEquals": {{"aws:Referer": "${{{key}}}"}}"#)),
            allow("").replace("abc/*", &format!("abc/${{{key}}}/*")),
        ] {
            let why = parse(&text).map(|_| ()).unwrap_err().0;
            assert!(why.contains(&key.to_ascii_lowercase()) && why.contains("never has a value"), "{text}: {why}");
        }
    }
}

#[test]
fn a_stored_policy_with_a_key_without_values_denies_and_does_not_allow() {
    let stored = |text: &str| {
        let policy = Policy::stored(text, "abc").unwrap();
        let facts = Given::new(&[("aws:Referer", &["a"])]);
        let asked = |resource| Question { account: Some("bob"), action: "s3:GetObject", resource, facts: &facts };
        assert!(!policy.without_values().is_empty(), "{text}");
        (policy.judge(&asked("abc/k")), policy.is_public())
    };
    let vpc = r#""StringEquals": {"aws:SourceVpc": "v"}"#;
    let deny = |text: String| text.replace("Allow", "Deny");
    assert_eq!(stored(&condition(vpc)), (Verdict::Silent, false));
    assert_eq!(stored(&condition(r#""StringNotEquals": {"aws:SourceVpc": "v"}"#)), (Verdict::Silent, false));
    assert_eq!(stored(&deny(condition(vpc))), (Verdict::Denied, false));
    assert_eq!(stored(&deny(condition(r#""Null": {"aws:SourceVpc": "false"}"#))), (Verdict::Denied, false));
    // The other conditions still have to hold.
    let other = |referer: &str| deny(condition(&format!(r#"{vpc}, "StringLike": {{"aws:Referer": "{referer}"}}"#)));
    assert_eq!(stored(&other("a")), (Verdict::Denied, false));
    assert_eq!(stored(&other("b")), (Verdict::Silent, false));
    // A variable may be anything.
    let variable = r#""Resource": ["arn:aws:s3:::abc", "arn:aws:s3:::abc/${aws:PrincipalTag/team}/*"]"#;
    let resource = r#""Resource": ["arn:aws:s3:::abc", "arn:aws:s3:::abc/*"]"#;
    assert_eq!(stored(&deny(allow("").replace(resource, variable))), (Verdict::Denied, false));
    let but = variable.replace("Resource", "NotResource");
    assert_eq!(stored(&deny(allow("").replace(resource, &but))), (Verdict::Denied, false));
    assert_eq!(stored(&allow("").replace(resource, &but)), (Verdict::Silent, false));
}

#[test]
fn a_policy_tells_what_it_wants_to_know() {
    let tags = |key: &Key| key.name() == "s3:existingobjecttag/";
    assert!(!parse(&allow("")).unwrap().mentions(tags));
    assert!(parse(&condition(r#""Null": {"s3:ExistingObjectTag/a": "true"}"#)).unwrap().mentions(tags));
    assert!(parse(&allow("").replace("abc/*", "abc/${s3:ExistingObjectTag/a}/*")).unwrap().mentions(tags));
}

#[test]
fn what_a_body_could_still_tell_leaves_it_open() {
    let could = |text: &str, scope: Scope| {
        let policy = parse(&condition(text)).unwrap_or_else(|why| panic!("{text}: {}", why.0));
        let facts = Given::new(&[("aws:SourceIp", &["10.0.0.1"])]);
        let question = Question { account: None, action: "s3:PutObjectTagging", resource: "abc/k", facts: &facts };
        policy.could_allow(&question, scope)
    };
    for scope in [Scope::Resource, Scope::SomeKey] {
        assert!(could(r#""StringEquals": {"s3:RequestObjectTag/a": "b"}"#, scope));
        assert!(could(r#""StringEquals": {"s3:ExistingObjectTag/a": "b"}"#, scope));
        assert!(could(r#""Null": {"s3:object-lock-mode": "false"}"#, scope));
        assert!(could(r#""IpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#, scope));
        assert!(!could(r#""IpAddress": {"aws:SourceIp": "192.0.2.0/24"}"#, scope));
        assert!(!could(r#""Bool": {"aws:SecureTransport": "true"}"#, scope));
    }
    let policy = parse(&allow("").replace("abc/*", "abc/a/*")).unwrap();
    let facts = Given::new(&[]);
    let question = Question { account: None, action: "s3:PutObjectTagging", resource: "abc/k", facts: &facts };
    assert!(!policy.could_allow(&question, Scope::Resource) && policy.could_allow(&question, Scope::SomeKey));
    assert!(!parse(&allow("").replace("Allow", "Deny")).unwrap().could_allow(&question, Scope::SomeKey));
}
