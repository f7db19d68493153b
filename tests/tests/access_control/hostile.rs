//! Hostile input: documents, heads and messages meant to take memory or time, each answered at once.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use proto::cosi::v1alpha1::DriverCreateBucketRequest;
use proto::cosi::v1alpha1::provisioner_client::ProvisionerClient;
use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::{CreateVolumeRequest, ListVolumesRequest};
use tonic::Code;

use crate::signatures::{Request, Signer};
use crate::support::*;

/// The time limit for each input: far above what it takes, and far below what it would take if its own numbers were
/// believed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much the server's memory may grow by all inputs.
const GROWTH_KIB: u64 = 256 << 10;

/// The peak memory of the server.
fn peak_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().expect("it runs"))).expect("read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

fn lol(depth: usize) -> String {
    let mut text = "<!DOCTYPE d [<!ENTITY a0 \"lol\">".to_owned();
    for level in 1..depth {
        let _ = write!(text, "<!ENTITY a{level} \"{}\">", format!("&a{};", level - 1).repeat(10));
    }
    format!("<?xml version=\"1.0\"?>{text}]><Delete><Object><Key>&a{};</Key></Object></Delete>", depth - 1)
}

fn documents() -> Vec<(&'static str, Vec<u8>)> {
    let file =
        "<!DOCTYPE d [<!ENTITY x SYSTEM \"file:///etc/hostname\">]><Delete><Object><Key>&x;</Key></Object></Delete>";
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let many = "<Object><Key>x</Key></Object>";
    vec![
        ("entities in entities", lol(10).into_bytes()),
        ("an entity of a file", file.into()),
        ("a hundred thousand levels", "<a>".repeat(100_000).into_bytes()),
        ("deeply nested known elements", "<Delete><Object>".repeat(20_000).into_bytes()),
        ("UTF-16", utf16("<?xml version=\"1.0\" encoding=\"UTF-16\"?><Delete/>")),
        ("not UTF-8", b"<Delete><Object><Key>\xff\xfe</Key></Object></Delete>".to_vec()),
        ("more keys than the limit", format!("<Delete>{}</Delete>", many.repeat(1001)).into_bytes()),
        ("elements without end", format!("<Delete>{}</Delete>", many.repeat(60_000)).into_bytes()),
        ("a long name", format!("<{}/>", "a".repeat(4 << 20)).into_bytes()),
        ("many attributes", format!("<Delete {}/>", "a=\"b\" ".repeat(400_000)).into_bytes()),
        ("a long comment", format!("<!--{}", "-".repeat(4 << 20)).into_bytes()),
        ("nine megabytes", format!("<Delete>{}", " ".repeat(9 << 20)).into_bytes()),
        ("half a document", b"<Delete><Object><Key>a".to_vec()),
        ("nothing", Vec::new()),
        ("something else", b"{\"Delete\": []}".to_vec()),
    ]
}

#[test]
fn hostile_documents_are_refused_at_once() {
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    let before = peak_kib(&server);
    for (what, document) in documents() {
        for (method, path, query) in [
            ("POST", "/vessel", "delete="),
            ("PUT", "/vessel", "tagging="),
            ("PUT", "/vessel", "lifecycle="),
            ("POST", "/vessel/k", "uploadId=u"),
        ] {
            let begun = Instant::now();
            let answer =
                signer.sign(&Request::new(method, path).query(query).body(document.clone())).send(&signer.host);
            assert!((400..500).contains(&answer.status), "{what}, {query}: {answer}");
            assert!(
                !answer.text.contains("lollol") && begun.elapsed() < TIMEOUT,
                "{what}, {query}: {:?}",
                begun.elapsed()
            );
        }
    }
    let grown = peak_kib(&server).saturating_sub(before);
    assert!(grown < GROWTH_KIB, "the server grew by {grown} KiB");
}

/// A document type declaration is refused, and what it names is not fetched.
#[test]
fn nothing_is_fetched_for_a_document() {
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    elsewhere.set_nonblocking(true).expect("set");
    let url = format!("http://{}/x.dtd", elsewhere.local_addr().expect("bound"));
    for head in [
        format!("<!DOCTYPE Delete SYSTEM \"{url}\">"),
        format!("<!DOCTYPE Delete [<!ENTITY % x SYSTEM \"{url}\">%x;]>"),
        format!("<?xml-stylesheet href=\"{url}\"?>"),
    ] {
        let document = format!("{head}<Delete><Object><Key>a</Key></Object></Delete>");
        let answer = signer.sign(&Request::new("POST", "/vessel").query("delete=").body(document)).send(&signer.host);
        assert!(answer.status < 500, "{head}: {answer}");
    }
    let fetched = elsewhere.accept();
    assert!(
        fetched.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
        "the server fetched the entity"
    );
}

#[test]
fn hostile_policies_are_refused_or_evaluated_at_once() {
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    let policy = |resource: &str| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Deny","Principal":"*","Action":"s3:GetObject",
               "Resource":"arn:aws:s3:::vessel/{resource}"}}}}"#
        )
    };
    for (text, taken) in [
        (policy(&"*a".repeat(2000)), true),
        (policy(&"?*".repeat(2000)), true),
        (policy(&"*".repeat(8000)), true),
        (policy(&"a".repeat(30_000)), false),
        (format!("{{\"Statement\":{}", "[".repeat(9000)), false),
        ("[".repeat(20_000), false),
    ] {
        let begun = Instant::now();
        let put = signer.sign(&Request::new("PUT", "/vessel").query("policy=").body(text.clone())).send(&signer.host);
        assert_eq!(put.status, if taken { 204 } else { 400 }, "{put}");
        let key = "a".repeat(1000);
        let got = signer.sign(&Request::new("GET", format!("/vessel/{key}b"))).send(&signer.host);
        assert!([403, 404].contains(&got.status), "{got}");
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
    }
}

