//! Tokens against an issuer's server over TLS: rotation of its keys, one fetch for all, and servers that misbehave.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring as provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::cache::Times;
use crate::{Issuer, Issuers, KeySource, Refusal};

const NOW: i64 = 1_800_000_000;

/// A key that signs tokens.
struct Key {
    id: &'static str,
    pair: EcdsaKeyPair,
    wide: bool,
}

impl Key {
    fn new(id: &'static str, wide: bool) -> Self {
        let algorithm = if wide { &ECDSA_P384_SHA384_FIXED_SIGNING } else { &ECDSA_P256_SHA256_FIXED_SIGNING };
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self { id, pair: EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap(), wide }
    }

    fn jwk(&self) -> String {
        let point = &self.pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        let [x, y] = [x, y].map(|half| URL_SAFE_NO_PAD.encode(half));
        let curve = if self.wide { "P-384" } else { "P-256" };
        format!(r#"{{"kty":"EC","crv":"{curve}","kid":"{}","x":"{x}","y":"{y}"}}"#, self.id)
    }

    fn token(&self, claims: &str) -> String {
        let algorithm = if self.wide { "ES384" } else { "ES256" };
        let header = format!(r#"{{"alg":"{algorithm}","kid":"{}"}}"#, self.id);
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn claims(issuer: &str) -> String {
    format!(r#"{{"iss":"{issuer}","sub":"s","aud":"a","exp":{}}}"#, NOW + 600)
}

/// What the server answers to a path: a whole response. `None`: it never answers.
type Script = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A server over TLS that answers by a script.
struct Server {
    url: String,
    authority: PathBuf,
    asked: Arc<AtomicUsize>,
    script: Arc<Mutex<Arc<Script>>>,
    _dir: tempfile::TempDir,
}

impl Server {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let authority = dir.path().join("ca.pem");
        std::fs::write(&authority, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let script: Arc<Script> = Arc::new(|_| None);
        let (asked, script) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(script)));
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&script), Arc::clone(&asked)));
        Self { url, authority, asked, script, _dir: dir }
    }

