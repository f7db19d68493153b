//! Static websites: the settings, and the answers of the website listener.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::endpoint::{Answer, Endpoint, receive};

const HOST: &str = "wire.website.example.org";
const INDEX: &str = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";

fn start() -> Endpoint {
    let endpoint = Endpoint::start_with(|config| {
        config.block_public_access = false;
        config.website_domains = ["website.example.org".parse().unwrap()].into_iter().collect();
    });
    for (key, content) in
        [("index.html", "home"), ("docs/index.html", "docs"), ("a.txt", "0123456789"), ("error.html", "sorry")]
    {
        let path = format!("/wire/{key}");
        let headers = [("content-type", "text/html")];
        assert_eq!(endpoint.send("PUT", &path, "", &headers, content.as_bytes()).code(), "OK");
    }
    endpoint
}

fn set(endpoint: &Endpoint, inner: &str) -> Answer {
    let document = format!("<WebsiteConfiguration>{inner}</WebsiteConfiguration>");
    endpoint.send("PUT", "/wire", "website=", &[], document.as_bytes())
}

/// A policy that allows everyone this action on the bucket or on all its objects.
fn open(endpoint: &Endpoint, actions: &str) {
    let policy = format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Principal": "*", "Action": [{actions}],
            "Resource": ["arn:aws:s3:::wire", "arn:aws:s3:::wire/*"]}}}}"#
    );
    assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], policy.as_bytes()).code(), "OK");
}

fn site(actions: &str, inner: &str) -> Endpoint {
    let endpoint = start();
    open(&endpoint, actions);
    assert_eq!(set(&endpoint, inner).code(), "OK");
    endpoint
}