#[test]
fn hostile_heads_are_refused_at_once() {
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    let get = || signer.sign(&Request::new("GET", "/vessel").query("list-type=2"));
    let before = peak_kib(&server);
    let many = |count: usize| (0..count).fold(get(), |wire, n| wire.and_header(&format!("x-amz-meta-{n}"), "v"));
    let query = |query: String| signer.sign(&Request::new("GET", "/vessel").query(&query));
    for (what, wire, refused) in [
        ("300 headers", many(300), true),
        ("a header of 64 KiB", get().and_header("x-amz-meta-a", "v".repeat(64 << 10)), true),
        (
            "headers of 48 KiB",
            (0..48).fold(get(), |wire, n| wire.and_header(&format!("x-h{n}"), "v".repeat(1 << 10))),
            true,
        ),
        ("two hosts", get().and_header("host", "elsewhere"), true),
        ("two lengths", get().and_header("content-length", "5").and_header("content-length", "6"), true),
        (
            "a length and chunks",
            get().and_header("content-length", "5").and_header("transfer-encoding", "chunked"),
            false,
        ),
        ("a folded header", get().and_header("x-a", "b\r\n c"), true),
        ("a split header", get().and_header("x-a", "b\nx-amz-date: 20200101T000000Z"), true),
        ("4,000 parameters", query((0..4000).map(|n| format!("a{n}=b&")).collect()), false),
        ("a parameter of 60 KB", query(format!("prefix={}", "a".repeat(60_000))), false),
        ("the same parameter 1,000 times", query("prefix=a&".repeat(1000)), false),
        ("a page without end", query("list-type=2&max-keys=99999999999999999999".into()), true),
        ("a page below zero", query("list-type=2&max-keys=-1".into()), true),
        ("an invented token", query("list-type=2&continuation-token=zzzz".into()), true),
    ] {
        let begun = Instant::now();
        // A head that is not HTTP may be answered by closing the connection.
        let mut socket = std::net::TcpStream::connect(&signer.host).expect("it accepts");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let head: String = wire.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("{} {}?{} HTTP/1.1\r\n{head}connection: close\r\n\r\n", wire.method, wire.path, wire.query);
        let _ = socket.write_all(text.as_bytes());
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status: Option<u16> = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        assert!(status.is_none_or(|status| status < 500 && (!refused || status >= 400)), "{what}: {text}");
        assert!(begun.elapsed() < TIMEOUT, "{what}: {:?}", begun.elapsed());
    }
    assert!(peak_kib(&server).saturating_sub(before) < GROWTH_KIB);
    assert_eq!(get().send(&signer.host).status, 200, "the next request is served");
}

