//! The endpoint with TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::endpoint::{Answer, EXPECT, Endpoint, closes, goes_on, head, receive};
use crate::http2::Client;
use crate::sign::{EMPTY, sha256, sign};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// The certificate files of a server.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> (Self, CertificateDer<'static>) {
        let files = Self(tempfile::tempdir().unwrap());
        let certificate = files.renew();
        (files, certificate)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a new certificate and key into both files.
    fn renew(&self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(self.path("tls.key"), made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(self.path("tls.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(self.path("tls.crt"), made.cert.pem()).unwrap();
        made.cert.der().clone()
    }

    fn serve(&self) -> Endpoint {
        let tls = s3::Tls::load(self.path("tls.crt"), self.path("tls.key")).unwrap();
        Endpoint::start_with(|config| {
            config.tls = Some(tls.looked_at_every(Duration::from_millis(50)));
            config.limits.handshake = Duration::from_secs(3);
        })
    }
}

fn trusting(
    certificate: &CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
    alpn: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(versions).unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// A connection after its TLS handshake; `None` if the client does not accept the server's certificate.
fn connect(endpoint: &Endpoint, config: Arc<ClientConfig>) -> Option<Stream> {
    let client = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, endpoint.connect());
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    Some(stream)
}

fn ask(endpoint: &Endpoint, stream: &mut Stream, method: &str, path: &str, body: &[u8]) -> Answer {
    let payload = if body.is_empty() { EMPTY.to_owned() } else { sha256(body) };
    let signed = sign(&endpoint.root, method, path, "", &[], &payload);
    stream.write_all(head(method, path, "", &signed.headers, body.len()).as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    receive(stream, method)
}

#[test]
fn both_versions_serve_whole_objects() {
    let (files, certificate) = Files::new();
    let endpoint = files.serve();
    let content: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    for (version, name) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let mut stream = connect(&endpoint, trusting(&certificate, &[version], &["http/1.1"])).unwrap();
        assert_eq!(stream.conn.protocol_version(), Some(name));
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(ask(&endpoint, &mut stream, "PUT", "/wire", b"").code(), "OK");
        assert_eq!(ask(&endpoint, &mut stream, "PUT", "/wire/k", &content).code(), "OK");
        assert!(ask(&endpoint, &mut stream, "GET", "/wire/k", b"").body == content);
    }
}

#[test]
fn a_policy_knows_the_version_of_tls() {
    let (files, certificate) = Files::new();
    let endpoint = files.serve();
    let connected = |version| connect(&endpoint, trusting(&certificate, &[version], &["http/1.1"])).unwrap();
    let mut newer = connected(&TLS13);
    assert_eq!(ask(&endpoint, &mut newer, "PUT", "/wire", b"").code(), "OK");
    assert_eq!(ask(&endpoint, &mut newer, "PUT", "/wire/k", b"1").code(), "OK");
    let deny = r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::wire/*", "Condition": {"NumericLessThan": {"s3:TlsVersion": "1.3"}}}}"#;
    let bucket = "wire".parse().unwrap();
    let put = endpoint.store.put_policy(&bucket, deny.into(), Default::default(), |_| Ok(()));
    endpoint.block_on(put).unwrap();
    assert_eq!(ask(&endpoint, &mut newer, "GET", "/wire/k", b"").code(), "OK");
    assert_eq!(ask(&endpoint, &mut connected(&TLS12), "GET", "/wire/k", b"").code(), "AccessDenied");
}

#[test]
fn http_2_is_agreed_on_in_the_handshake() {
    let (files, certificate) = Files::new();
    let endpoint = files.serve();
    endpoint.block_on(async {
        let connector = TlsConnector::from(trusting(&certificate, &[&TLS13], &["h2", "http/1.1"]));
        let socket = tokio::net::TcpStream::connect(endpoint.address).await.unwrap();
        let stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let client = Client::new(stream).await;
        for (method, path, body, answer) in
            [("PUT", "/wire", &b""[..], &b""[..]), ("PUT", "/wire/k", b"1", b""), ("GET", "/wire/k", b"", b"1")]
        {
            assert_eq!(
                client.send(&endpoint.root, method, path, body).await,
                (200, answer.to_vec()),
                "{method} {path}"
            );
        }
    });
}

#[test]
fn a_new_certificate_is_taken_and_open_connections_stay() {
    let (files, old) = Files::new();
    let endpoint = files.serve();
    let (versions, alpn) = ([&TLS13], ["http/1.1"]);
    let mut open = connect(&endpoint, trusting(&old, &versions, &alpn)).unwrap();
    assert_eq!(ask(&endpoint, &mut open, "PUT", "/wire", b"").code(), "OK");

    std::fs::write(files.path("tls.crt"), "not a certificate").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(
        connect(&endpoint, trusting(&old, &versions, &alpn)).is_some(),
        "after an unreadable certificate the server keeps the old one"
    );

    let new = files.renew();
    let begun = Instant::now();
    while connect(&endpoint, trusting(&new, &versions, &alpn)).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(10), "the new certificate is not served");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(connect(&endpoint, trusting(&old, &versions, &alpn)).is_none());
    assert_eq!(ask(&endpoint, &mut open, "HEAD", "/wire", b"").status, 200);
}

#[test]
fn a_drain_ends_what_is_under_way_and_closes_the_rest() {
    let (files, certificate) = Files::new();
    let mut endpoint = files.serve();
    let config = trusting(&certificate, &[&TLS13], &["http/1.1"]);
    let (mut busy, mut idle) = (connect(&endpoint, config.clone()).unwrap(), connect(&endpoint, config).unwrap());
    assert_eq!(ask(&endpoint, &mut idle, "PUT", "/wire", b"").code(), "OK");
    let mut half_a_handshake = endpoint.connect();
    half_a_handshake.write_all(&[22, 3, 1]).unwrap();
    let content = vec![7; 300_000];
    let signed = sign(&endpoint.root, "PUT", "/wire/late", "", &[EXPECT], &sha256(&content));
    busy.write_all(head("PUT", "/wire/late", "", &signed.headers, content.len()).as_bytes()).unwrap();
    goes_on(&mut busy);
    busy.write_all(&content[..100_000]).unwrap();
    endpoint.stop();
    assert!(closes(&mut idle), "an idle connection is closed at once");
    busy.write_all(&content[100_000..]).unwrap();
    let answer = receive(&mut busy, "PUT");
    assert_eq!((answer.code().as_str(), answer.header("connection")), ("OK", Some("close")));
    assert!(closes(&mut busy) && closes(&mut half_a_handshake));
    endpoint.stopped();
}

#[test]
fn handshakes_that_do_not_come_delay_nobody() {
    let (files, certificate) = Files::new();
    let endpoint = files.serve();
    let mut silent: Vec<TcpStream> = (0..200).map(|_| endpoint.connect()).collect();
    let begun = Instant::now();
    assert!(connect(&endpoint, trusting(&certificate, &[&TLS13], &[])).is_some());
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(silent.iter_mut().all(closes));
}

#[test]
fn plain_http_is_told_to_use_tls() {
    let (files, _) = Files::new();
    let endpoint = files.serve();
    let mut stream = endpoint.connect();
    stream.write_all(b"GET /wire HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 400") && told.contains("https://"), "{told}");
}
