//! Access control lists: which callers they give access, for each Object Ownership and public access block.

use objstore::store::Mode;

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{Key, Signed};

const OWNERSHIPS: [&str; 3] = ["BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"];
const CANNED: [&str; 7] = [
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
];
/// The canned ACLs that are accepted while ACLs are disabled, since they grant nothing more.
const IN_FORCE: [&str; 3] = ["private", "bucket-owner-read", "bucket-owner-full-control"];
/// The canned ACLs that give the public access.
const PUBLIC: [&str; 3] = ["public-read", "public-read-write", "authenticated-read"];
const ALL_USERS: &str = "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\"";
const XSI: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";

/// How a bucket's public access block treats public ACLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Nothing,
    Ignored,
    Refused,
}

const BLOCKS: [Block; 3] = [Block::Nothing, Block::Ignored, Block::Refused];

fn own(endpoint: &Endpoint, rule: &str) -> String {
    let xml = format!("<OwnershipControls><Rule><ObjectOwnership>{rule}</ObjectOwnership></Rule></OwnershipControls>");
    endpoint.send("PUT", "/wire", "ownershipControls=", &[], xml.as_bytes()).code()
}

fn block(endpoint: &Endpoint, block: Block) {
    let (refused, ignored) = (block == Block::Refused, block == Block::Ignored);
    let xml = format!(
        "<PublicAccessBlockConfiguration><BlockPublicAcls>{refused}</BlockPublicAcls>\
         <IgnorePublicAcls>{ignored}</IgnorePublicAcls></PublicAccessBlockConfiguration>"
    );
    assert_eq!(endpoint.send("PUT", "/wire", "publicAccessBlock=", &[], xml.as_bytes()).code(), "OK");
}

/// A server whose bucket has this ownership and no public access block.
fn start(rule: &str) -> Endpoint {
    let endpoint = Endpoint::start();
    block(&endpoint, Block::Nothing);
    assert_eq!(own(&endpoint, rule), "OK");
    endpoint
}

/// Sends a request signed by an account, or an unsigned one.
fn send(
    endpoint: &Endpoint,
    caller: Option<&Key>,
    method: &str,
    path: &str,
    query: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    match caller {
        Some(key) => endpoint.send_as(key, method, path, query, headers, body),
        None => {
            let headers = [&[("host", "localhost")], headers].concat();
            endpoint.send_signed(method, path, query, &Signed::bare(&headers), body)
        }
    }
}

/// Whether a request of the caller is allowed.
fn may(endpoint: &Endpoint, caller: Option<&Key>, method: &str, path: &str, query: &str) -> bool {
    let headers: &[(&str, &str)] =
        if method == "PUT" && query == "acl=" { &[("x-amz-acl", "bucket-owner-full-control")] } else { &[] };
    let status = send(endpoint, caller, method, path, query, headers, b"").status;
    assert!(status < 300 || status == 403, "{method} {path} {query}: {status}");
    status < 300
}

fn put(endpoint: &Endpoint, caller: Option<&Key>, path: &str, acl: &str) -> String {
    send(endpoint, caller, "PUT", path, "", &[("x-amz-acl", acl)], b"content").code()
}

fn set_acl(endpoint: &Endpoint, caller: Option<&Key>, path: &str, headers: &[(&str, &str)]) -> String {
    send(endpoint, caller, "PUT", path, "acl=", headers, b"").code()
}

fn acl(endpoint: &Endpoint, caller: Option<&Key>, path: &str) -> String {
    let answer = send(endpoint, caller, "GET", path, "acl=", &[], b"");
    assert_eq!(answer.code(), "OK", "{path}");
    String::from_utf8(answer.body).unwrap()
}

