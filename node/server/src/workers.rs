//! The threads on which calls wait for the store: a bounded number, shared fairly between sessions.
//!
//! A session has at most its share of them under way or in the queue of all, and that queue is served in order. So a
//! session with many calls delays another one by its share at most.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// All threads; a cheap handle.
#[derive(Clone)]
pub(crate) struct Workers {
    all: Arc<Semaphore>,
    each: usize,
}

/// What one session may use of them; a cheap handle.
#[derive(Clone)]
pub(crate) struct Share {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

impl Workers {
    /// So many threads, and at most so many of them for one session.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all.max(1))), each: each.max(1) }
    }

    /// The share of a session.
    pub(crate) fn share(&self) -> Share {
        Share { all: Arc::clone(&self.all), own: Arc::new(Semaphore::new(self.each)) }
    }
}

/// What work holds that is under way.
type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Share {
    /// Runs `work` on a thread once one is free, and `then` behind it with the outcome; `None` if it panicked. The thread
    /// answers by itself: waking another one to do it takes longer than most work. Returns once `work` has a thread.
    pub(crate) async fn start<T>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(Option<T>) + Send + 'static,
    ) {
        let Some(places) = self.places().await else { return };
        spawn_blocking(move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            drop(places);
            then(done.ok());
        });
    }

    async fn places(&self) -> Option<Places> {
        let own = Arc::clone(&self.own).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some((own, all))
    }

    /// Runs `work` on a thread once one is free; `None` if it panicked. Work that began is finished, also if this future
    /// is dropped.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let places = self.places().await?;
        let running = spawn_blocking(move || {
            let _places = places;
            work()
        });
        running.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_session_whose_calls_all_wait_leaves_threads_to_others() {
        let workers = Workers::new(3, 2);
        let (stuck, other) = (workers.share(), workers.share());
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(parking_lot::Mutex::new(released));
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let (stuck, released) = (stuck.clone(), Arc::clone(&released));
                tokio::spawn(async move { stuck.run(move || released.lock().recv().is_err()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        let done = timeout(Duration::from_secs(10), other.run(|| 7)).await;
        assert_eq!(done, Ok(Some(7)));
        drop(release);
        for task in waiting {
            assert_eq!(task.await.expect("it ends"), Some(true));
        }
        assert_eq!(other.run(|| panic!("a call that fails")).await, None::<()>);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        other.start(|| panic!("a call that fails"), |done: Option<()>| assert!(sender.send(done).is_ok())).await;
        assert_eq!(receiver.await, Ok(None));
    }
}
