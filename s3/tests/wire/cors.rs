//! CORS: responses to browsers' requests from other sites.

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{EMPTY, Signed, sign};

const RULES: &str = "<CORSConfiguration>\
    <CORSRule><ID>one</ID><AllowedOrigin>https://*.example.com</AllowedOrigin><AllowedOrigin>https://a</AllowedOrigin>\
    <AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader>\
    <ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>3000</MaxAgeSeconds></CORSRule>\
    <CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>\
    </CORSConfiguration>";

fn with_rules() -> Endpoint {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire", "cors=", &[], RULES.as_bytes()).code(), "OK");
    endpoint
}

/// An unsigned request.
fn bare(endpoint: &Endpoint, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let all: Vec<(&str, &str)> = [("host", "localhost")].iter().chain(headers).copied().collect();
    endpoint.send_signed(method, path, "", &Signed::bare(&all), b"")
}

fn preflight(endpoint: &Endpoint, origin: &str, method: &str, headers: &str) -> Answer {
    let asked =
        [("origin", origin), ("access-control-request-method", method), ("access-control-request-headers", headers)];
    bare(endpoint, "OPTIONS", "/wire/any/key", &asked)
}

#[test]
fn rules_come_back_as_they_were_put() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("GET", "/wire", "cors=", &[], b"").code(), "NoSuchCORSConfiguration");
    assert_eq!(endpoint.send("PUT", "/wire", "cors=", &[], RULES.as_bytes()).code(), "OK");
    let read = String::from_utf8(endpoint.send("GET", "/wire", "cors=", &[], b"").body).unwrap();
    for element in ["<ID>one</ID>", "<AllowedOrigin>https://a</AllowedOrigin>", "<MaxAgeSeconds>3000</MaxAgeSeconds>"] {
        assert!(read.contains(element), "{read}");
    }
    assert_eq!(endpoint.send("DELETE", "/wire", "cors=", &[], b"").status, 204);
    assert_eq!(endpoint.send("GET", "/wire", "cors=", &[], b"").code(), "NoSuchCORSConfiguration");
    let bad = RULES.replace("https://*.example.com", "https://*.*");
    assert_eq!(endpoint.send("PUT", "/wire", "cors=", &[], bad.as_bytes()).code(), "InvalidRequest");
    let rule = "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>";
    let many = format!("<CORSConfiguration>{}</CORSConfiguration>", rule.repeat(101));
    assert_eq!(endpoint.send("PUT", "/wire", "cors=", &[], many.as_bytes()).code(), "MalformedXML");
}

#[test]
fn preflights_are_answered_to_anybody() {
    let endpoint = with_rules();
    let allowed = preflight(&endpoint, "https://www.example.com", "PUT", "X-Amz-Date, x-amz-meta-a");
    assert_eq!(allowed.status, 200);
    for (name, value) in [
        ("access-control-allow-origin", "https://www.example.com"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "PUT, GET"),
        ("access-control-allow-headers", "X-Amz-Date, x-amz-meta-a"),
        ("access-control-expose-headers", "ETag"),
        ("access-control-max-age", "3000"),
        ("vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"),
    ] {
        assert_eq!(allowed.header(name), Some(value), "{name}");
    }
    let any = preflight(&endpoint, "https://elsewhere", "GET", "");
    assert_eq!((any.status, any.header("access-control-allow-origin")), (200, Some("*")));
    assert_eq!(any.header("access-control-allow-credentials"), None);
    for (origin, method, headers) in [
        ("https://elsewhere", "PUT", ""),
        ("https://www.example.com", "DELETE", ""),
        ("https://www.example.com", "PUT", "x-other"),
    ] {
        let refused = preflight(&endpoint, origin, method, headers);
        assert_eq!((refused.status, refused.code().as_str()), (403, "AccessForbidden"), "{origin} {method}");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
}

#[test]
fn preflights_that_ask_nothing_or_of_no_rules_are_refused() {
    let endpoint = with_rules();
    let code = |path: &str, headers: &[(&str, &str)]| bare(&endpoint, "OPTIONS", path, headers).code();
    let whole = [("origin", "https://a"), ("access-control-request-method", "GET")];
    assert_eq!(code("/wire", &[]), "BadRequest");
    assert_eq!(code("/wire", &whole[..1]), "BadRequest");
    assert_eq!(code("/wire", &[whole[0], ("access-control-request-method", "BREW")]), "BadRequest");
    assert_eq!(code("/no-such-bucket/k", &whole), "AccessForbidden");
    assert_eq!(code("/", &whole), "AccessForbidden");
    assert_eq!(code("/wire", &whole), "OK");
    assert_eq!(endpoint.send("DELETE", "/wire", "cors=", &[], b"").status, 204);
    assert_eq!(code("/wire", &whole), "AccessForbidden");
}

#[test]
fn answers_and_refusals_tell_what_the_rules_allow() {
    let endpoint = with_rules();
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let get = |path: &str, origin: &str| endpoint.send("GET", path, "", &[("origin", origin)], b"");
    for (path, status) in [("/wire/k", 200), ("/wire/none", 404)] {
        let answer = get(path, "https://a");
        assert_eq!(
            (answer.status, answer.header("access-control-allow-origin")),
            (status, Some("https://a")),
            "{path}"
        );
        assert_eq!(answer.header("access-control-expose-headers"), Some("ETag"));
        assert!(answer.header("vary").is_some_and(|vary| vary.contains("Origin")));
    }
    let denied = bare(&endpoint, "PUT", "/wire/k", &[("origin", "https://a")]);
    assert_eq!((denied.status, denied.header("access-control-allow-origin")), (403, Some("https://a")));
    assert_eq!(get("/wire/k", "https://elsewhere").header("access-control-allow-origin"), Some("*"));
    let put = sign(&endpoint.root, "DELETE", "/wire/k", "", &[("origin", "https://a")], EMPTY);
    let unmatched = endpoint.send_signed("DELETE", "/wire/k", "", &put, b"");
    assert_eq!((unmatched.status, unmatched.header("access-control-allow-origin")), (204, None));
    assert!(unmatched.header("vary").is_some());
    let plain = endpoint.send("GET", "/wire", "", &[], b"");
    assert_eq!((plain.header("vary"), plain.header("access-control-allow-origin")), (None, None));
}

#[test]
fn a_preflight_is_small() {
    let endpoint = Endpoint::start();
    let rule = |headers: usize| {
        let headers = "<AllowedHeader>b</AllowedHeader>".repeat(headers);
        let rule = "<AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedHeader>a</AllowedHeader>";
        let xml = format!("<CORSConfiguration><CORSRule>{rule}{headers}</CORSRule></CORSConfiguration>");
        endpoint.send("PUT", "/wire", "cors=", &[], xml.as_bytes()).code()
    };
    assert_eq!(rule(100), "InvalidRequest");
    assert_eq!(rule(99), "OK");
    let ask = |names: usize| preflight(&endpoint, "http://a", "GET", &"A,".repeat(names));
    assert_eq!(ask(100).status, 200);
    assert_eq!(ask(101).code(), "BadRequest");
    assert_eq!(ask(20_000).code(), "RequestHeaderSectionTooLarge");
}