/// The XML of an ACL of `owner`, with these grants after the owner's own.
fn document(owner: &str, others: &[(&str, &str)]) -> String {
    let user = |id: &str| format!("xsi:type=\"CanonicalUser\"><ID>{id}</ID><DisplayName>{id}</DisplayName>");
    let own = [(owner, "FULL_CONTROL")];
    let grants = own.iter().chain(others).map(|(who, permission)| {
        let grantee = match *who {
            "exec" => {
                "xsi:type=\"CanonicalUser\"><ID>6aa5a366c34c1cbe25dc49211496e913e0351eb0e8c37aa3477e40942ec6b97c</ID>"
                    .to_owned()
            }
            "AllUsers" | "AuthenticatedUsers" => {
                format!("xsi:type=\"Group\"><URI>http://acs.amazonaws.com/groups/global/{who}</URI>")
            }
            "LogDelivery" => "xsi:type=\"Group\"><URI>http://acs.amazonaws.com/groups/s3/LogDelivery</URI>".to_owned(),
            id => user(id),
        };
        format!("<Grant><Grantee {XSI} {grantee}</Grantee><Permission>{permission}</Permission></Grant>")
    });
    let grants: String = grants.collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Owner><ID>{owner}</ID><DisplayName>{owner}</DisplayName></Owner>\
         <AccessControlList>{grants}</AccessControlList></AccessControlPolicy>"
    )
}

