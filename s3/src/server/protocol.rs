//! The protocol the endpoint speaks: HTTP by hyper, S3 by `s3s`, each with its bounds.
//!
//! - Authentication is always set: without it `s3s` would skip the access check too.
//! - Method, path, headers and parameters choose the operation, as on AWS. `x-id`, which SDKs add to their URLs, is
//!   passed over: `s3s` would let it choose, past every guard that reads the same head.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use s3s::config::{S3Config, S3ConfigProvider};
use s3s::region::Region;
use s3s::service::{S3Service, S3ServiceBuilder};

use crate::access::Access;
use crate::address::Domains;
use crate::auth::Keys;
use crate::body::{CHUNK_BYTES_MAX, DOCUMENT_BYTES_MAX};
use crate::request;
use crate::service::Service;

/// Headers of one request.
const HEADERS_MAX: usize = 200;
/// What a connection of HTTP/1 reads ahead, and gathers to be sent. Larger buffers save few system calls.
const HTTP1_BUFFER_BYTES: usize = 128 * 1024;
/// Bytes of the header list of one HTTP/2 request.
const HTTP2_HEADER_BYTES_MAX: u32 = 64 * 1024;
/// Requests at once on one HTTP/2 connection.
const HTTP2_STREAMS_MAX: u32 = 64;
/// What may be on its way to one request, and on one HTTP/2 connection, that nobody has read yet. A window that grows by
/// itself would reach 16 MiB on each.
const HTTP2_STREAM_BYTES: u32 = 1024 * 1024;
const HTTP2_CONNECTION_BYTES: u32 = 2 * 1024 * 1024;
/// What one request's answer may have waiting for a client that does not take it.
const HTTP2_SEND_BYTES: usize = 256 * 1024;
/// Streams that were opened and reset before they were looked at, until the connection is closed (CVE-2023-44487).
const HTTP2_RESETS_MAX: usize = 20;
/// How often a quiet HTTP/2 connection is asked whether it lives.
const HTTP2_PING: Duration = Duration::from_secs(30);

/// HTTP/1.1 and HTTP/2, told apart by how a connection begins.
pub(super) fn http() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // `activity` times the head, also while the versions are told apart, which hyper does not.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HTTP2_HEADER_BYTES_MAX)
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_MAX)
        .max_send_buf_size(HTTP2_SEND_BYTES)
        .initial_stream_window_size(HTTP2_STREAM_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_BYTES)
        .keep_alive_interval(HTTP2_PING);
    builder
}

/// S3 by `service`.
pub(super) fn service(service: Service, region: Region, domains: Domains) -> S3Service {
    let mut builder = S3ServiceBuilder::new(service.clone());
    builder.set_auth(Keys(service.clone()));
    builder.set_access(Access(service));
    builder.set_host(domains);
    let mut config = S3Config::default();
    config.expected_region = Some(region);
    config.sig_v4_allowed_services = vec!["s3".into()];
    config.enable_sig_v2 = false;
    config.allow_post_signature = false;
    config.operation_id_routing = false;
    config.xml_max_body_size = DOCUMENT_BYTES_MAX;
    config.aws_chunked_stream_max_chunk_size = CHUNK_BYTES_MAX;
    builder.set_config(Arc::new(Settings(Arc::new(config))));
    builder.build()
}

/// The settings, as `s3s` asks for them in each request.
struct Settings(Arc<S3Config>);

impl S3ConfigProvider for Settings {
    fn snapshot(&self) -> Arc<S3Config> {
        let Ok(request) = request::current() else { return Arc::clone(&self.0) };
        let hoisted = request.hoisted();
        if hoisted.is_empty() {
            return Arc::clone(&self.0);
        }
        // What became a header out of the URL is signed as a part of the URL.
        let mut settings = S3Config::clone(&self.0);
        settings.unsigned_amz_header_allowlist.extend(hoisted.iter().map(ToString::to_string));
        Arc::new(settings)
    }
}
