//! A response body while it is sent: its bytes are counted, and the report on the request (`line`) is made at its end.

mod ledger;
mod line;
mod taking;

pub(crate) use ledger::ReplyLedger;
pub(crate) use line::Listeners;
pub(crate) use taking::Taking;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};

use crate::body::Share;
use crate::request::Request;
use line::{AccessLine, Cut};

/// Bytes that hyper writes around the headers of a response: the status line, the date, and line ends.
const HEAD_BYTES: usize = "HTTP/1.1 200 OK\r\n".len() + "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len() + "\r\n".len();

/// A response body whose bytes are counted; dropping it ends the request.
pub(crate) struct Outbound {
    inner: s3s::Body,
    /// Taken on drop.
    line: Option<AccessLine>,
    /// The body's length, if known.
    length: Option<u64>,
    ended: bool,
    /// The client's progress, if the response has a memory share.
    taking: Option<Arc<Taking>>,
    connection: Option<(Arc<ReplyLedger>, Version)>,
}

impl Outbound {
    /// Wraps `inner`, the response to `request`, which keeps its memory share until it is dropped.
    pub(crate) fn new(
        inner: s3s::Body,
        status: StatusCode,
        share: Option<Share>,
        request: Arc<Request>,
        listeners: Arc<Listeners>,
    ) -> Self {
        let length = inner.size_hint().exact();
        let line = AccessLine { request, status, listeners, bytes_out: 0, cut: None, first: None, before: (0, 0) };
        let taking = share.map(Taking::new).map(Arc::new);
        Self { inner, line: Some(line), length, ended: false, taking, connection: None }
    }

    /// Records the connection and headers of the response.
    pub(crate) fn on(&mut self, ledger: Arc<ReplyLedger>, version: Version, headers: &HeaderMap) {
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if let Some(line) = &mut self.line {
            line.before = (ledger.total(), (HEAD_BYTES + fields) as u64);
        }
        self.connection = Some((ledger, version));
    }

    /// The client's progress, if the response has a memory share.
    pub(crate) fn taking(&self) -> Option<Arc<Taking>> {
        self.taking.clone()
    }

    /// The client asks for more. Returns whether it may have it.
    fn go_on(&self) -> bool {
        let Some(taking) = &self.taking else { return true };
        taking.asked();
        !taking.is_too_slow()
    }

    fn gave(&mut self, bytes: usize) {
        if let Some(line) = &mut self.line {
            line.bytes_out += bytes as u64;
            line.first.get_or_insert_with(|| line.request.start.elapsed());
        }
        if let Some(taking) = &self.taking {
            taking.gave(bytes);
        }
    }

    fn cut(&mut self, cut: Cut) {
        if let Some(line) = &mut self.line {
            line.cut = Some(cut);
        }
    }

    /// Whether hyper has all of it.
    fn is_whole(&self, line: &AccessLine) -> bool {
        line.cut.is_none() && (self.ended || self.inner.is_end_stream() || self.length == Some(line.bytes_out))
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        let whole = self.is_whole(&line);
        match &self.connection {
            Some((ledger, version)) if *version < Version::HTTP_2 => {
                if whole {
                    ledger.park(line);
                } else {
                    line.cut_short(ledger.cause(), ledger.total());
                }
            }
            connection if !whole => {
                let cause = connection.as_ref().map_or(Cut::Left, |(ledger, _)| ledger.cause());
                line.cut.get_or_insert(cause);
            }
            _ => {}
        }
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = s3s::StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, s3s::StdError>>> {
        if !self.go_on() {
            self.cut(Cut::Stalled);
            return Poll::Ready(Some(Err("the client reads too slowly while other responses wait for memory".into())));
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.gave(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(_)) => self.cut(Cut::Failed),
            None => self.ended = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