/// The grants of an object's canned ACL besides the owner's own. `other` is the bucket's owner, if that is not the
/// object's owner.
fn granted(canned: &str, other: Option<&'static str>) -> Vec<(&'static str, &'static str)> {
    match canned {
        "public-read" => vec![("AllUsers", "READ")],
        "public-read-write" => vec![("AllUsers", "READ"), ("AllUsers", "WRITE")],
        "authenticated-read" => vec![("AuthenticatedUsers", "READ")],
        "aws-exec-read" => vec![("exec", "READ")],
        "bucket-owner-read" => other.map(|owner| (owner, "READ")).into_iter().collect(),
        "bucket-owner-full-control" => other.map(|owner| (owner, "FULL_CONTROL")).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Every combination of ownership, canned ACL of the object, public access block, caller and operation.
#[test]
fn an_object_is_open_to_whom_its_acl_names_and_to_nobody_else() {
    let endpoint = Endpoint::start();
    let bob = endpoint.account("bob", None);
    for ownership in OWNERSHIPS {
        assert_eq!(own(&endpoint, ownership), "OK");
        let enabled = ownership != "BucketOwnerEnforced";
        for (canned, blocked) in CANNED.iter().flat_map(|canned| BLOCKS.map(|block| (*canned, block))) {
            let what = format!("{ownership} {canned} {blocked:?}");
            block(&endpoint, blocked);
            let public = PUBLIC.contains(&canned);
            let expected = match () {
                () if !enabled && !IN_FORCE.contains(&canned) => "AccessControlListNotSupported",
                () if public && blocked == Block::Refused => "AccessDenied",
                () => "OK",
            };
            for path in ["/wire/put", "/wire/set"] {
                assert_eq!(endpoint.send("PUT", path, "", &[], b"1").code(), "OK");
            }
            assert_eq!(put(&endpoint, Some(&endpoint.root), "/wire/put", canned), expected, "{what}");
            let set = set_acl(&endpoint, Some(&endpoint.root), "/wire/set", &[("x-amz-acl", canned)]);
            assert_eq!(set, expected, "{what}");
            let grants = if expected == "OK" { granted(canned, None) } else { Vec::new() };
            for path in ["/wire/put", "/wire/set"] {
                assert_eq!(acl(&endpoint, Some(&endpoint.root), path), document("root", &grants), "{what}");
                for caller in [None, Some(&bob)] {
                    let what = format!("{what} {path} {}", if caller.is_some() { "bob" } else { "anonymous" });
                    let reads = expected == "OK"
                        && blocked == Block::Nothing
                        && public
                        && (caller.is_some() || canned != "authenticated-read");
                    for method in ["GET", "HEAD"] {
                        assert_eq!(may(&endpoint, caller, method, path, ""), reads, "{method} {what}");
                    }
                    for (method, query) in
                        [("GET", "acl="), ("PUT", "acl="), ("GET", "tagging="), ("PUT", ""), ("DELETE", "")]
                    {
                        assert!(!may(&endpoint, caller, method, path, query), "{method} {query} {what}");
                    }
                    assert!(!may(&endpoint, caller, "GET", "/wire", "list-type=2"), "{what}");
                }
            }
        }
    }
}

/// Every combination of ownership, canned ACL of the bucket, public access block, caller and operation.
#[test]
fn a_bucket_is_open_to_whom_its_acl_names_and_its_objects_are_not() {
    let endpoint = start("ObjectWriter");
    let bob = endpoint.account("bob", None);
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    for ownership in &OWNERSHIPS[1..] {
        for (canned, blocked) in CANNED.iter().flat_map(|canned| BLOCKS.map(|block| (*canned, block))) {
            assert_eq!(own(&endpoint, ownership), "OK");
            block(&endpoint, blocked);
            let what = format!("{ownership} {canned} {blocked:?}");
            let public = PUBLIC.contains(&canned);
            assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &[("x-amz-acl", "private")]), "OK");
            let expected = if public && blocked == Block::Refused { "AccessDenied" } else { "OK" };
            let set = set_acl(&endpoint, Some(&endpoint.root), "/wire", &[("x-amz-acl", canned)]);
            assert_eq!(set, expected, "{what}");
            let grants = if expected == "OK" { granted(canned, None) } else { Vec::new() };
            assert_eq!(acl(&endpoint, Some(&endpoint.root), "/wire"), document("root", &grants), "{what}");
            let back = if grants.is_empty() { "OK" } else { "InvalidBucketAclWithObjectOwnership" };
            assert_eq!(own(&endpoint, "BucketOwnerEnforced"), back, "{what}");
            assert_eq!(own(&endpoint, ownership), "OK");
            for caller in [None, Some(&bob)] {
                let open = expected == "OK" && blocked == Block::Nothing && public;
                let lists = open && (caller.is_some() || canned != "authenticated-read");
                let writes = open && canned == "public-read-write";
                let who = if caller.is_some() { "bob" } else { "anonymous" };
                for (method, query) in [("GET", "list-type=2"), ("HEAD", ""), ("GET", "versions="), ("GET", "uploads=")]
                {
                    assert_eq!(may(&endpoint, caller, method, "/wire", query), lists, "{method} {query} {who} {what}");
                }
                assert_eq!(may(&endpoint, caller, "PUT", &format!("/wire/{who}"), ""), writes, "{who} {what}");
                for (method, path, query) in [
                    ("GET", "/wire/k", ""),
                    ("DELETE", "/wire/k", ""),
                    ("GET", "/wire/k", "acl="),
                    ("GET", "/wire", "acl="),
                    ("PUT", "/wire", "acl="),
                    ("GET", "/wire", "policy="),
                ] {
                    assert!(!may(&endpoint, caller, method, path, query), "{method} {path} {query} {who} {what}");
                }
            }
        }
    }
}

