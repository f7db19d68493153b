//! HTTP by hyper, with its limits.

use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;

/// The most headers of one request.
const HEADERS_MAX: usize = 200;
/// The read buffer and the write buffer of an HTTP/1 connection. Larger ones save few system calls.
const HTTP1_BUFFER_BYTES: usize = 128 * 1024;
/// The largest header list of an HTTP/2 request in bytes.
const HTTP2_HEADER_BYTES_MAX: u32 = 64 * 1024;
/// The most concurrent requests on one HTTP/2 connection. Clients may open 100 before they know the limit, and
/// some report what a lower limit resets as a failure (RFC 9113, section 6.5.2).
const HTTP2_STREAMS_MAX: u32 = 100;
/// The flow-control windows of a request, and of an HTTP/2 connection. Windows that grow by themselves would reach 16
/// MiB.
const HTTP2_STREAM_BYTES: u32 = 1024 * 1024;
const HTTP2_CONNECTION_BYTES: u32 = 2 * 1024 * 1024;
/// The most bytes of one response that wait for a client that does not read.
const HTTP2_SEND_BYTES: usize = 256 * 1024;
/// The most streams that a client may open and reset before the server handles them; then the connection is closed
/// (CVE-2023-44487).
const HTTP2_RESETS_MAX: usize = 20;
/// The interval of pings on a quiet HTTP/2 connection.
const HTTP2_PING: Duration = Duration::from_secs(30);

/// HTTP/1.1 and HTTP/2, distinguished by the first bytes of a connection.
pub(super) fn http() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // `activity` limits the time for a head, also while the versions are distinguished, which hyper does not.
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
