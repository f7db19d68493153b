//! The session of a mount: the threads that serve it, from the first request to the last.
//!
//! - A session ends when the kernel mount is gone. Only then are its resources released and the holder's deposit
//!   withdrawn.
//! - A paused session has not ended: its threads stay blocked until the process ends.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use objstore_base::error::Result;
use objstore_files::FileSession;
use parking_lot::{Condvar, Mutex};

use crate::adapter::{Pause, Server};

/// The threads that serve a mount.
pub(crate) struct Session {
    thread: Mutex<Option<JoinHandle<()>>>,
    over: Mutex<bool>,
    /// The outcome of the last sync of the volume, once the mount is gone.
    synced: Mutex<Option<Result<()>>>,
    ended: Condvar,
    pause: Pause,
}

impl Session {
    /// Serves until the kernel mount is gone. Then it syncs what was written, ends the stream of changes and the session of
    /// the store, which cannot sync any more, and calls `end`.
    pub fn run(
        server: Server,
        files: FileSession,
        following: JoinHandle<()>,
        end: impl FnOnce() + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let pause = server.pause_handle();
        let (thread, over, synced, ended) = (Mutex::new(None), Mutex::new(false), Mutex::new(None), Condvar::new());
        let session = Arc::new(Self { thread, over, synced, ended, pause });
        let running = session.clone();
        let thread = std::thread::Builder::new().name("fuse-session".into()).spawn(move || {
            let served = server.run();
            files.close_changes();
            let _ = following.join();
            match served {
                Ok(()) => {
                    *running.synced.lock() = Some(files.own().sync_volume());
                    files.end();
                    end();
                }
                // The mount still exists in the kernel and with the holder, for the next server.
                Err(error) => tracing::error!(%error, "the session of a mount ended unexpectedly"),
            }
            drop(files);
            *running.over.lock() = true;
            running.ended.notify_all();
        })?;
        *session.thread.lock() = Some(thread);
        Ok(session)
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        *self.over.lock()
    }

    /// Waits up to `limit` for the session's end. Returns whether it has ended.
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

    /// The outcome of the last sync of an ended session, once.
    pub fn take_synced(&self) -> Option<Result<()>> {
        self.synced.lock().take()
    }

    /// Stops serving. Returns whether all requests in flight were answered within `limit`.
    pub fn pause(&self, limit: Duration) -> bool {
        self.pause.pause(limit)
    }
}