/// Every combination of ownership and canned ACL, for an object that another account writes.
#[test]
fn an_object_belongs_to_whom_the_ownership_of_its_bucket_says() {
    let endpoint = start("ObjectWriter");
    let (alice, bob) = (endpoint.account("alice", None), endpoint.account("bob", None));
    let writers = [("x-amz-grant-write", "id=alice"), ("x-amz-grant-full-control", "id=root")];
    assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &writers), "OK");
    for ownership in &OWNERSHIPS[1..] {
        assert_eq!(own(&endpoint, ownership), "OK");
        for canned in CANNED {
            let what = format!("{ownership} {canned}");
            assert_eq!(put(&endpoint, Some(&alice), "/wire/a", canned), "OK", "{what}");
            let given_up = *ownership == "BucketOwnerPreferred" && canned == "bucket-owner-full-control";
            let (owner, other) = if given_up { ("root", None) } else { ("alice", Some("root")) };
            let expected = document(owner, &granted(canned, other));
            assert_eq!(acl(&endpoint, Some(&endpoint.root), "/wire/a"), expected, "{what}");
            assert!(may(&endpoint, Some(&endpoint.root), "GET", "/wire/a", ""), "{what}");
            let reads = owner == "alice" || PUBLIC.contains(&canned);
            assert_eq!(may(&endpoint, Some(&alice), "GET", "/wire/a", ""), reads, "{what}");
            for (method, query) in [("GET", "acl="), ("DELETE", "")] {
                assert_eq!(may(&endpoint, Some(&alice), method, "/wire/a", query), owner == "alice", "{method} {what}");
            }
            assert!(!may(&endpoint, Some(&bob), "DELETE", "/wire/a", ""), "{what}");
        }
    }
    // The owner of an object may change its ACL, even if the ACL grants the owner nothing.
    assert_eq!(put(&endpoint, Some(&alice), "/wire/a", "private"), "OK");
    assert_eq!(set_acl(&endpoint, Some(&alice), "/wire/a", &[("x-amz-grant-read", "id=bob")]), "OK");
    assert!(may(&endpoint, Some(&bob), "GET", "/wire/a", "") && !may(&endpoint, Some(&alice), "GET", "/wire/a", ""));
    assert!(acl(&endpoint, Some(&alice), "/wire/a").contains("<ID>bob</ID>"));
    // Once ACLs are disabled again, the bucket's owner owns everything; ACLs are kept, and have no effect.
    assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &[("x-amz-acl", "private")]), "OK");
    assert_eq!(own(&endpoint, "BucketOwnerEnforced"), "OK");
    assert_eq!(acl(&endpoint, Some(&endpoint.root), "/wire/a"), document("root", &[]));
    assert!(
        !may(&endpoint, Some(&bob), "GET", "/wire/a", "") && !may(&endpoint, Some(&alice), "GET", "/wire/a", "acl=")
    );
    assert_eq!(own(&endpoint, "ObjectWriter"), "OK");
    assert!(may(&endpoint, Some(&bob), "GET", "/wire/a", "") && may(&endpoint, Some(&alice), "GET", "/wire/a", "acl="));
}

#[test]
fn what_nobody_signed_belongs_to_the_owner_of_the_bucket() {
    let endpoint = start("ObjectWriter");
    let open = [("x-amz-grant-write", ALL_USERS)];
    assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &open), "OK");
    assert_eq!(put(&endpoint, None, "/wire/a", "public-read"), "OK");
    assert_eq!(acl(&endpoint, Some(&endpoint.root), "/wire/a"), document("root", &[("AllUsers", "READ")]));
    assert!(may(&endpoint, None, "GET", "/wire/a", "") && !may(&endpoint, None, "DELETE", "/wire/a", ""));
}

/// Each permission of a grant on an object, and on a bucket.
#[test]
fn a_permission_gives_what_it_says_and_no_more() {
    let endpoint = start("BucketOwnerPreferred");
    let bob = endpoint.account("bob", None);
    let bob = Some(&bob);
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let table =
        [("read", 0b0001), ("write", 0b1000), ("read-acp", 0b0010), ("write-acp", 0b0100), ("full-control", 0b1111)];
    for (name, gives) in table {
        let header = format!("x-amz-grant-{name}");
        let grants = [(header.as_str(), "id=\"bob\"")];
        let given = |bit: u32| gives & (1 << bit) != 0;
        assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire/k", &grants), "OK", "{name}");
        assert_eq!(may(&endpoint, bob, "GET", "/wire/k", ""), given(0), "{name}");
        assert_eq!(may(&endpoint, bob, "GET", "/wire/k", "acl="), given(1), "{name}");
        assert!(!may(&endpoint, bob, "PUT", "/wire/k", "") && !may(&endpoint, bob, "DELETE", "/wire/k", ""), "{name}");
        assert_eq!(may(&endpoint, bob, "PUT", "/wire/k", "acl="), given(2), "{name}");
        assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire/k", &[("x-amz-acl", "private")]), "OK");

        assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &grants), "OK", "{name}");
        assert_eq!(may(&endpoint, bob, "GET", "/wire", "list-type=2"), given(0), "{name}");
        assert_eq!(may(&endpoint, bob, "GET", "/wire", "acl="), given(1), "{name}");
        assert_eq!(may(&endpoint, bob, "PUT", "/wire/made", ""), given(3), "{name}");
        assert!(!may(&endpoint, bob, "GET", "/wire/k", "") && !may(&endpoint, bob, "DELETE", "/wire/k", ""), "{name}");
        assert_eq!(may(&endpoint, bob, "PUT", "/wire", "acl="), given(2), "{name}");
        assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &[("x-amz-acl", "private")]), "OK");
    }
}

