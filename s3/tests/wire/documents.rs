//! XML documents with content that the parser would skip: they are refused, and nothing is changed.

use crate::endpoint::Endpoint;

fn put(endpoint: &Endpoint, path: &str, query: &str, xml: &str) -> String {
    endpoint.send("PUT", path, query, &[], xml.as_bytes()).code()
}

#[test]
fn a_lifecycle_rule_is_about_what_its_document_says() {
    let endpoint = Endpoint::start();
    let rule = |filter: &str, days: &str| {
        format!(
            "<LifecycleConfiguration><Rule><Status>Enabled</Status>{filter}<Expiration><Days>{days}</Days></Expiration>\
             </Rule></LifecycleConfiguration>"
        )
    };
    for filter in [
        "<Filter><Prefix><![CDATA[logs/]]></Prefix></Filter>",
        "<Prefix><![CDATA[logs/]]></Prefix>",
        "<Filter><Prefix>logs<![CDATA[/]]></Prefix></Filter>",
        "<Filter><Prefix>lo<!-- -->gs/</Prefix></Filter>",
        "<Filter><Prefix><!-- logs/ --></Prefix></Filter>",
        "<Filter><Prefix>logs/<?x y?></Prefix></Filter>",
        "<Filter>logs/<Prefix/></Filter>",
        "<Filter>logs/</Filter>",
        "<Filter Prefix=\"logs/\"/>",
        "<Filter><prefix>logs/</prefix></Filter>",
        "<Filter><x:Prefix>logs/</x:Prefix></Filter>",
        "<Filter><Prefix><Text>logs/</Text></Prefix></Filter>",
        "<Filter><Prefix>lo<b/>gs/</Prefix></Filter>",
        "<Filter><Prefix>logs/</Prefix><Prefix></Prefix></Filter>",
        "<Filter><Prefix>&logs;</Prefix></Filter>",
        "<Filter><Prefix>logs/&#0;</Prefix></Filter>",
        "<Filter><Prefix>logs/\u{1}</Prefix></Filter>",
        "<Filter><Prefix>logs/</Prefix></Filter><Filter/>",
        "<Filter><Prefix>logs/</Prefix></Filter>logs/",
    ] {
        assert_eq!(put(&endpoint, "/wire", "lifecycle=", &rule(filter, "1")), "MalformedXML", "{filter}");
    }
    let whole = "<Filter><Prefix>logs/</Prefix></Filter>";
    for days in ["1x", "1.5", "1 0", "1<!-- -->0", "&#49;", "0x1"] {
        assert_eq!(put(&endpoint, "/wire", "lifecycle=", &rule(whole, days)), "MalformedXML", "{days}");
    }
    for document in [
        format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", rule(whole, "1")),
        format!("logs/{}", rule(whole, "1")),
        format!("{}logs/", rule(whole, "1")),
        format!("{0}{0}", rule(whole, "1")),
        format!("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>{}", rule(whole, "1")),
    ] {
        assert_eq!(put(&endpoint, "/wire", "lifecycle=", &document), "MalformedXML", "{document}");
    }
    let none = endpoint.send("GET", "/wire", "lifecycle=", &[], b"").code();
    assert_eq!(none, "NoSuchLifecycleConfiguration");
    assert_eq!(put(&endpoint, "/wire", "lifecycle=", &rule(whole, "1")), "OK");
}

#[test]
fn the_keys_of_a_document_are_deleted_and_no_others() {
    let endpoint = Endpoint::start();
    for key in ["a", "ab"] {
        assert_eq!(put(&endpoint, &format!("/wire/{key}"), "", "1"), "OK");
    }
    for object in [
        "<Key>a<![CDATA[b]]></Key>",
        "<Key>a<!-- -->b</Key>",
        "<Key>a<?x y?></Key>",
        "<Key>a</Key>b",
        "<Key>a</Key><Key>ab</Key>",
        "<Key>a<b/></Key>",
        "<Key>a\rb</Key>",
        "<Key>a</Key><VersionID>1</VersionID>",
    ] {
        let document = format!("<Delete><Object>{object}</Object></Delete>");
        let answer = endpoint.send("POST", "/wire", "delete=", &[], document.as_bytes());
        assert_eq!((answer.status, answer.code().as_str()), (400, "MalformedXML"), "{object}");
    }
    for key in ["a", "ab"] {
        assert_eq!(endpoint.send("GET", &format!("/wire/{key}"), "", &[], b"").body, b"1", "{key}");
    }
    let clean = "<Delete>\r\n<!-- two -->\r\n<Object><Key>&#97;</Key></Object><Object><Key>ab</Key></Object></Delete>";
    assert_eq!(endpoint.send("POST", "/wire", "delete=", &[], clean.as_bytes()).code(), "OK");
    assert_eq!(endpoint.send("HEAD", "/wire/a", "", &[], b"").status, 404);
}

