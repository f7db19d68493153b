//! Policies, public access, ownership and ACLs, tested with requests of owners, other accounts and anonymous callers.

use objstore::store::Mode;

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{Key, Signed};

/// A statement about the bucket of the tests.
fn statement(effect: &str, principal: &str, action: &str, resource: &str, more: &str) -> String {
    format!(
        r#"{{"Effect": "{effect}", "Principal": {principal}, "Action": {action},
        "Resource": "arn:aws:s3:::{resource}"{more}}}"#
    )
}

fn policy(statements: &[String]) -> String {
    format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", "))
}

fn put_policy(endpoint: &Endpoint, text: &str) -> String {
    endpoint.send("PUT", "/wire", "policy=", &[], text.as_bytes()).code()
}

fn unsigned(endpoint: &Endpoint, method: &str, path: &str, query: &str, body: &[u8]) -> Answer {
    endpoint.send_signed(method, path, query, &Signed::bare(&[("host", "localhost")]), body)
}

fn put(endpoint: &Endpoint, keys: &[&str]) {
    for key in keys {
        assert_eq!(endpoint.send("PUT", &format!("/wire/{key}"), "", &[], b"1").code(), "OK");
    }
}

/// The error code of a request of `key`, or `OK`.
fn ask(endpoint: &Endpoint, key: &Key, method: &str, path: &str, query: &str) -> String {
    endpoint.send_as(key, method, path, query, &[], b"").code()
}

#[test]
fn a_policy_lets_others_in_and_keeps_grants_out() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["pub/a", "b"]);
    let (bob, carol) = (endpoint.account("bob", None), endpoint.account("carol", Some(Mode::ReadWrite)));
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/pub/a", ""), "AccessDenied");
    let bobs = r#"{"AWS": "arn:aws:iam::bob:root"}"#;
    let text = policy(&[
        statement("Allow", bobs, r#""s3:GetObject""#, "wire/pub/*", ""),
        statement("Deny", r#""*""#, r#"["s3:DeleteObject", "s3:*BucketPolicy"]"#, "wire*", ""),
    ]);
    assert_eq!(put_policy(&endpoint, &text), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/pub/a", ""), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/b", ""), "AccessDenied");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire", "list-type=2"), "AccessDenied");
    assert_eq!(ask(&endpoint, &bob, "PUT", "/wire/pub/a", ""), "AccessDenied");
    assert_eq!(ask(&endpoint, &carol, "GET", "/wire/b", ""), "OK");
    assert_eq!(ask(&endpoint, &carol, "DELETE", "/wire/b", ""), "AccessDenied");
    assert_eq!(ask(&endpoint, &endpoint.root, "DELETE", "/wire/b", ""), "AccessDenied");

    let kept = endpoint.send("GET", "/wire", "policy=", &[], b"");
    assert_eq!(String::from_utf8(kept.body).unwrap(), text);
    assert_eq!(ask(&endpoint, &carol, "DELETE", "/wire", "policy="), "AccessDenied");
    assert_eq!(ask(&endpoint, &endpoint.root, "DELETE", "/wire", "policy="), "OK");
    assert_eq!(ask(&endpoint, &endpoint.root, "GET", "/wire", "policy="), "NoSuchBucketPolicy");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/pub/a", ""), "AccessDenied");
    assert_eq!(ask(&endpoint, &carol, "DELETE", "/wire/b", ""), "OK");
}

/// `check --repair` replaces unreadable settings by an invalid policy.
#[test]
fn a_policy_that_is_none_lets_in_nobody_until_the_owner_puts_another() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let carol = endpoint.account("carol", Some(Mode::ReadWrite));
    let bucket = "wire".parse().unwrap();
    let none = endpoint.store.change_settings(&bucket, |settings| {
        settings.policy = Some("the settings of this bucket could not be read".into());
        Ok(())
    });
    endpoint.block_on(none).unwrap();
    for key in [&carol, &endpoint.root] {
        for (method, path, query) in
            [("GET", "/wire/a", ""), ("PUT", "/wire/b", ""), ("DELETE", "/wire/a", ""), ("GET", "/wire", "list-type=2")]
        {
            assert_eq!(ask(&endpoint, key, method, path, query), "AccessDenied", "{method} {path}");
        }
    }
    assert_eq!(unsigned(&endpoint, "GET", "/wire/a", "", b"").code(), "AccessDenied");
    assert_eq!(ask(&endpoint, &carol, "DELETE", "/wire", "policy="), "AccessDenied");
    assert_eq!(ask(&endpoint, &endpoint.root, "DELETE", "/wire", "policy="), "OK");
    assert_eq!(ask(&endpoint, &carol, "GET", "/wire/a", ""), "OK");
}

