//! The thread that makes checkpoints: after so many bytes of log, which bounds what an opening replays.
//!
//! - A checkpoint that fails is tried again after a pause; the log grows meanwhile, and the store is served.
//!
//! A crash ends it; the next owner counts from its own beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use objstore_base::error::{Error, Result};

use super::Taker;

/// How often the thread looks at the length of the log.
const LOOK: Duration = Duration::from_secs(2);

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(30);

/// Makes checkpoints until it is dropped.
pub(crate) struct Worker {
    /// The last batch of the newest checkpoint.
    newest: Arc<AtomicU64>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread, which makes a checkpoint whenever `bytes` were appended.
    pub fn start(taker: Taker, bytes: u64) -> Result<Self> {
        let ((stop, stopped), newest) = (channel(), Arc::new(AtomicU64::new(0)));
        let made = Arc::clone(&newest);
        let run = move || run(taker, bytes, &made, &stopped);
        let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(run);
        let thread = thread.map_err(|source| Error::io("starting the thread of checkpoints", source))?;
        Ok(Self { newest, stop: Some(stop), thread: Some(thread) })
    }

    /// The last batch of the newest checkpoint; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A checkpoint in progress ends by the limits of its calls; a panic was reported by the thread.
            let _ = thread.join();
        }
    }
}

fn run(mut taker: Taker, bytes: u64, newest: &AtomicU64, stopped: &Receiver<()>) {
    let (mut pause, mut at) = (LOOK, 0);
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = LOOK;
        let appended = taker.appender.appended_bytes();
        if appended < at + bytes || taker.appender.failure().is_some() {
            continue;
        }
        match taker.take() {
            Ok(batch) => {
                tracing::info!(batch, "a checkpoint of the metadata was made");
                newest.store(batch, Ordering::Release);
                at = appended;
            }
            Err(error) => {
                tracing::warn!(%error, "no checkpoint of the metadata was made; it is tried again");
                pause = PAUSE;
            }
        }
    }
}