/// A request of a browser, byte by byte.
fn ask(endpoint: &Endpoint, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
    let mut stream = TcpStream::connect(endpoint.website).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let host = [("host", HOST)];
    let named = headers.iter().any(|(name, _)| *name == "host");
    let all = headers.iter().chain(host.iter().filter(|_| !named));
    let lines: String = all.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    stream.write_all(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap();
    receive(&mut stream, method)
}

fn get(endpoint: &Endpoint, target: &str) -> (u16, String) {
    let answer = ask(endpoint, "GET", target, &[]);
    (answer.status, String::from_utf8(answer.body).unwrap())
}

fn location(endpoint: &Endpoint, target: &str) -> (u16, String) {
    let answer = ask(endpoint, "GET", target, &[]);
    (answer.status, answer.header("location").unwrap_or_default().to_owned())
}

const READ: &str = r#""s3:GetObject""#;
const READ_AND_LIST: &str = r#""s3:GetObject", "s3:ListBucket""#;

#[test]
fn a_website_comes_back_as_it_was_set() {
    let endpoint = Endpoint::start();
    let read = || String::from_utf8(endpoint.send("GET", "/wire", "website=", &[], b"").body).unwrap();
    for inner in [
        INDEX.to_owned(),
        format!("<ErrorDocument><Key>e/404.html</Key></ErrorDocument>{INDEX}"),
        "<RedirectAllRequestsTo><HostName>www.example.org</HostName><Protocol>https</Protocol></RedirectAllRequestsTo>"
            .into(),
        format!(
            "{INDEX}<RoutingRules><RoutingRule><Condition><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals>\
             <KeyPrefixEquals>a/</KeyPrefixEquals></Condition><Redirect><HostName>h:81</HostName>\
             <HttpRedirectCode>302</HttpRedirectCode><Protocol>http</Protocol>\
             <ReplaceKeyPrefixWith>b/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules>"
        ),
    ] {
        assert_eq!(set(&endpoint, &inner).code(), "OK", "{inner}");
        assert!(read().contains(&inner), "{inner}\n{}", read());
    }
    assert_eq!(endpoint.send("DELETE", "/wire", "website=", &[], b"").status, 204);
    assert_eq!(endpoint.send("GET", "/wire", "website=", &[], b"").code(), "NoSuchWebsiteConfiguration");
}

#[test]
fn a_website_that_could_not_be_served_is_refused() {
    let endpoint = Endpoint::start();
    let rule = |condition: &str, redirect: &str| {
        let rule = format!("<RoutingRule>{condition}<Redirect>{redirect}</Redirect></RoutingRule>");
        format!("{INDEX}<RoutingRules>{rule}</RoutingRules>")
    };
    let code = |code: &str| {
        format!("<Condition><HttpErrorCodeReturnedEquals>{code}</HttpErrorCodeReturnedEquals></Condition>")
    };
    let (host, bad) = ("<HostName>h</HostName>", "InvalidRequest");
    let many = format!("<RoutingRule><Redirect>{host}</Redirect></RoutingRule>").repeat(51);
    for (inner, expected) in [
        (String::new(), "InvalidArgument"),
        ("<IndexDocument><Suffix></Suffix></IndexDocument>".into(), "InvalidArgument"),
        ("<IndexDocument><Suffix>a/b</Suffix></IndexDocument>".into(), "InvalidArgument"),
        (format!("{INDEX}<ErrorDocument><Key></Key></ErrorDocument>"), "InvalidArgument"),
        (format!("<RedirectAllRequestsTo>{host}</RedirectAllRequestsTo>{INDEX}"), bad),
        ("<RedirectAllRequestsTo><HostName>a/b</HostName></RedirectAllRequestsTo>".into(), bad),
        ("<RedirectAllRequestsTo><HostName>a&#13;&#10;b</HostName></RedirectAllRequestsTo>".into(), bad),
        (format!("<RedirectAllRequestsTo>{host}<Protocol>ftp</Protocol></RedirectAllRequestsTo>"), bad),
        (rule("", ""), "MalformedXML"),
        (rule("<Condition></Condition>", host), bad),
        (rule(&code("200"), host), bad),
        (rule(&code("x"), host), bad),
        (rule("", "<HttpRedirectCode>300</HttpRedirectCode>"), bad),
        (rule("", "<ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>b</ReplaceKeyPrefixWith>"), bad),
        (rule("", "<Unknown/>"), "MalformedXML"),
        (format!("{INDEX}<RoutingRules>{many}</RoutingRules>"), bad),
        (format!("{INDEX}text"), "MalformedXML"),
    ] {
        assert_eq!(set(&endpoint, &inner).code(), expected, "{inner}");
    }
}

#[test]
fn objects_are_served_with_index_documents_ranges_and_conditions() {
    let endpoint = site(READ, INDEX);
    assert_eq!(get(&endpoint, "/"), (200, "home".into()));
    assert_eq!(get(&endpoint, "/docs/"), (200, "docs".into()));
    assert_eq!(get(&endpoint, "/a.txt?x=y"), (200, "0123456789".into()));
    assert_eq!(location(&endpoint, "/docs"), (302, "/docs/".into()));
    let whole = ask(&endpoint, "GET", "/a.txt", &[]);
    assert_eq!(whole.header("content-type"), Some("text/html"));
    let etag = whole.header("etag").unwrap().to_owned();
    let ranged = ask(&endpoint, "GET", "/a.txt", &[("range", "bytes=2-4")]);
    assert_eq!((ranged.status, ranged.body.as_slice()), (206, &b"234"[..]));
    assert_eq!(ask(&endpoint, "GET", "/a.txt", &[("range", "bytes=50-")]).status, 416);
    assert_eq!(ask(&endpoint, "GET", "/a.txt", &[("if-none-match", &etag)]).status, 304);
    assert_eq!(ask(&endpoint, "GET", "/a.txt", &[("if-match", "\"x\"")]).status, 412);
    let head = ask(&endpoint, "HEAD", "/a.txt", &[]);
    assert_eq!((head.status, head.header("content-length")), (200, Some("10")));
    assert_eq!(ask(&endpoint, "HEAD", "/docs", &[]).status, 302);
    for method in ["PUT", "POST", "DELETE", "OPTIONS", "PATCH"] {
        let answer = ask(&endpoint, method, "/a.txt?policy", &[("content-length", "0")]);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(endpoint.send("GET", "/wire/a.txt", "", &[], b"").status, 200, "the object still exists");
}

#[test]
fn hosts_choose_buckets() {
    let endpoint = site(READ, INDEX);
    for host in [HOST, "WIRE.website.example.org:8080", "wire", "wire:80", "wire."] {
        let answer = ask(&endpoint, "GET", "/", &[("host", host)]);
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"home"[..]), "{host}");
    }
    for (host, code) in [
        ("none.website.example.org", "NoSuchBucket"),
        ("website.example.org", "NoSuchBucket"),
        ("127.0.0.1", "NoSuchBucket"),
        ("a_b", "NoSuchBucket"),
    ] {
        let answer = ask(&endpoint, "GET", "/wire/a.txt", &[("host", host)]);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(answer.status == 404 && text.contains(&format!("<li>Code: {code}</li>")), "{host} {text}");
    }
    assert_eq!(endpoint.send("DELETE", "/wire", "website=", &[], b"").status, 204);
    let (status, text) = get(&endpoint, "/");
    assert!(status == 404 && text.contains("NoSuchWebsiteConfiguration"), "{text}");
}

