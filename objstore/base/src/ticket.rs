//! The pending result of a queued write: wait for it on a thread, or `.await` it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// The pending result of a write. Dropping it does not undo the write.
#[must_use = "the write's outcome is in the ticket"]
pub struct Ticket<T>(State<T>);

enum State<T> {
    Ready(Option<Result<T>>),
    Waiting(oneshot::Receiver<Result<T>>),
}

/// The sending end of a [`Ticket`].
pub struct Answer<T>(oneshot::Sender<Result<T>>);

impl<T> Answer<T> {
    /// Answers the ticket; it is no error if the ticket was dropped.
    pub fn send(self, result: Result<T>) {
        let _ = self.0.send(result);
    }
}

impl<T> Ticket<T> {
    /// A ticket and its sending end.
    pub fn pair() -> (Answer<T>, Self) {
        let (sender, receiver) = oneshot::channel();
        (Answer(sender), Self(State::Waiting(receiver)))
    }

    /// A ticket that is already answered.
    pub fn ready(result: Result<T>) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// Blocks this thread until the ticket is answered. Not for async workers.
    pub fn wait(self) -> Result<T> {
        match self.0 {
            State::Ready(result) => result.unwrap_or_else(|| Err(lost())),
            State::Waiting(receiver) => receiver.blocking_recv().unwrap_or_else(|_| Err(lost())),
        }
    }
}

// Nothing in a ticket is ever pinned.
impl<T> Unpin for Ticket<T> {}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(result) => Poll::Ready(result.take().unwrap_or_else(|| Err(lost()))),
            State::Waiting(receiver) => {
                Pin::new(receiver).poll(context).map(|answer| answer.unwrap_or_else(|_| Err(lost())))
            }
        }
    }
}

fn lost() -> Error {
    Error::Indeterminate { why: "the store closed before it answered".into() }
}