#[test]
fn nobody_anonymous_gets_in_until_the_owner_opens_the_bucket() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let bob = endpoint.account("bob", None);
    let public = policy(&[statement("Allow", r#""*""#, r#""s3:GetObject""#, "wire/*", "")]);
    assert_eq!(unsigned(&endpoint, "GET", "/wire/a", "", b"").code(), "AccessDenied");
    assert_eq!(unsigned(&endpoint, "GET", "/no-such-bucket/a", "", b"").code(), "NoSuchBucket");
    assert_eq!(unsigned(&endpoint, "GET", "/", "", b"").code(), "AccessDenied");
    assert_eq!(unsigned(&endpoint, "PUT", "/mine", "", b"").code(), "AccessDenied");

    // A new bucket blocks public access.
    let block = endpoint.send("GET", "/wire", "publicAccessBlock=", &[], b"");
    assert_eq!(String::from_utf8(block.body).unwrap().matches(">true<").count(), 4);
    assert_eq!(put_policy(&endpoint, &public), "AccessDenied");
    assert_eq!(ask(&endpoint, &endpoint.root, "DELETE", "/wire", "publicAccessBlock="), "OK");
    assert_eq!(
        ask(&endpoint, &endpoint.root, "GET", "/wire", "publicAccessBlock="),
        "NoSuchPublicAccessBlockConfiguration"
    );
    assert_eq!(put_policy(&endpoint, &public), "OK");
    assert_eq!(unsigned(&endpoint, "GET", "/wire/a", "", b"").code(), "OK");
    assert_eq!(unsigned(&endpoint, "PUT", "/wire/a", "", b"2").code(), "AccessDenied");
    assert_eq!(unsigned(&endpoint, "GET", "/wire", "", b"").code(), "AccessDenied");
    let status = endpoint.send("GET", "/wire", "policyStatus=", &[], b"");
    assert!(String::from_utf8(status.body).unwrap().contains("<IsPublic>true</IsPublic>"));

    let restrict = "<PublicAccessBlockConfiguration><RestrictPublicBuckets>true</RestrictPublicBuckets>\
                    </PublicAccessBlockConfiguration>";
    let restricted = endpoint.send("PUT", "/wire", "publicAccessBlock=", &[], restrict.as_bytes());
    assert_eq!(restricted.code(), "OK");
    assert_eq!(unsigned(&endpoint, "GET", "/wire/a", "", b"").code(), "AccessDenied");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/a", ""), "AccessDenied");
    assert_eq!(ask(&endpoint, &endpoint.root, "GET", "/wire/a", ""), "OK");
}

#[test]
fn an_anonymous_writer_can_upload_in_parts() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    let text =
        policy(&[statement("Allow", r#""*""#, r#"["s3:PutObject", "s3:ListMultipartUploadParts"]"#, "wire/*", "")]);
    assert_eq!(put_policy(&endpoint, &text), "OK");
    let begun = unsigned(&endpoint, "POST", "/wire/k", "uploads=", b"");
    let xml = String::from_utf8(begun.body).unwrap();
    let id = xml.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
    let part = unsigned(&endpoint, "PUT", "/wire/k", &format!("partNumber=1&uploadId={id}"), b"content");
    assert_eq!(part.code(), "OK");
    assert_eq!(unsigned(&endpoint, "GET", "/wire/k", &format!("uploadId={id}"), b"").code(), "OK");
    assert_eq!(unsigned(&endpoint, "DELETE", "/wire/k", &format!("uploadId={id}"), b"").code(), "AccessDenied");
}

#[test]
fn what_is_absent_is_for_those_who_may_list() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["open/a", "shut/a"]);
    let bob = endpoint.account("bob", None);
    let list = r#", "Condition": {"StringLike": {"s3:prefix": "open/*"}}"#;
    let bobs = r#"{"AWS": "bob"}"#;
    let text = policy(&[
        statement("Allow", bobs, r#""s3:ListBucket""#, "wire", list),
        statement("Allow", bobs, r#""s3:GetObject""#, "wire/*/*", ""),
    ]);
    assert_eq!(put_policy(&endpoint, &text), "OK");
    let status = |path: &str| endpoint.send_as(&bob, "HEAD", path, "", &[], b"").status;
    assert_eq!(["/wire/open/a", "/wire/open/b", "/wire/shut/a", "/wire/shut/b"].map(status), [200, 404, 200, 403]);
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/open/b", ""), "NoSuchKey");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/shut/b", ""), "AccessDenied");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire", "prefix=open%2Fa"), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire", "prefix=shut%2Fa"), "AccessDenied");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire", ""), "AccessDenied");
}