#[test]
fn only_what_anonymous_may_read_is_served() {
    let endpoint = start();
    assert_eq!(set(&endpoint, INDEX).code(), "OK");
    let (status, text) = get(&endpoint, "/a.txt");
    assert!(status == 403 && text.contains("<title>403 Forbidden</title>"), "{text}");
    assert!(text.contains("<li>Code: AccessDenied</li>") && !text.contains("0123456789"), "{text}");
    // The website listener ignores signatures, valid or not.
    let signed = crate::sign::sign(&endpoint.root, "GET", "/a.txt", "", &[("host", HOST)], crate::sign::EMPTY);
    let headers: Vec<(&str, &str)> =
        signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(ask(&endpoint, "GET", "/a.txt", &headers).status, 403);
    // The answer does not show that a folder has an index document that the caller may not read.
    assert_eq!(location(&endpoint, "/docs"), (403, String::new()));
    open(&endpoint, READ);
    assert_eq!(get(&endpoint, "/none").0, 403, "a caller without the right to list gets 403 for an absent key");
    open(&endpoint, READ_AND_LIST);
    assert_eq!(get(&endpoint, "/none").0, 404);
    let block = b"<PublicAccessBlockConfiguration><RestrictPublicBuckets>true</RestrictPublicBuckets>\
        </PublicAccessBlockConfiguration>";
    assert_eq!(endpoint.send("PUT", "/wire", "publicAccessBlock=", &[], block).code(), "OK");
    assert_eq!(get(&endpoint, "/a.txt").0, 403, "the public access block is in force");
}

#[test]
fn errors_are_pages_that_say_no_markup_of_a_request() {
    let endpoint = site(READ_AND_LIST, INDEX);
    let answer = ask(&endpoint, "GET", "/%3Cscript%3Ealert(1)%3C/script%3E", &[]);
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert_eq!(answer.status, 404, "{text}");
    assert!(text.starts_with("<html>\n<head><title>404 Not Found</title></head>"), "{text}");
    for item in ["<li>Code: NoSuchKey</li>", "<li>Message: The specified key does not exist.</li>", "<li>RequestId: "] {
        assert!(text.contains(item), "{text}");
    }
    assert!(
        text.contains("<li>Key: &lt;script&gt;alert(1)&lt;/script&gt;</li>") && !text.contains("<script"),
        "{text}"
    );
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("x-amz-error-code"), Some("NoSuchKey"));
    assert!(ask(&endpoint, "HEAD", "/none", &[]).body.is_empty());
    assert_eq!(get(&endpoint, "/%FF").0, 400);
    assert_eq!(get(&endpoint, &format!("/{}", "x".repeat(1025))).0, 400);
}