#[test]
fn a_document_is_told_as_it_was_put_and_bounded() {
    let endpoint = start("ObjectWriter");
    let _bob = endpoint.account("bob", None);
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let put = |path: &str, document: &str| endpoint.send("PUT", path, "acl=", &[], document.as_bytes()).code();
    let given = document(
        "root",
        &[("bob", "READ_ACP"), ("AuthenticatedUsers", "READ"), ("LogDelivery", "WRITE"), ("exec", "READ")],
    );
    for path in ["/wire", "/wire/k"] {
        assert_eq!(put(path, &given), "OK");
        assert_eq!(acl(&endpoint, Some(&endpoint.root), path), given);
        let table = [
            (given.replace("<ID>bob</ID>", "<ID>nobody</ID>"), "InvalidArgument"),
            (given.replacen("<ID>root</ID>", "<ID>bob</ID>", 1), "AccessDenied"),
            (given.replace("READ_ACP", "LOOK"), "MalformedACLError"),
            (given.replace("AuthenticatedUsers", "Everybody"), "InvalidArgument"),
            (
                given.replace(
                    "\"CanonicalUser\"><ID>bob</ID>",
                    "\"AmazonCustomerByEmail\"><EmailAddress>b@b</EmailAddress>",
                ),
                "MethodNotAllowed",
            ),
            (document("root", &[("bob", "READ"); 99]), "OK"),
            (document("root", &[("bob", "READ"); 100]), "MalformedACLError"),
            (document("root", &[("bob", "READ"); 20_000]), "MalformedXML"),
        ];
        for (document, code) in table {
            let found = put(path, &document);
            assert!(found == code || code == "MalformedXML" && found == "MaxMessageLengthExceeded", "{found} {code}");
        }
        let both = endpoint.send("PUT", path, "acl=", &[("x-amz-acl", "private")], given.as_bytes());
        assert_eq!(both.code(), "UnexpectedContent");
        assert_eq!(endpoint.send("PUT", path, "acl=", &[], b"").code(), "MissingSecurityHeader");
    }
    for (headers, code) in [
        (vec![("x-amz-grant-read", "id=nobody")], "InvalidArgument"),
        (vec![("x-amz-grant-read", "emailAddress=\"bob@example.org\"")], "MethodNotAllowed"),
        (vec![("x-amz-grant-read", "id=bob"), ("x-amz-acl", "private")], "InvalidRequest"),
        (vec![("x-amz-acl", "everybody")], "InvalidArgument"),
    ] {
        assert_eq!(endpoint.send("PUT", "/wire/k", "", &headers, b"2").code(), code, "{headers:?}");
    }
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, b"1");
}

