//! The HTTP server under the S3 endpoint.
//!
//! - TCP_NODELAY, and head and first bytes in one write: without both, a small GET stalls for 40 ms with some clients.
//! - Heads are bounded in time, number and size; bodies in how long they may stall (`body::intake`).
//! - On shutdown no connection is taken any more; requests under way have [`Config::drain`] to end.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use objstore::Store;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::region::Region;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::{TcpListener, TcpStream};

use crate::access::Access;
use crate::auth::Keys;
use crate::layer::Layer;
use crate::metrics::Metrics;
use crate::service::Service;

/// How long the head of a request may take; also how long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Headers of one request.
const HEADERS_MAX: usize = 200;
/// Bytes of the header list of one HTTP/2 request.
const HTTP2_HEADER_BYTES_MAX: u32 = 64 * 1024;
/// Requests at once on one HTTP/2 connection.
const HTTP2_STREAMS_MAX: u32 = 256;
/// How often a quiet HTTP/2 connection is asked whether it lives.
const HTTP2_PING: Duration = Duration::from_secs(30);
/// A signed chunk is held whole until its signature is proved.
const CHUNK_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The XML of a request: 1,000 keys of 1,024 bytes, each written as `&#xNN;`.
const XML_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Pause after the system had no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Settings of the endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region that signatures have to name.
    pub region: String,
    /// Where figures are counted.
    pub metrics: Metrics,
    /// How long requests under way may take to end after a shutdown.
    pub drain: Duration,
    /// Whether new buckets begin with all four settings of their public access block on.
    pub block_public_access: bool,
}

impl Config {
    /// Settings with a drain of 30 seconds, and no public access to new buckets.
    pub fn new(region: impl Into<String>, metrics: Metrics) -> Self {
        Self { region: region.into(), metrics, drain: Duration::from_secs(30), block_public_access: true }
    }
}

/// Why the endpoint cannot be, or be any longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The region is no region.
    #[error("\"{0}\" is no region: use lower-case letters, digits and \"-\", as in us-east-1")]
    Region(String),
    /// The listening socket failed.
    #[error("the S3 socket takes no more connections")]
    Accept(#[source] io::Error),
}

/// The S3 endpoint, ready to serve.
pub struct Server {
    layer: Layer,
    metrics: Metrics,
    drain: Duration,
}

impl Server {
    /// The endpoint of `store`.
    pub fn new(store: Store, config: Config) -> Result<Self, Error> {
        let region = Region::new(config.region.as_str().into()).map_err(|_| Error::Region(config.region.clone()))?;
        let layer = Layer::new(protocol(store, region), config.metrics.clone());
        Ok(Self { layer, metrics: config.metrics, drain: config.drain })
    }

    /// Serves until `shutdown`, then lets the requests under way end.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let builder = builder();
        let connections = GracefulShutdown::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.spawn(&builder, &connections, stream),
                Err(error) if passes(&error) => tokio::time::sleep(ACCEPT_PAUSE).await,
                Err(error) => return Err(Error::Accept(error)),
            }
        }
        drop(listener);
        if tokio::time::timeout(self.drain, connections.shutdown()).await.is_err() {
            tracing::warn!(seconds = self.drain.as_secs(), "requests were still under way at the end of the drain");
        }
        Ok(())
    }

    fn spawn(&self, builder: &auto::Builder<TokioExecutor>, connections: &GracefulShutdown, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it was served");
            return;
        }
        let connection = builder.serve_connection(TokioIo::new(stream), self.layer.clone()).into_owned();
        let (connection, counted) = (connections.watch(connection), self.metrics.connected());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended early");
            }
            drop(counted);
        });
    }
}

/// Whether an accept may work again soon: a client left, or descriptors or memory ran out.
fn passes(error: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    let exhausted = matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE | ENOBUFS));
    if exhausted {
        tracing::warn!(%error, "no connection can be taken; raise the limit of open files");
    }
    exhausted
        || matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
        )
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HTTP2_HEADER_BYTES_MAX)
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .keep_alive_interval(HTTP2_PING)
        .adaptive_window(true);
    builder
}

/// The S3 protocol over `store`. Authentication is always set: without it `s3s` would skip the access check too.
fn protocol(store: Store, region: Region) -> S3Service {
    let service = Service { store, region: Arc::from(region.as_str()) };
    let mut builder = S3ServiceBuilder::new(service.clone());
    builder.set_auth(Keys(service.clone()));
    builder.set_access(Access(service));
    let mut config = S3Config::default();
    config.expected_region = Some(region);
    config.sig_v4_allowed_services = vec!["s3".into()];
    config.enable_sig_v2 = false;
    config.allow_post_signature = false;
    config.xml_max_body_size = XML_BYTES_MAX;
    config.aws_chunked_stream_max_chunk_size = CHUNK_BYTES_MAX;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder.build()
}