#[test]
fn each_of_many_keys_is_decided_on_its_own() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["drop/a", "keep/a"]);
    let bob = endpoint.account("bob", None);
    let text = policy(&[statement("Allow", r#"{"AWS": "bob"}"#, r#""s3:DeleteObject""#, "wire/drop/*", "")]);
    assert_eq!(put_policy(&endpoint, &text), "OK");
    let keys = "<Delete><Object><Key>drop/a</Key></Object><Object><Key>keep/a</Key></Object></Delete>";
    let answer = endpoint.send_as(&bob, "POST", "/wire", "delete=", &[], keys.as_bytes());
    let xml = String::from_utf8(answer.body).unwrap();
    assert!(xml.contains("<Deleted><Key>drop/a</Key>"), "{xml}");
    assert!(xml.contains("<Code>AccessDenied</Code><Key>keep/a</Key>"), "{xml}");
    assert_eq!(ask(&endpoint, &endpoint.root, "GET", "/wire/drop/a", ""), "NoSuchKey");
    assert_eq!(ask(&endpoint, &endpoint.root, "GET", "/wire/keep/a", ""), "OK");
}

#[test]
fn a_copy_reads_its_source_and_tags_are_rights_of_their_own() {
    let endpoint = Endpoint::start();
    let tagged = [("x-amz-tagging", "team=red")];
    assert_eq!(endpoint.send("PUT", "/wire/red", "", &tagged, b"1").code(), "OK");
    put(&endpoint, &["plain"]);
    let bob = endpoint.account("bob", None);
    let bobs = r#"{"AWS": "bob"}"#;
    let red = r#", "Condition": {"StringEquals": {"s3:ExistingObjectTag/team": "red"}}"#;
    let text = policy(&[
        statement("Allow", bobs, r#""s3:PutObject""#, "wire/to/*", ""),
        statement("Allow", bobs, r#""s3:GetObject""#, "wire/plain", ""),
        statement("Allow", bobs, r#""s3:GetObject""#, "wire/*", red),
    ]);
    assert_eq!(put_policy(&endpoint, &text), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/red", ""), "OK");
    let copy = |source: &str, more: &[(&str, &str)]| {
        let headers = [&[("x-amz-copy-source", source)], more].concat();
        endpoint.send_as(&bob, "PUT", "/wire/to/k", "", &headers, b"").code()
    };
    assert_eq!(copy("/wire/plain", &[]), "OK");
    assert_eq!(copy("/wire/other", &[]), "AccessDenied");
    assert_eq!(copy("/wire/red", &[]), "AccessDenied", "its tags would be copied");
    assert_eq!(copy("/wire/red", &[("x-amz-tagging-directive", "REPLACE")]), "OK");
    let put = |headers: &[(&str, &str)]| endpoint.send_as(&bob, "PUT", "/wire/to/t", "", headers, b"1").code();
    assert_eq!(put(&[]), "OK");
    assert_eq!(put(&tagged), "AccessDenied");
}

#[test]
fn tags_in_a_body_are_known_to_conditions() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let bob = endpoint.account("bob", None);
    let only = r#", "Condition": {"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#;
    let text = policy(&[statement("Allow", r#"{"AWS": "bob"}"#, r#""s3:PutObjectTagging""#, "wire/*", only)]);
    assert_eq!(put_policy(&endpoint, &text), "OK");
    let tag = |name: &str| {
        let xml = format!("<Tagging><TagSet><Tag><Key>{name}</Key><Value>x</Value></Tag></TagSet></Tagging>");
        endpoint.send_as(&bob, "PUT", "/wire/a", "tagging=", &[], xml.as_bytes()).code()
    };
    assert_eq!(tag("team"), "OK");
    assert_eq!(tag("boss"), "AccessDenied");
}

#[test]
fn a_policy_that_is_none_changes_nothing() {
    let endpoint = Endpoint::start();
    let good = policy(&[statement("Deny", r#""*""#, r#""s3:DeleteObject""#, "wire/*", "")]);
    assert_eq!(put_policy(&endpoint, &good), "OK");
    for text in [
        "{}".to_owned(),
        good.replace("wire/*", "other/*"),
        good.replace("s3:DeleteObject", "s3:Nothing"),
        good.replace(r#""*""#, r#"{"AWS": "nobody-known"}"#),
        good.replace("Deny", "Perhaps"),
    ] {
        assert_eq!(put_policy(&endpoint, &text), "MalformedPolicy", "{text}");
    }
    let kept = endpoint.send("GET", "/wire", "policy=", &[], b"");
    assert_eq!(String::from_utf8(kept.body).unwrap(), good);
}

#[test]
fn the_owner_of_a_bucket_owns_all_in_it() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    for path in ["/wire", "/wire/a"] {
        let acl = endpoint.send("GET", path, "acl=", &[], b"");
        let xml = String::from_utf8(acl.body).unwrap();
        assert!(xml.contains("<ID>root</ID>") && xml.contains("<Permission>FULL_CONTROL</Permission>"), "{xml}");
        let set = |acl: &str| endpoint.send("PUT", path, "acl=", &[("x-amz-acl", acl)], b"").code();
        assert_eq!(set("bucket-owner-full-control"), "OK");
        assert_eq!(set("public-read"), "AccessControlListNotSupported");
        let same = format!(
            "<AccessControlPolicy>{}",
            xml.split_once("<AccessControlPolicy").unwrap().1.split_once('>').unwrap().1
        );
        assert_eq!(endpoint.send("PUT", path, "acl=", &[], same.as_bytes()).code(), "OK");
        let other = same.replace("FULL_CONTROL", "READ");
        assert_eq!(endpoint.send("PUT", path, "acl=", &[], other.as_bytes()).code(), "AccessControlListNotSupported");
    }
    assert_eq!(endpoint.send("GET", "/wire/b", "acl=", &[], b"").code(), "NoSuchKey");

    let controls = |rule: &str| {
        let xml =
            format!("<OwnershipControls><Rule><ObjectOwnership>{rule}</ObjectOwnership></Rule></OwnershipControls>");
        endpoint.send("PUT", "/wire", "ownershipControls=", &[], xml.as_bytes()).code()
    };
    let get = || endpoint.send("GET", "/wire", "ownershipControls=", &[], b"");
    assert!(String::from_utf8(get().body).unwrap().contains("BucketOwnerEnforced"));
    for rule in ["ObjectWriter", "BucketOwnerPreferred"] {
        assert_eq!(controls(rule), "OK");
        assert!(String::from_utf8(get().body).unwrap().contains(rule));
    }
    assert_eq!(controls("Nobody"), "MalformedXML");
    assert_eq!(endpoint.send("DELETE", "/wire", "ownershipControls=", &[], b"").code(), "OK");
    assert_eq!(get().code(), "OwnershipControlsNotFoundError");
    assert_eq!(controls("BucketOwnerEnforced"), "OK");
    assert_eq!(get().code(), "OK");
}

#[test]
fn the_expected_owner_is_checked() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let get = |owner: &str| endpoint.send("GET", "/wire/a", "", &[("x-amz-expected-bucket-owner", owner)], b"").code();
    assert_eq!(get("root"), "OK");
    assert_eq!(get("bob"), "AccessDenied");
    let copy = |owner: &str| {
        let headers = [("x-amz-copy-source", "/wire/a"), ("x-amz-source-expected-bucket-owner", owner)];
        endpoint.send("PUT", "/wire/b", "", &headers, b"").code()
    };
    assert_eq!(copy("bob"), "AccessDenied");
    assert_eq!(copy("root"), "OK");
}

#[test]
fn a_condition_knows_where_and_how_a_request_came() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let bob = endpoint.account("bob", None);
    let allowed = |condition: &str| {
        let more = format!(r#", "Condition": {{{condition}}}"#);
        let text = policy(&[statement("Allow", r#"{"AWS": "bob"}"#, r#""s3:GetObject""#, "wire/*", &more)]);
        assert_eq!(put_policy(&endpoint, &text), "OK", "{condition}");
        ask(&endpoint, &bob, "GET", "/wire/a", "") == "OK"
    };
    for (condition, expected) in [
        (r#""IpAddress": {"aws:SourceIp": "127.0.0.0/8"}"#, true),
        (r#""IpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#, false),
        (r#""Bool": {"aws:SecureTransport": "true"}"#, false),
        (r#""StringEquals": {"aws:username": "bob"}"#, true),
        (r#""ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/bob"}"#, true),
        (r#""StringEquals": {"aws:ResourceAccount": "root"}"#, true),
        (r#""StringEquals": {"s3:authType": "REST-HEADER", "s3:signatureversion": "AWS4-HMAC-SHA256"}"#, true),
        (r#""NumericLessThan": {"s3:signatureAge": 600000}"#, true),
        (r#""DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}"#, true),
        (r#""DateLessThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}"#, false),
        (r#""Null": {"s3:x-amz-acl": "true"}"#, true),
        (r#""StringEquals": {"s3:x-amz-content-sha256": "UNSIGNED-PAYLOAD"}"#, false),
    ] {
        assert_eq!(allowed(condition), expected, "{condition}");
    }
}

#[test]
fn a_later_account_of_the_same_name_is_not_the_one_that_was_meant() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let bob = endpoint.account("bob", None);
    let text = policy(&[statement("Allow", r#"{"AWS": "bob"}"#, r#""s3:GetObject""#, "wire/*", "")]);
    assert_eq!(put_policy(&endpoint, &text), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/a", ""), "OK");

    endpoint.revoke(&bob);
    endpoint.forget("bob");
    let namesake = endpoint.account("bob", None);
    assert_eq!(ask(&endpoint, &namesake, "GET", "/wire/a", ""), "AccessDenied");
    assert_eq!(put_policy(&endpoint, &text), "OK");
    assert_eq!(ask(&endpoint, &namesake, "GET", "/wire/a", ""), "OK");
}

#[test]
fn who_may_only_put_policies_opens_the_bucket_to_nobody_else() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let eve = endpoint.account("eve", None);
    let eves = statement("Allow", r#"{"AWS": "eve"}"#, r#""s3:PutBucketPolicy""#, "wire", "");
    assert_eq!(put_policy(&endpoint, &policy(std::slice::from_ref(&eves))), "OK");
    let ranges = |numbers: std::ops::Range<u32>| -> String {
        let ranges: Vec<String> = numbers.map(|n| format!("\"{n}.0.0.0/8\"")).collect();
        format!(r#""IpAddress": {{"aws:SourceIp": [{}]}}"#, ranges.join(", "))
    };
    let open = |condition: &str| {
        let more = format!(r#", "Condition": {{{condition}}}"#);
        statement("Allow", r#""*""#, r#""s3:GetObject""#, "wire/*", &more)
    };
    for statements in [
        vec![open(r#""StringEquals": {"aws:userid": "anonymous"}"#)],
        vec![open(r#""StringEqualsIgnoreCase": {"aws:userid": "Anonymous"}"#)],
        vec![open(&ranges(0..256))],
        vec![open(&ranges(0..128)), open(&ranges(128..256))],
        vec![open(r#""IpAddress": {"aws:SourceIp": ["::ffff:0:0/97", "::ffff:128.0.0.0/97"]}"#)],
        vec![open(r#""NotIpAddress": {"aws:SourceIp": "203.0.113.0/24"}"#)],
        vec![open(r#""StringNotEquals": {"aws:PrincipalAccount": "bob"}"#)],
        vec![open(r#""StringEqualsIfExists": {"aws:PrincipalArn": "arn:aws:iam::bob:user/bob"}"#)],
        vec![open(r#""ForAllValues:StringEquals": {"aws:PrincipalAccount": "bob"}"#)],
        vec![open(r#""StringLike": {"aws:userid": "*"}"#)],
        vec![open(r#""StringEquals": {"s3:x-amz-server-side-encryption-aws-kms-key-id": "k"}"#)],
        vec![open(r#""Null": {"aws:PrincipalAccount": "true"}"#)],
    ] {
        let statements = [statements, vec![eves.clone()]].concat();
        let answer = endpoint.send_as(&eve, "PUT", "/wire", "policy=", &[], policy(&statements).as_bytes());
        assert_eq!(answer.code(), "AccessDenied", "{statements:?}");
        let kms = [("host", "localhost"), ("x-amz-server-side-encryption-aws-kms-key-id", "k")];
        let read = endpoint.send_signed("GET", "/wire/a", "", &Signed::bare(&kms), b"");
        assert_eq!(read.status, 403, "{statements:?}");
    }
    // A policy that was stored before such statements counted as public is restricted now.
    let bucket = "wire".parse().unwrap();
    let text = policy(&[open(r#""StringEquals": {"aws:userid": "anonymous"}"#), open(&ranges(0..256))]);
    let stored = endpoint.store.put_policy(&bucket, text, Default::default(), |_| Ok(()));
    endpoint.block_on(stored).unwrap();
    assert_eq!(unsigned(&endpoint, "GET", "/wire/a", "", b"").code(), "AccessDenied");
    assert_eq!(ask(&endpoint, &eve, "GET", "/wire/a", ""), "AccessDenied");
    // A policy limited to callers or to address ranges is accepted, and gives access to those only.
    let bob = endpoint.account("bob", None);
    let held =
        [open(r#""StringEquals": {"aws:userid": "bob"}"#), open(r#""IpAddress": {"aws:SourceIp": "192.0.2.0/24"}"#)];
    assert_eq!(put_policy(&endpoint, &policy(&held)), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/a", ""), "OK");
    assert_eq!(ask(&endpoint, &eve, "GET", "/wire/a", ""), "AccessDenied");
    assert_eq!(unsigned(&endpoint, "GET", "/wire/a", "", b"").code(), "AccessDenied");
}

#[test]
fn an_account_made_again_is_nobody_to_policies_from_before() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a", "home/bob/a", "shared/a"]);
    let everyone = |effect: &str, action: &str, resource: &str, condition: &str| {
        let more = format!(r#", "Condition": {{{condition}}}"#);
        statement(effect, r#""*""#, action, resource, &more)
    };
    let named = r#""StringEquals": {"aws:username": "bob"}, "StringNotEquals": {"aws:userid": "anonymous"}"#;
    let policies = [
        (everyone("Allow", r#""s3:GetObject""#, "wire/a", named), "a", "OK"),
        (everyone("Allow", r#""s3:GetObject""#, "wire/home/${aws:username}/*", ""), "home/bob/a", "OK"),
        (everyone("Allow", r#""s3:GetObject""#, "wire/a", r#""StringLike": {"aws:userid": "b*"}"#), "a", "OK"),
        (statement("Allow", r#"{"AWS": "bob"}"#, r#""s3:GetObject""#, "wire/a", ""), "a", "OK"),
    ];
    let open = "<PublicAccessBlockConfiguration></PublicAccessBlockConfiguration>";
    assert_eq!(endpoint.send("PUT", "/wire", "publicAccessBlock=", &[], open.as_bytes()).code(), "OK");
    let mut bob = endpoint.account("bob", None);
    for (allow, key, first) in policies {
        assert_eq!(put_policy(&endpoint, &policy(std::slice::from_ref(&allow))), "OK", "{allow}");
        assert_eq!(ask(&endpoint, &bob, "GET", &format!("/wire/{key}"), ""), first, "{allow}");
        endpoint.forget("bob");
        bob = endpoint.account("bob", None);
        assert_eq!(ask(&endpoint, &bob, "GET", &format!("/wire/{key}"), ""), "AccessDenied", "{allow}");
        // A policy put now means the present account.
        assert_eq!(put_policy(&endpoint, &policy(std::slice::from_ref(&allow))), "OK", "{allow}");
        assert_eq!(ask(&endpoint, &bob, "GET", &format!("/wire/{key}"), ""), "OK", "{allow}");
    }
    let shared = everyone(
        "Allow",
        r#""s3:GetObject""#,
        "wire/shared/*",
        r#""StringLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/*"}"#,
    );
    assert_eq!(put_policy(&endpoint, &policy(&[shared])), "OK");
    endpoint.forget("bob");
    bob = endpoint.account("bob", Some(Mode::Read));
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/shared/a", ""), "OK");

    // Statements that denied the earlier account of this name deny the present one too.
    for deny in [
        statement("Deny", r#"{"AWS": "bob"}"#, r#""s3:GetObject""#, "wire/a", ""),
        everyone("Deny", r#""s3:GetObject""#, "wire/a", r#""StringEquals": {"aws:username": "bob"}"#),
        statement(
            "Deny",
            r#"{"AWS": "*"}"#,
            r#""s3:GetObject""#,
            "wire/a",
            r#", "Condition": {"StringNotEquals": {"aws:username": "bob"}}"#,
        ),
    ] {
        assert_eq!(put_policy(&endpoint, &policy(std::slice::from_ref(&deny))), "OK");
        endpoint.forget("bob");
        let bob = endpoint.account("bob", Some(Mode::Read));
        assert_eq!(ask(&endpoint, &bob, "GET", "/wire/a", ""), "AccessDenied", "{deny}");
        assert_eq!(ask(&endpoint, &bob, "GET", "/wire/shared/a", ""), "OK", "{deny}");
    }
}

#[test]
fn a_denial_by_a_key_without_values_is_refused_or_acts() {
    let endpoint = Endpoint::start();
    put(&endpoint, &["a"]);
    let bob = endpoint.account("bob", Some(Mode::ReadWrite));
    let deny = |action: &str, condition: &str| {
        policy(&[statement("Deny", r#""*""#, action, "wire/*", &format!(r#", "Condition": {{{condition}}}"#))])
    };
    let tagged = deny(r#""s3:GetObject""#, r#""StringEquals": {"aws:ResourceTag/secret": "yes"}"#);
    let refused = endpoint.send("PUT", "/wire", "policy=", &[], tagged.as_bytes());
    assert_eq!(refused.code(), "MalformedPolicy");
    assert!(String::from_utf8(refused.body).unwrap().contains("aws:resourcetag/secret"));
    // A version of the program from before the check may have stored such a policy.
    let bucket = "wire".parse().unwrap();
    let stored = endpoint.store.put_policy(&bucket, tagged, Default::default(), |_| Ok(()));
    endpoint.block_on(stored).unwrap();
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/a", ""), "AccessDenied");
    assert_eq!(ask(&endpoint, &bob, "PUT", "/wire/a", ""), "OK");

    let region =
        |name: &str| deny(r#""s3:GetObject""#, &format!(r#""StringEquals": {{"aws:RequestedRegion": "{name}"}}"#));
    assert_eq!(put_policy(&endpoint, &region(crate::sign::REGION)), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/a", ""), "AccessDenied");
    assert_eq!(put_policy(&endpoint, &region("elsewhere")), "OK");
    assert_eq!(ask(&endpoint, &bob, "GET", "/wire/a", ""), "OK");

    // A policy enforces conditional writes as AWS documents it: requests that prepare a multipart upload are exempt.
    let once = r#""Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}"#;
    assert_eq!(put_policy(&endpoint, &deny(r#""s3:PutObject""#, once)), "OK");
    let send = |method: &str, path: &str, query: &str, headers: &[(&str, &str)], body: &[u8]| {
        endpoint.send_as(&bob, method, path, query, headers, body)
    };
    assert_eq!(send("PUT", "/wire/b", "", &[], b"1").code(), "AccessDenied");
    assert_eq!(send("PUT", "/wire/b", "", &[("x-amz-copy-source", "/wire/a")], b"").code(), "AccessDenied");
    assert_eq!(send("PUT", "/wire/b", "", &[("if-none-match", "*")], b"1").code(), "OK");
    let begun = String::from_utf8(send("POST", "/wire/c", "uploads=", &[], b"").body).unwrap();
    let id = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
    let part = send("PUT", "/wire/c", &format!("partNumber=1&uploadId={id}"), &[], b"1");
    assert_eq!(part.code(), "OK");
    let etag = part.header("etag").unwrap().to_owned();
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let complete =
        |headers: &[(&str, &str)]| send("POST", "/wire/c", &format!("uploadId={id}"), headers, parts.as_bytes()).code();
    assert_eq!((complete(&[]), complete(&[("if-none-match", "*")])), ("AccessDenied".into(), "OK".into()));
}

#[test]
fn accounts_get_no_names_that_policies_read_otherwise() {
    let endpoint = Endpoint::start();
    for name in ["anonymous", "*", "..", "${aws:username}", "<b>", "a:user/bob", "deleted-7", ""] {
        let made = endpoint.block_on(endpoint.store.create_account(name, false));
        assert!(matches!(made, Err(objstore::Error::Invalid { .. })), "{name}");
    }
}
