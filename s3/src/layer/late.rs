//! Errors after a response has begun: a slow CompleteMultipartUpload answers 200 first and reports its result in the
//! body (S3 API, CompleteMultipartUpload).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use s3s::StdError;

use crate::error::Sent;
use crate::request::Request;

/// The beginning of an error in the body that `s3s` writes.
const ERROR: &[u8] = b"<Error>";

/// The body of such a response, with the error in AWS's form.
pub(crate) struct Late {
    body: s3s::Body,
    request: Arc<Request>,
    sent: Arc<Sent>,
    run: String,
}

impl Late {
    /// Wraps the body of the response to `request`. `run` is the host id to report.
    pub(crate) fn new(body: s3s::Body, request: Arc<Request>, sent: Arc<Sent>, run: String) -> Self {
        Self { body, request, sent, run }
    }

    fn told(&self, written: Bytes) -> Bytes {
        let Some(mut failure) = self.request.failure().filter(|_| written.starts_with(ERROR)).cloned() else {
            return written;
        };
        failure.complete(self.request.addressed(), &self.sent);
        let mut xml = String::new();
        let ids = [("Resource", self.sent.resource()), ("RequestId", &*self.request.id), ("HostId", &*self.run)];
        failure.write(&mut xml, &ids);
        self.request.set_error_code(failure.code);
        xml.into()
    }
}

impl Body for Late {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context)?);
        Poll::Ready(frame.map(|frame| Ok(frame.map_data(|data| self.told(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