#[test]
fn an_acl_is_of_one_version_and_no_copy_carries_it() {
    let endpoint = start("ObjectWriter");
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(endpoint.send("PUT", "/wire", "versioning=", &[], on.as_bytes()).code(), "OK");
    let root = endpoint.root.clone();
    let put = |acl: &str| {
        let answer = endpoint.send("PUT", "/wire/k", "", &[("x-amz-acl", acl)], b"1");
        answer.header("x-amz-version-id").unwrap().to_owned()
    };
    let (open, shut) = (put("public-read"), put("private"));
    let of = |version: &str| format!("versionId={version}");
    assert!(may(&endpoint, None, "GET", "/wire/k", &of(&open)) && !may(&endpoint, None, "GET", "/wire/k", ""));
    assert!(!may(&endpoint, None, "GET", "/wire/k", &of(&shut)));
    let set = |version: &str, acl: &str| {
        send(&endpoint, Some(&root), "PUT", "/wire/k", &format!("acl=&{}", of(version)), &[("x-amz-acl", acl)], b"")
            .code()
    };
    assert_eq!((set(&open, "private"), set(&shut, "public-read")), ("OK".into(), "OK".into()));
    assert!(!may(&endpoint, None, "GET", "/wire/k", &of(&open)) && may(&endpoint, None, "GET", "/wire/k", ""));
    let told = endpoint.send("GET", "/wire/k", &format!("acl=&{}", of(&open)), &[], b"");
    assert_eq!(String::from_utf8(told.body).unwrap(), document("root", &[]));

    let copy = |to: &str, headers: &[(&str, &str)]| {
        let headers = [&[("x-amz-copy-source", "/wire/k")], headers].concat();
        assert_eq!(endpoint.send("PUT", to, "", &headers, b"").code(), "OK");
    };
    copy("/wire/plain", &[]);
    copy("/wire/open", &[("x-amz-acl", "public-read")]);
    copy("/wire/k", &[("x-amz-metadata-directive", "REPLACE")]);
    assert!(!may(&endpoint, None, "GET", "/wire/plain", "") && !may(&endpoint, None, "GET", "/wire/k", ""));
    assert!(may(&endpoint, None, "GET", "/wire/open", ""));
}

#[test]
fn who_may_read_by_an_acl_may_copy_what_it_reads() {
    let endpoint = start("ObjectWriter");
    let bob = endpoint.account("bob", None);
    assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &[("x-amz-grant-write", "id=bob")]), "OK");
    for (path, acl) in [("/wire/open", "public-read"), ("/wire/shut", "private")] {
        assert_eq!(put(&endpoint, Some(&endpoint.root), path, acl), "OK");
    }
    let copy =
        |source: &str| endpoint.send_as(&bob, "PUT", "/wire/copy", "", &[("x-amz-copy-source", source)], b"").code();
    assert_eq!(copy("/wire/open"), "OK");
    assert_eq!(copy("/wire/shut"), "AccessDenied");
    assert_eq!(acl(&endpoint, Some(&bob), "/wire/copy"), document("bob", &[]));
}

#[test]
fn an_upload_in_parts_has_the_acl_it_was_begun_with() {
    let endpoint = start("ObjectWriter");
    let alice = endpoint.account("alice", None);
    assert_eq!(set_acl(&endpoint, Some(&endpoint.root), "/wire", &[("x-amz-grant-write", "id=alice")]), "OK");
    let headers = [("x-amz-acl", "public-read")];
    let begun = endpoint.send_as(&alice, "POST", "/wire/k", "uploads=", &headers, b"");
    let text = String::from_utf8(begun.body).unwrap();
    let id = text.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
    let part = endpoint.send_as(&alice, "PUT", "/wire/k", &format!("partNumber=1&uploadId={id}"), &[], b"part");
    let etag = part.header("etag").unwrap().to_owned();
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let done = endpoint.send("POST", "/wire/k", &format!("uploadId={id}"), &[], parts.as_bytes());
    assert_eq!(done.code(), "OK");
    assert_eq!(acl(&endpoint, Some(&endpoint.root), "/wire/k"), document("alice", &[("AllUsers", "READ")]));
    assert!(may(&endpoint, None, "GET", "/wire/k", ""));
    let refused = endpoint.send("POST", "/wire/k", "uploads=", &[("x-amz-acl", "log-delivery-write")], b"");
    assert_eq!(refused.code(), "InvalidArgument");
}

fn policy(endpoint: &Endpoint, effect: &str, principal: &str, action: &str, resource: &str, condition: &str) {
    let text = format!(
        r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "{effect}", "Principal": {principal},
        "Action": {action}, "Resource": "arn:aws:s3:::{resource}", "Condition": {{{condition}}}}}]}}"#
    );
    assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], text.as_bytes()).code(), "OK", "{text}");
}

