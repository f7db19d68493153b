//! The waker of a connection's task, which avoids wake-ups while the connection is being polled.
//!
//! - hyper passes a request's body from one half of a connection to the other by waking the task in which both run. A
//!   task that wakes itself goes through the scheduler, which wakes another thread to look for work: for each request
//!   that costs more than polling once more.
//! - A wake-up during a poll is answered by polling again; any other wakes the task. None is lost: the waker first sets
//!   its flag and then checks whether a poll is running, and the poller first ends its poll and then checks the flag.
//! - A connection that keeps waking itself, as one that used up its cooperative budget does, goes back to the
//!   scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// The most polls in a row of a connection that wakes itself.
const POLLS_MAX: usize = 16;

/// The waker of a connection.
#[derive(Default)]
pub(super) struct ConnectionWaker {
    woken: AtomicBool,
    /// Whether the connection is being polled.
    polled: AtomicBool,
    task: AtomicWaker,
}

impl ConnectionWaker {
    /// Wakes the task, unless the task polls the connection now and will check the flag afterwards.
    pub(super) fn call(&self) {
        if !self.polled.load(SeqCst) {
            self.task.wake();
        }
    }

    /// Polls the connection in the task of `context`.
    pub(super) fn poll<T>(
        self: &Arc<Self>,
        context: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.task.register(context.waker());
        let waker = Waker::from(Arc::clone(self));
        for _ in 0..POLLS_MAX {
            self.woken.store(false, SeqCst);
            self.polled.store(true, SeqCst);
            let polled = poll(&mut Context::from_waker(&waker));
            self.polled.store(false, SeqCst);
            if polled.is_ready() || !self.woken.load(SeqCst) {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, SeqCst);
        self.call();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicU64);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Polls a future that is ready at poll number `ready`, and wakes itself until then. Returns the number of polls,
    /// the number of times the task was woken, and the result.
    fn polled(connection_waker: &Arc<ConnectionWaker>, ready: usize) -> (usize, u64, Poll<()>) {
        let (task, mut polls) = (Arc::new(Task::default()), 0);
        let waker = Waker::from(Arc::clone(&task));
        let answer = connection_waker.poll(&Context::from_waker(&waker), |context| {
            polls += 1;
            if polls == ready {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        (polls, task.0.load(SeqCst), answer)
    }

    #[test]
    fn who_wakes_itself_is_polled_again_and_not_for_ever() {
        let connection_waker = Arc::new(ConnectionWaker::default());
        assert_eq!(polled(&connection_waker, 1), (1, 0, Poll::Ready(())));
        assert_eq!(polled(&connection_waker, 3), (3, 0, Poll::Ready(())));
        assert_eq!(polled(&connection_waker, usize::MAX), (POLLS_MAX, 1, Poll::Pending));
    }

    #[test]
    fn a_wake_between_polls_wakes_the_task() {
        let (connection_waker, task) = (Arc::new(ConnectionWaker::default()), Arc::new(Task::default()));
        let waker = Waker::from(Arc::clone(&task));
        let mut inner = None;
        let waits = connection_waker.poll(&Context::from_waker(&waker), |context| {
            inner = Some(context.waker().clone());
            Poll::<()>::Pending
        });
        assert_eq!((waits, task.0.load(SeqCst)), (Poll::Pending, 0));
        inner.unwrap().wake();
        assert_eq!(task.0.load(SeqCst), 1);
    }

    #[test]
    fn no_wake_from_another_thread_is_lost() {
        let (connection_waker, count) = (Arc::new(ConnectionWaker::default()), Arc::new(AtomicU64::new(0)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (send, wakers) = std::sync::mpsc::channel::<Waker>();
        let counted = Arc::clone(&count);
        let other = std::thread::spawn(move || {
            for waker in wakers {
                counted.fetch_add(1, SeqCst);
                waker.wake();
            }
        });
        for round in 1..=2000 {
            let mut sent = false;
            runtime.block_on(std::future::poll_fn(|context| {
                connection_waker.poll(context, |context| {
                    if !std::mem::replace(&mut sent, true) {
                        send.send(context.waker().clone()).unwrap();
                    }
                    if count.load(SeqCst) == round { Poll::Ready(()) } else { Poll::Pending }
                })
            }));
        }
        drop(send);
        other.join().unwrap();
    }
}
