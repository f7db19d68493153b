//! An HTTP body that passes unchanged while an observer sees its content; both are dropped together.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use http_body::{Frame, SizeHint};

/// An observer of a body.
pub trait Observer: Send + Unpin + 'static {
    /// Receives a piece of the content.
    fn data(&mut self, data: &[u8]) {
        let _ = data;
    }

    /// Receives the trailers, after the content.
    fn trailers(&mut self, trailers: &HeaderMap) {
        let _ = trailers;
    }
}

/// A body and its observer.
pub struct Observed<O> {
    body: Body,
    observer: O,
}

impl<O: Observer> Observed<O> {
    /// Passes `body` on and shows it to `observer`.
    pub const fn new(body: Body, observer: O) -> Self {
        Self { body, observer }
    }
}

impl<O: Observer> http_body::Body for Observed<O> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            if let Some(data) = frame.data_ref() {
                self.observer.data(data);
            }
            if let Some(trailers) = frame.trailers_ref() {
                self.observer.trailers(trailers);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
