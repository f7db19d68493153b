//! HTTP/2, by prior knowledge on a plain connection and by ALPN with TLS.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::endpoint::Endpoint;
use crate::sign::{EMPTY, Key, Signed, sha256, sign};

/// The body of a request.
pub enum Sent {
    /// The whole body, until it has been sent.
    Whole(Option<Bytes>),
    /// A body that never arrives.
    Never,
}

impl Sent {
    fn whole(body: &'static [u8]) -> Self {
        Self::Whole((!body.is_empty()).then(|| Bytes::from_static(body)))
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Never => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Never => SizeHint::default(),
        }
    }
}

/// One connection of a client.
pub struct Client(SendRequest<Sent>);

impl Client {
    pub async fn new(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (requests, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        Self(requests)
    }

    /// Sends a request signed for `localhost`; returns status and body of the answer.
    pub async fn send(&self, key: &Key, method: &str, path: &str, body: &'static [u8]) -> (u16, Vec<u8>) {
        let payload = if body.is_empty() { EMPTY.to_owned() } else { sha256(body) };
        let signed = sign(key, method, path, "", &[], &payload);
        self.send_signed(&signed, method, &format!("https://localhost{path}"), Sent::whole(body)).await
    }

    /// Requests an object, and reads nothing of its body.
    async fn begin(&self, key: &Key, path: &str) -> hyper::Result<Response<Incoming>> {
        let signed = sign(key, "GET", path, "", &[], EMPTY);
        self.answer(&signed, "GET", &format!("https://localhost{path}"), Sent::whole(b"")).await
    }

    pub async fn send_signed(&self, signed: &Signed, method: &str, uri: &str, body: Sent) -> (u16, Vec<u8>) {
        let answer = self.answer(signed, method, uri, body).await.unwrap();
        let status = answer.status().as_u16();
        let (mut body, mut content) = (answer.into_body(), Vec::new());
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            content.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        }
        (status, content)
    }

    async fn answer(&self, signed: &Signed, method: &str, uri: &str, body: Sent) -> hyper::Result<Response<Incoming>> {
        let mut request = http::Request::builder().method(method).uri(uri);
        // In HTTP/2 the host is the authority of the URI.
        for (name, value) in signed.headers.iter().filter(|(name, _)| name != "host") {
            request = request.header(name, value);
        }
        self.0.clone().send_request(request.body(body).unwrap()).await
    }
}

#[test]
fn requests_share_a_plain_connection() {
    let endpoint = Endpoint::start();
    endpoint.block_on(async {
        let client = Client::new(TcpStream::connect(endpoint.address).await.unwrap()).await;
        let paths: Vec<String> = (0..100).map(|number| format!("/wire/{number}")).collect();
        let puts = paths.iter().map(|path| client.send(&endpoint.root, "PUT", path, b"1"));
        assert!(futures::future::join_all(puts).await.iter().all(|(status, _)| *status == 200));
        let gets = paths.iter().map(|path| client.send(&endpoint.root, "GET", path, b""));
        assert!(futures::future::join_all(gets).await.iter().all(|answer| *answer == (200, b"1".to_vec())));
    });
}

#[test]
fn a_refusal_before_the_body_leaves_the_connection_to_the_others() {
    let endpoint = Endpoint::start();
    let stranger = endpoint.account("stranger", None);
    endpoint.block_on(async {
        let client = Client::new(TcpStream::connect(endpoint.address).await.unwrap()).await;
        let expect = [("content-length", "9"), ("expect", "100-continue")];
        for (key, path, status) in [(&stranger, "/wire/k", 403), (&endpoint.root, "/none/k", 404)] {
            let signed = sign(key, "PUT", path, "", &expect, "UNSIGNED-PAYLOAD");
            let uri = format!("https://localhost{path}");
            let refused = tokio::time::timeout(
                std::time::Duration::from_secs(20),
                client.send_signed(&signed, "PUT", &uri, Sent::Never),
            );
            assert_eq!(refused.await.expect("the server does not wait for the body").0, status);
            assert_eq!(client.send(&endpoint.root, "PUT", "/wire/next", b"1").await.0, 200);
        }
    });
}

#[test]
fn an_answer_to_head_has_no_body() {
    let endpoint = Endpoint::start();
    endpoint.block_on(async {
        let client = Client::new(TcpStream::connect(endpoint.address).await.unwrap()).await;
        assert_eq!(client.send(&endpoint.root, "PUT", "/wire/k", b"1").await.0, 200);
        for (path, status) in [("/wire/k", 200), ("/wire", 200), ("/wire/none", 404), ("/none", 404)] {
            assert_eq!(client.send(&endpoint.root, "HEAD", path, b"").await, (status, Vec::new()), "{path}");
        }
        let bare = Signed::bare(&[("authorization", "rubbish")]);
        let refused = client.send_signed(&bare, "HEAD", "http://localhost/wire/k", Sent::whole(b"")).await;
        assert_eq!(refused, (400, Vec::new()));
    });
}

#[test]
fn the_authority_may_name_the_bucket() {
    let endpoint = Endpoint::start_with(|config| {
        config.domains = ["localhost".parse().unwrap()].into_iter().collect();
    });
    endpoint.block_on(async {
        let client = Client::new(TcpStream::connect(endpoint.address).await.unwrap()).await;
        let signed = sign(&endpoint.root, "PUT", "/k", "", &[("host", "wire.localhost")], &sha256(b"1"));
        let put = client.send_signed(&signed, "PUT", "http://wire.localhost/k", Sent::whole(b"1")).await;
        assert_eq!(put.0, 200);
        assert_eq!(client.send(&endpoint.root, "GET", "/wire/k", b"").await, (200, b"1".to_vec()));
    });
}

#[test]
fn a_stream_that_nobody_takes_gives_its_memory_to_others_though_its_connection_moves() {
    // More than the client's flow control windows permit.
    const LARGE: usize = 16 << 20;
    let endpoint = Endpoint::start_with(|config| {
        config.limits.answer_memory_bytes = 1 << 20;
        config.limits.wanted_answer_stall = Duration::from_millis(400);
    });
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], &vec![7; LARGE]).code(), "OK");
    endpoint.block_on(async {
        let connect = async || Client::new(TcpStream::connect(endpoint.address).await.unwrap()).await;
        let (silent, other) = (connect().await, connect().await);
        let unread = silent.begin(&endpoint.root, "/wire/k").await.unwrap();
        let moves = async {
            while silent.begin(&endpoint.root, "/wire/none").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let both = async { tokio::join!(moves, other.send(&endpoint.root, "GET", "/wire/k", b"")) };
        let ((), (status, content)) = tokio::time::timeout(Duration::from_secs(30), both).await.expect("in time");
        assert_eq!((unread.status().as_u16(), status, content.len()), (200, 200, LARGE));
    });
}