    fn answers(&self, script: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// Serves a discovery document and these keys.
    fn serves(&self, keys: &[&Key]) {
        let keys = keys.iter().map(|key| key.jwk()).collect::<Vec<_>>().join(",");
        let url = self.url.clone();
        self.answers(move |path| match path {
            "/.well-known/openid-configuration" => {
                Some(ok(&format!(r#"{{"issuer":"{url}","jwks_uri":"{url}/keys","more":[1]}}"#)))
            }
            "/keys" => Some(ok(&format!(r#"{{"keys":[{keys}]}}"#))),
            _ => Some("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned()),
        });
    }

    fn issuer(&self, keys: KeySource) -> Issuer {
        let authority = Some(self.authority.clone());
        Issuer { url: self.url.clone(), audiences: vec!["a".into()], keys, authority, bearer: None }
    }

    fn issuers(&self, times: Times) -> Issuers {
        Issuers::with_times(vec![self.issuer(KeySource::Discovery)], times).unwrap()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Whether a request accepts the type of its document. The server is as strict as the API server of Kubernetes, which has
/// one type for each of the two.
fn is_acceptable(path: &str, head: &str) -> bool {
    let media = if path == "/keys" { "application/jwk-set+json" } else { "application/json" };
    head.lines().any(|line| line.starts_with("accept: ") && line.contains(media))
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    script: Arc<Mutex<Arc<Script>>>,
    asked: Arc<AtomicUsize>,
) {
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, script, asked) = (acceptor.clone(), Arc::clone(&script.lock().unwrap()), Arc::clone(&asked));
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(socket).await else { return };
            let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer).await {
                    Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
                    _ => return,
                }
            }
            asked.fetch_add(1, Ordering::SeqCst);
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let bearer = head.contains("authorization: Bearer t0ken");
            let answer = match is_acceptable(&path, &head) {
                true => script(&if bearer { format!("{path} with bearer") } else { path }),
                false => Some("HTTP/1.1 406 Not Acceptable\r\ncontent-length: 0\r\n\r\n".to_owned()),
            };
            match answer {
                Some(answer) => drop(stream.write_all(answer.as_bytes()).await),
                None => tokio::time::sleep(Duration::from_secs(60)).await,
            }
            let _ = stream.shutdown().await;
        });
    }
}

/// Times of a cache that fetches as often as it can.
const EAGER: Times = Times { refetch: Duration::ZERO, renew: Duration::from_secs(600), keep: Duration::from_secs(600) };

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_both_curves_are_verified_by_discovered_keys() {
    let (server, keys) = (Server::start().await, [Key::new("narrow", false), Key::new("wide", true)]);
    server.serves(&[&keys[0], &keys[1]]);
    let issuers = server.issuers(Times::default());
    for key in &keys {
        let verified = issuers.verify(&key.token(&claims(&server.url)), NOW).await.unwrap();
        assert_eq!((verified.subject.as_str(), verified.audience.as_str()), ("s", "a"));
    }
    assert_eq!(server.asked.load(Ordering::SeqCst), 2, "the discovery document and the keys, once");
    let forged = Key::new("narrow", false).token(&claims(&server.url));
    assert_eq!(issuers.verify(&forged, NOW).await, Err(Refusal::Signature));
    let crossed = keys[0].token(&claims(&server.url)).replace(
        &URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","kid":"narrow"}"#),
        &URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","kid":"narrow"}"#),
    );
    assert_eq!(issuers.verify(&crossed, NOW).await, Err(Refusal::UnknownKey("narrow".into())));
    let elsewhere = keys[0].token(&claims("https://localhost"));
    assert_eq!(issuers.verify(&elsewhere, NOW).await, Err(Refusal::UnknownIssuer("https://localhost".into())));
    assert_eq!(server.asked.load(Ordering::SeqCst), 2, "forgeries cause no fetch within the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_issuer_signs_for_another_one() {
    let servers = [Server::start().await, Server::start().await];
    // Both name their key alike, as two clusters may.
    let keys = [Key::new("one", false), Key::new("one", false)];
    servers.iter().zip(&keys).for_each(|(server, key)| server.serves(&[key]));
    let [first, second] = [0, 1].map(|at| servers[at].issuer(KeySource::Discovery));
    let second = Issuer { audiences: vec!["b".into()], ..second };
    let issuers = Issuers::new(vec![first, second]).unwrap();
    let token = |key: usize, issuer: usize, audience: &str| {
        let claims = claims(&servers[issuer].url).replace(r#""aud":"a""#, &format!(r#""aud":"{audience}""#));
        keys[key].token(&claims)
    };
    for (at, audience) in ["a", "b"].into_iter().enumerate() {
        let verified = issuers.verify(&token(at, at, audience), NOW).await.unwrap();
        assert_eq!((verified.issuer.as_str(), verified.audience.as_str()), (servers[at].url.as_str(), audience));
        let other = 1 - at;
        assert_eq!(issuers.verify(&token(other, at, audience), NOW).await, Err(Refusal::Signature));
        let foreign = if at == 0 { "b" } else { "a" };
        assert_eq!(issuers.verify(&token(at, at, foreign), NOW).await, Err(Refusal::Audience), "each has its own");
    }
    let many = (0..17).map(|number| {
        let url = format!("https://issuer-{number}");
        Issuer { url, authority: None, ..servers[0].issuer(KeySource::Discovery) }
    });
    assert!(Issuers::new(many.collect()).unwrap_err().to_string().contains("issuer-16"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_keys_have_the_keys_fetched_once_for_all() {
    let (server, old, new) = (Server::start().await, Key::new("old", false), Key::new("new", false));
    server.serves(&[&old]);
    let issuers = server.issuers(Times { refetch: Duration::from_millis(500), ..EAGER });
    let (before, after) = (old.token(&claims(&server.url)), new.token(&claims(&server.url)));
    issuers.verify(&before, NOW).await.unwrap();
    server.serves(&[&new]);
    assert_eq!(issuers.verify(&after, NOW).await, Err(Refusal::UnknownKey("new".into())), "too early");
    tokio::time::sleep(Duration::from_millis(600)).await;
    let asked = server.asked.load(Ordering::SeqCst);
    let all: Vec<_> = (0..20)
        .map(|_| {
            let (issuers, after) = (issuers.clone(), after.clone());
            tokio::spawn(async move { issuers.verify(&after, NOW).await })
        })
        .collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    assert_eq!(server.asked.load(Ordering::SeqCst) - asked, 2, "one fetch of both documents");
    assert_eq!(issuers.verify(&before, NOW).await, Err(Refusal::UnknownKey("old".into())), "forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_renewed_beside_the_requests_that_use_them() {
    let (server, old, new) = (Server::start().await, Key::new("old", false), Key::new("new", false));
    server.serves(&[&old]);
    let issuers = server.issuers(Times { renew: Duration::ZERO, ..EAGER });
    let before = old.token(&claims(&server.url));
    issuers.verify(&before, NOW).await.unwrap();
    server.serves(&[&new]);
    issuers.verify(&before, NOW).await.unwrap();
    let mut forgotten = false;
    for _ in 0..100 {
        forgotten = issuers.verify(&before, NOW).await.is_err();
        if forgotten {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(forgotten, "a key that the issuer no longer names is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_issuer_delays_only_tokens_whose_key_is_unknown() {
    let (server, key) = (Server::start().await, Key::new("one", false));
    server.serves(&[&key]);
    let issuers = server.issuers(EAGER);
    let good = key.token(&claims(&server.url));
    issuers.verify(&good, NOW).await.unwrap();
    server.answers(|_| None);
    let unknown = Key::new("two", false).token(&claims(&server.url));
    let waiting = tokio::spawn({
        let issuers = issuers.clone();
        async move { issuers.verify(&unknown, NOW).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let quick = tokio::time::timeout(Duration::from_secs(2), issuers.verify(&good, NOW)).await;
    assert!(quick.expect("it does not wait").is_ok());
    let ended = tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("a fetch is bounded");
    assert_eq!(ended.unwrap(), Err(Refusal::UnknownKey("two".into())));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_are_not_the_issuers_are_refused() {
    let (server, key) = (Server::start().await, Key::new("one", false));
    let token = key.token(&claims(&server.url));
    let (url, keys) = (server.url.clone(), format!(r#"{{"keys":[{}]}}"#, key.jwk()));
    let discovery = move |issuer: &str, keys: &str| ok(&format!(r#"{{"issuer":"{issuer}","jwks_uri":"{keys}"}}"#));
    let at = format!("{url}/keys");
    let cases: Vec<(&str, String, String)> = vec![
        ("of another issuer", discovery("https://other", &at), ok(&keys)),
        ("keys over plain HTTP", discovery(&url, &at.replace("https", "http")), ok(&keys)),
        ("keys in a file", discovery(&url, "file:///etc/passwd"), ok(&keys)),
        ("no discovery document", ok("<html>"), ok(&keys)),
        ("a redirect", format!("HTTP/1.1 302 Found\r\nlocation: {at}\r\ncontent-length: 0\r\n\r\n"), ok(&keys)),
        ("an error", discovery(&url, &at), "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".into()),
        ("no keys", discovery(&url, &at), ok(r#"{"keys":[]}"#)),
        ("too large", discovery(&url, &at), ok(&format!("{}{keys}", " ".repeat(300_000)))),
        (
            "an endless answer",
            discovery(&url, &at),
            format!("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{}", " ".repeat(400_000)),
        ),
        ("cut off", discovery(&url, &at), format!("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{keys}")),
    ];
    for (what, configuration, keys) in cases {
        server.answers(move |path| Some(if path == "/keys" { keys.clone() } else { configuration.clone() }));
        assert_eq!(server.issuers(EAGER).verify(&token, NOW).await, Err(Refusal::Unreachable), "{what}");
    }
    server.serves(&[&key]);
    let untrusted = Issuer { authority: None, ..server.issuer(KeySource::Discovery) };
    let issuers = Issuers::with_times(vec![untrusted], EAGER).unwrap();
    assert_eq!(issuers.verify(&token, NOW).await, Err(Refusal::Unreachable), "a certificate of nobody");
    assert!(server.issuers(EAGER).verify(&token, NOW).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_the_issuer_is_sent_to_its_own_address_alone() {
    let (server, other, key) = (Server::start().await, Server::start().await, Key::new("one", false));
    let token = key.token(&claims(&server.url));
    let bearer = server.authority.with_file_name("token");
    std::fs::write(&bearer, "t0ken\n").unwrap();
    let keys = format!(r#"{{"keys":[{}]}}"#, key.jwk());
    let of = |source: KeySource, authority: PathBuf| {
        let issuer = Issuer { bearer: Some(bearer.clone()), authority: Some(authority), ..server.issuer(source) };
        Issuers::with_times(vec![issuer], EAGER).unwrap()
    };
    server.answers({
        let (url, keys) = (server.url.clone(), keys.clone());
        move |path| match path {
            "/.well-known/openid-configuration with bearer" => {
                Some(ok(&format!(r#"{{"issuer":"{url}","jwks_uri":"{url}/keys"}}"#)))
            }
            "/keys with bearer" => Some(ok(&keys)),
            _ => Some("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned()),
        }
    });
    assert!(of(KeySource::Discovery, server.authority.clone()).verify(&token, NOW).await.is_ok());
    let named = KeySource::Url(format!("{}/keys", server.url));
    assert!(of(named, server.authority.clone()).verify(&token, NOW).await.is_ok());
    assert_eq!(server.issuers(EAGER).verify(&token, NOW).await, Err(Refusal::Unreachable), "without the token");
    // Elsewhere: trusts both certificates, and must not see the token.
    let both = server.authority.with_file_name("both.pem");
    let pems = [&server.authority, &other.authority].map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(&both, pems.concat()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    other.answers({
        let seen = Arc::clone(&seen);
        move |path| {
            seen.lock().unwrap().push(path.to_owned());
            Some(ok(&keys))
        }
    });
    server.answers({
        let (url, elsewhere) = (server.url.clone(), other.url.clone());
        move |_| Some(ok(&format!(r#"{{"issuer":"{url}","jwks_uri":"{elsewhere}/keys"}}"#)))
    });
    assert!(of(KeySource::Discovery, both).verify(&token, NOW).await.is_ok());
    assert_eq!(*seen.lock().unwrap(), ["/keys"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_a_file_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (file, old, new) = (dir.path().join("jwks.json"), Key::new("old", false), Key::new("new", true));
    let write = |key: &Key| std::fs::write(&file, format!(r#"{{"keys":[{}]}}"#, key.jwk())).unwrap();
    write(&old);
    let issuer = Issuer {
        url: "any text".replace(' ', "-"),
        audiences: vec!["a".into()],
        keys: KeySource::File(file.clone()),
        authority: None,
        bearer: None,
    };
    let issuers = Issuers::with_times(vec![issuer.clone()], EAGER).unwrap();
    issuers.verify(&old.token(&claims("any-text")), NOW).await.unwrap();
    write(&new);
    issuers.verify(&new.token(&claims("any-text")), NOW).await.unwrap();
    assert!(issuers.verify(&old.token(&claims("any-text")), NOW).await.is_err());
    std::fs::remove_file(&file).unwrap();
    issuers.verify(&new.token(&claims("any-text")), NOW).await.unwrap();
    assert!(Issuers::new(vec![issuer.clone(), issuer]).is_err(), "configured twice");
}