/// A document for each operation that reads one. It is accepted, or refused for a reason other than skipped content.
const DOCUMENTS: [(&str, &str, &str, &str, &str); 14] = [
    ("PUT", "/other", "", "<CreateBucketConfiguration></CreateBucketConfiguration>", "OK"),
    ("POST", "/wire", "delete=", "<Delete><Object><Key>a</Key></Object></Delete>", "OK"),
    (
        "POST",
        "/wire/k",
        "uploadId=none",
        "<CompleteMultipartUpload><Part><ETag>e</ETag><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
        "NoSuchUpload",
    ),
    ("PUT", "/wire", "tagging=", "<Tagging><TagSet></TagSet></Tagging>", "OK"),
    ("PUT", "/wire/k", "tagging=", "<Tagging><TagSet></TagSet></Tagging>", "OK"),
    (
        "PUT",
        "/wire",
        "cors=",
        "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>\
         </CORSConfiguration>",
        "OK",
    ),
    (
        "PUT",
        "/wire",
        "lifecycle=",
        "<LifecycleConfiguration><Rule><Status>Enabled</Status><Prefix>a</Prefix><Expiration><Days>1</Days></Expiration>\
         </Rule></LifecycleConfiguration>",
        "OK",
    ),
    (
        "PUT",
        "/wire",
        "versioning=",
        "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
        "OK",
    ),
    (
        "PUT",
        "/wire",
        "object-lock=",
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>",
        "InvalidBucketState",
    ),
    (
        "PUT",
        "/wire/k",
        "retention=",
        "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate></Retention>",
        "InvalidRequest",
    ),
    ("PUT", "/wire/k", "legal-hold=", "<LegalHold><Status>ON</Status></LegalHold>", "InvalidRequest"),
    (
        "PUT",
        "/wire",
        "publicAccessBlock=",
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>",
        "OK",
    ),
    (
        "PUT",
        "/wire",
        "ownershipControls=",
        "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
        "OK",
    ),
    (
        "PUT",
        "/wire",
        "acl=",
        "<AccessControlPolicy><Owner><ID>root</ID></Owner><AccessControlList><Grant><Grantee \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"><ID>root</ID></Grantee>\
         <Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>",
        "OK",
    ),
];

#[test]
fn what_no_operation_reads_is_refused_in_every_document() {
    let endpoint = Endpoint::start();
    assert_eq!(put(&endpoint, "/wire/k", "", "1"), "OK");
    for (method, path, query, document, expected) in DOCUMENTS {
        let end = document.rfind("</").unwrap();
        let within = |more: &str| format!("{}{more}{}", &document[..end], &document[end..]);
        for bad in [
            within("<Unknown/>"),
            within("<![CDATA[]]>"),
            within("text"),
            within("&amp;"),
            document.replacen('>', " Unknown=\"1\">", 1),
            format!("<!DOCTYPE a>{document}"),
        ] {
            let code = endpoint.send(method, path, query, &[], bad.as_bytes()).code();
            assert_eq!(code, "MalformedXML", "{method} {path}?{query} {bad}");
        }
        let code = endpoint.send(method, path, query, &[], document.as_bytes()).code();
        assert_eq!(code, expected, "{method} {path}?{query}");
    }
}

#[test]
fn the_tags_of_a_form_are_read_as_those_of_a_document() {
    let endpoint = Endpoint::start();
    for (tagging, expected) in [
        ("<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>", "OK"),
        ("<Tagging><TagSet><Tag><Key>a</Key><Value>b<![CDATA[c]]></Value></Tag></TagSet></Tagging>", "MalformedXML"),
    ] {
        let mut fields = vec![("key", "k".to_owned()), ("tagging", tagging.to_owned())];
        fields.extend(crate::sign::sign_form(
            &endpoint.root,
            r#"{"bucket": "wire"}, {"key": "k"}, ["starts-with", "$tagging", ""]"#,
        ));
        let fields: String = fields
            .iter()
            .map(|(name, value)| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"))
            .collect();
        let body = format!(
            "{fields}--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\ncontent\r\n--b--\r\n"
        );
        let head =
            crate::sign::Signed::bare(&[("host", "localhost"), ("content-type", "multipart/form-data; boundary=b")]);
        let answer = endpoint.send_signed("POST", "/wire", "", &head, body.as_bytes());
        assert_eq!(answer.code(), expected, "{tagging}");
    }
}