/// Headers in an answer that a client chose cannot add further headers or a body.
#[test]
fn an_answer_cannot_be_split() {
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    signer.sign(&Request::new("PUT", "/vessel/k").body("x")).send(&signer.host);
    for value in ["a%0d%0aX-Injected:%20yes", "a%0aX-Injected:%20yes", "a%00", "%C3%A9%0d"] {
        for name in ["response-content-type", "response-content-disposition", "response-cache-control"] {
            let answer =
                signer.sign(&Request::new("GET", "/vessel/k").query(&format!("{name}={value}"))).send(&signer.host);
            assert!(answer.status < 500, "{name}={value}: {answer}");
            assert!(!answer.text.to_lowercase().contains("\nx-injected:"), "{name}={value}: {}", answer.text);
        }
    }
}

/// Bytes that are not gRPC, sent to every socket: the server continues.
#[test]
fn bytes_that_are_not_grpc_reach_no_service() {
    let server = Options::default().split_csi().start();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frame = |kind: u8, flags: u8, stream: u32, body: &[u8]| {
        let len = u32::try_from(body.len()).expect("small").to_be_bytes();
        [&len[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
    };
    let settings = frame(4, 0, 0, &[]);
    let with = |frames: &[Vec<u8>]| [&preface[..], &settings, &frames.concat()].concat();
    let inputs: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 100_000],
        (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
        preface[..10].to_vec(),
        with(&[frame(0, 1, 1, &[0xff; 100])]),
        with(&[frame(1, 4, 1, &[0xff; 1000])]),
        with(&[[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1].to_vec()]),
        with(&(0..2000u32).map(|n| frame(3, 0, 2 * n + 1, &[0, 0, 0, 8])).collect::<Vec<_>>()),
        with(&(0..20_000).map(|_| frame(6, 0, 0, &[0; 8])).collect::<Vec<_>>()),
        with(&(0..20_000).map(|_| settings.clone()).collect::<Vec<_>>()),
    ];
    let before = peak_kib(&server);
    for name in ["csi", "csi-node", "cosi", "admin"] {
        for input in &inputs {
            send_bytes(&server.ready().socket(name), input);
        }
    }
    assert!(peak_kib(&server).saturating_sub(before) < GROWTH_KIB);
    assert!(!server.log().contains("panicked"));
    cli::json(&server, &["status"]);
}

fn send_bytes(socket: &Path, input: &[u8]) {
    let mut stream = UnixStream::connect(socket).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    // The server may close the connection at any byte.
    let _ = stream.write_all(input);
    let _ = stream.read(&mut [0; 4096]);
}

#[tokio::test]
async fn messages_that_are_too_large_are_refused() {
    let server = Server::start();
    let before = peak_kib(&server);
    let mut csi = ControllerClient::new(grpc::channel(&server.ready().socket("csi")).await);
    let mut cosi = ProvisionerClient::new(grpc::channel(&server.ready().socket("cosi")).await);
    let large = |bytes: usize| "x".repeat(bytes);
    for bytes in [5 << 20, 64 << 20] {
        let status = csi.create_volume(CreateVolumeRequest { name: large(bytes), ..Default::default() }).await;
        let code = status.expect_err("too large").code();
        assert!(matches!(code, Code::OutOfRange | Code::ResourceExhausted | Code::InvalidArgument), "{code:?}");
        let request = DriverCreateBucketRequest { name: large(bytes), ..Default::default() };
        let code = cosi.driver_create_bucket(request).await.expect_err("too large").code();
        assert!(matches!(code, Code::OutOfRange | Code::ResourceExhausted | Code::InvalidArgument), "{code:?}");
    }
    let parameters = (0..20_000).map(|n| (format!("key-{n}"), "v".repeat(100))).collect();
    let status = csi.create_volume(CreateVolumeRequest { name: "n".into(), parameters, ..Default::default() }).await;
    assert!(status.is_err(), "unknown parameters");
    csi.list_volumes(ListVolumesRequest::default()).await.expect("the next request is served");
    assert!(peak_kib(&server).saturating_sub(before) < GROWTH_KIB);
}