#[test]
fn the_error_document_has_the_status_of_the_error() {
    let endpoint = site(READ_AND_LIST, &format!("<ErrorDocument><Key>error.html</Key></ErrorDocument>{INDEX}"));
    assert_eq!(get(&endpoint, "/none"), (404, "sorry".into()));
    let ranged = ask(&endpoint, "GET", "/none", &[("range", "bytes=0-1")]);
    assert_eq!((ranged.status, ranged.body.as_slice()), (404, &b"sorry"[..]));
    assert_eq!(endpoint.send("DELETE", "/wire/error.html", "", &[], b"").status, 204);
    let (status, text) = get(&endpoint, "/none");
    assert!(status == 404 && text.contains("<li>Key: none</li>"), "{text}");
    let heading = "An Error Occurred While Attempting to Retrieve a Custom Error Document";
    assert!(text.contains(heading) && text.contains("<li>Key: error.html</li>"), "{text}");
}

#[test]
fn redirects_follow_rules_and_objects() {
    let rule = |condition: &str, redirect: &str| {
        format!("<RoutingRule><Condition>{condition}</Condition><Redirect>{redirect}</Redirect></RoutingRule>")
    };
    let rules = [
        rule("<KeyPrefixEquals>old/</KeyPrefixEquals>", "<ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith>"),
        rule(
            "<KeyPrefixEquals>ext/</KeyPrefixEquals>",
            "<HostName>example.com</HostName><Protocol>https</Protocol><HttpRedirectCode>307</HttpRedirectCode>",
        ),
        rule(
            "<HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals>",
            "<ReplaceKeyPrefixWith>#!/</ReplaceKeyPrefixWith>",
        ),
    ];
    let endpoint = site(READ_AND_LIST, &format!("{INDEX}<RoutingRules>{}</RoutingRules>", rules.concat()));
    assert_eq!(location(&endpoint, "/old/a%20b"), (301, format!("http://{HOST}/new/a%20b")));
    assert_eq!(
        location(&endpoint, "/ext/x%0d%0aSet-Cookie:%20a"),
        (307, "https://example.com/ext/x%0D%0ASet-Cookie:%20a".into())
    );
    assert_eq!(location(&endpoint, "/none"), (301, format!("http://{HOST}/#!/none")));
    assert_eq!(get(&endpoint, "/a.txt").0, 200);

    let put =
        |to: &str| endpoint.send("PUT", "/wire/moved", "", &[("x-amz-website-redirect-location", to)], b"x").code();
    for bad in ["a", "ftp://a", "javascript:1", &format!("/{}", "x".repeat(2048))] {
        assert_eq!(put(bad), "InvalidRedirectLocation", "{bad}");
    }
    assert_eq!(put("/a.txt"), "OK");
    assert_eq!(location(&endpoint, "/moved"), (301, "/a.txt".into()));
    for method in ["GET", "HEAD"] {
        let answer = endpoint.send(method, "/wire/moved", "", &[], b"");
        assert_eq!(answer.header("x-amz-website-redirect-location"), Some("/a.txt"), "{method}");
    }
    // A copy has the requested redirect, and not that of its source.
    let copied = |headers: &[(&str, &str)]| {
        let all: Vec<(&str, &str)> = [("x-amz-copy-source", "/wire/moved")].iter().chain(headers).copied().collect();
        assert_eq!(endpoint.send("PUT", "/wire/copy", "", &all, b"").code(), "OK");
        endpoint.send("HEAD", "/wire/copy", "", &[], b"").header("x-amz-website-redirect-location").map(str::to_owned)
    };
    assert_eq!(copied(&[]), None);
    assert_eq!(copied(&[("x-amz-website-redirect-location", "/b")]).as_deref(), Some("/b"));

    let all = "<RedirectAllRequestsTo><HostName>www.example.org</HostName></RedirectAllRequestsTo>";
    assert_eq!(set(&endpoint, all).code(), "OK");
    assert_eq!(location(&endpoint, "/a/b?c=d"), (301, "http://www.example.org/a/b?c=d".into()));
    assert_eq!(location(&endpoint, "//evil.example/x"), (301, "http://www.example.org//evil.example/x".into()));
}

#[test]
fn no_folder_redirect_leads_to_another_host() {
    let endpoint = site(READ, INDEX);
    assert_eq!(endpoint.send("PUT", "/wire//evil.example/index.html", "", &[], b"x").code(), "OK");
    assert_eq!(location(&endpoint, "//evil.example"), (302, "/%2Fevil.example/".into()));
}
