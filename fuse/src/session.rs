//! The threads that serve a mount, from the first request to the last.
//!
//! - A session is over when the kernel is done with the mount; only then is what it held let go, and the holder told.
//! - One that is paused is not over: its threads stay where they are until the process ends.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use objstore::volume::Volume;
use parking_lot::{Condvar, Mutex};

use crate::adapter::{Pause, Server};

/// The serving threads.
pub(crate) struct Session {
    thread: Mutex<Option<JoinHandle<()>>>,
    over: Mutex<bool>,
    ended: Condvar,
    pause: Pause,
}

impl Session {
    /// Serves until the kernel is done with the mount; then ends the feed and calls `end`.
    pub fn run(
        server: Server,
        volume: Volume,
        following: JoinHandle<()>,
        end: impl FnOnce() + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let pause = server.pause_handle();
        let session = Self { thread: Mutex::new(None), over: Mutex::new(false), ended: Condvar::new(), pause };
        let session = Arc::new(session);
        let running = session.clone();
        let thread = std::thread::Builder::new().name("fuse-session".into()).spawn(move || {
            let served = server.run();
            volume.close_feed();
            let _ = following.join();
            match served {
                Ok(()) => {
                    volume.end();
                    end();
                }
                // The kernel still has the mount, and so has the holder, for the next server.
                Err(error) => tracing::error!(%error, "the session of a mount ended unexpectedly"),
            }
            drop(volume);
            *running.over.lock() = true;
            running.ended.notify_all();
        })?;
        *session.thread.lock() = Some(thread);
        Ok(session)
    }

    /// Whether the kernel is done with the mount.
    pub fn is_over(&self) -> bool {
        *self.over.lock()
    }

    /// Whether it is over within `limit`.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut over = self.over.lock();
        self.ended.wait_while_for(&mut over, |over| !*over, limit);
        let ended = *over;
        drop(over);
        if ended && let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
        ended
    }

    /// Serves nothing more; whether all that was under way is answered within `limit`.
    pub fn pause(&self, limit: Duration) -> bool {
        self.pause.pause(limit)
    }
}