#[test]
fn a_policy_that_denies_wins_over_an_acl_and_sees_the_acl_that_is_asked_for() {
    let endpoint = start("ObjectWriter");
    let (bob, carol) = (endpoint.account("bob", None), endpoint.account("carol", Some(Mode::ReadWrite)));
    assert_eq!(put(&endpoint, Some(&endpoint.root), "/wire/k", "public-read"), "OK");
    policy(&endpoint, "Deny", r#""*""#, r#""s3:GetObject""#, "wire/*", r#""Null": {"aws:username": "false"}"#);
    assert!(may(&endpoint, None, "GET", "/wire/k", ""));
    assert!(!may(&endpoint, Some(&bob), "GET", "/wire/k", ""));

    let given_up = r#""StringNotEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}"#;
    policy(&endpoint, "Deny", r#""*""#, r#""s3:PutObject""#, "wire/*", given_up);
    assert_eq!(put(&endpoint, Some(&carol), "/wire/c", "private"), "AccessDenied");
    assert_eq!(put(&endpoint, Some(&carol), "/wire/c", "bucket-owner-full-control"), "OK");
    let read = r#""StringLike": {"s3:x-amz-grant-read": "*AllUsers*"}"#;
    policy(&endpoint, "Deny", r#""*""#, r#"["s3:PutObject", "s3:PutObjectAcl"]"#, "wire/*", read);
    let grant = |key: &Key, query: &str| {
        endpoint.send_as(key, "PUT", "/wire/c", query, &[("x-amz-grant-read", ALL_USERS)], b"").code()
    };
    assert_eq!((grant(&carol, ""), grant(&endpoint.root, "acl=")), ("AccessDenied".into(), "AccessDenied".into()));

    // A caller whom a policy allows to put objects may set their ACL only if the policy allows that as well.
    policy(&endpoint, "Allow", r#"{"AWS": "bob"}"#, r#""s3:PutObject""#, "wire/*", "");
    assert_eq!(endpoint.send_as(&bob, "PUT", "/wire/b", "", &[], b"1").code(), "OK");
    assert_eq!(put(&endpoint, Some(&bob), "/wire/b", "public-read"), "AccessDenied");
    policy(&endpoint, "Allow", r#"{"AWS": "bob"}"#, r#"["s3:PutObject", "s3:PutObjectAcl"]"#, "wire/*", "");
    assert_eq!(put(&endpoint, Some(&bob), "/wire/b", "public-read"), "OK");
    policy(&endpoint, "Allow", r#"{"AWS": "bob"}"#, r#"["s3:GetBucketAcl", "s3:PutBucketAcl"]"#, "wire", "");
    assert!(may(&endpoint, Some(&bob), "GET", "/wire", "acl=") && may(&endpoint, Some(&bob), "PUT", "/wire", "acl="));
}

#[test]
fn a_later_account_of_the_same_name_has_no_grant_of_the_one_before() {
    let endpoint = start("ObjectWriter");
    let bob = endpoint.account("bob", None);
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[("x-amz-grant-read", "id=bob")], b"1").code(), "OK");
    assert!(may(&endpoint, Some(&bob), "GET", "/wire/k", ""));
    endpoint.revoke(&bob);
    endpoint.forget("bob");
    let namesake = endpoint.account("bob", None);
    assert!(!may(&endpoint, Some(&namesake), "GET", "/wire/k", ""));
    assert!(acl(&endpoint, Some(&endpoint.root), "/wire/k").contains("<ID>deleted-"));
}

#[test]
fn a_bucket_is_made_with_an_ownership_and_an_acl() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    let make = |name: &str, headers: &[(&str, &str)]| endpoint.send("PUT", name, "", headers, b"").code();
    let writer = ("x-amz-object-ownership", "ObjectWriter");
    assert_eq!(make("/open", &[writer, ("x-amz-acl", "public-read")]), "OK");
    assert_eq!(acl(&endpoint, Some(&endpoint.root), "/open"), document("root", &[("AllUsers", "READ")]));
    assert!(may(&endpoint, None, "GET", "/open", "list-type=2"));
    assert_eq!(make("/logs", &[writer, ("x-amz-acl", "log-delivery-write")]), "OK");
    let logs = document("root", &[("LogDelivery", "WRITE"), ("LogDelivery", "READ_ACP")]);
    assert_eq!(acl(&endpoint, Some(&endpoint.root), "/logs"), logs);
    assert_eq!(make("/shut", &[("x-amz-acl", "public-read")]), "InvalidBucketAclWithObjectOwnership");
    assert_eq!(make("/shut", &[("x-amz-object-ownership", "Nobody")]), "InvalidArgument");
    assert_eq!(make("/shut", &[("x-amz-acl", "private")]), "OK");
    let blocking = Endpoint::start();
    let refused = blocking.send("PUT", "/open", "", &[writer, ("x-amz-acl", "public-read")], b"").code();
    assert_eq!(refused, "InvalidBucketAclWithBlockPublicAccessError");
}

#[test]
fn ownership_that_was_deleted_is_that_of_the_writer() {
    let endpoint = Endpoint::start();
    block(&endpoint, Block::Nothing);
    assert_eq!(put(&endpoint, Some(&endpoint.root), "/wire/k", "public-read"), "AccessControlListNotSupported");
    assert_eq!(endpoint.send("DELETE", "/wire", "ownershipControls=", &[], b"").code(), "OK");
    let code = endpoint.send("GET", "/wire", "ownershipControls=", &[], b"").code();
    assert_eq!(code, "OwnershipControlsNotFoundError");
    assert_eq!(put(&endpoint, Some(&endpoint.root), "/wire/k", "public-read"), "OK");
}

/// The server refuses without waiting for the body, which never arrives here.
#[test]
fn a_stranger_is_refused_before_its_body_is_read() {
    let endpoint = start("ObjectWriter");
    let bob = endpoint.account("bob", None);
    assert_eq!(put(&endpoint, Some(&endpoint.root), "/wire/k", "public-read"), "OK");
    for (method, path, query) in [("PUT", "/wire/k", ""), ("PUT", "/wire/k", "acl="), ("PUT", "/wire", "acl=")] {
        let bare = Signed::bare(&[("host", "localhost")]);
        let answer = endpoint.send_cut(method, path, query, &bare, b"", 1 << 20);
        assert_eq!(answer.code(), "AccessDenied", "{method} {path} {query}");
        let signed = crate::sign::sign(&bob, method, path, query, &[], "UNSIGNED-PAYLOAD");
        let answer = endpoint.send_cut(method, path, query, &signed, b"", 1 << 20);
        assert_eq!(answer.code(), "AccessDenied", "{method} {path} {query}");
    }
    // A request with a blocked ACL is refused before its body, too.
    block(&endpoint, Block::Refused);
    let headers = [("x-amz-acl", "public-read")];
    let signed = crate::sign::sign(&endpoint.root, "PUT", "/wire/k", "", &headers, "UNSIGNED-PAYLOAD");
    assert_eq!(endpoint.send_cut("PUT", "/wire/k", "", &signed, b"", 1 << 20).code(), "AccessDenied");
}

/// A private object that replaces a public one between the access check and the read is not returned.
#[test]
fn what_replaces_a_public_object_is_not_read_by_its_acl() {
    let endpoint = start("ObjectWriter");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..150 {
                for (acl, body) in [("public-read", &b"open"[..]), ("private", b"shut")] {
                    let answer = endpoint.send("PUT", "/wire/k", "", &[("x-amz-acl", acl)], body);
                    assert_eq!(answer.code(), "OK");
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let answer = send(&endpoint, None, "GET", "/wire/k", "", &[], b"");
            assert!(answer.status == 403 || answer.body == b"open", "{answer:?}");
        }
    });
}
