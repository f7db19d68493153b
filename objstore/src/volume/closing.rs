//! Files that are being closed: the next writer waits until they are.
//!
//! - close(2) returns before the kernel reports that a file was finally closed (RELEASE), and the program's next action
//!   can overtake that report. FLUSH, which reports the close of one descriptor, comes in time, and that is usually the
//!   last. So while a version is being written, a new writer waits until the handles that sent FLUSH are released.
//! - A handle that is not released within [`PATIENCE`] has another descriptor (dup(2), fork(2)) or a mapping: the
//!   version continues, and no writer waits for that handle again.
//! - All of it is in memory: the death of the process ends every open version (`writers`).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::session::{Session, Volume};

/// How long to wait for the RELEASE after a FLUSH, which normally follows at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Handles that sent FLUSH, by bucket and inode.
#[derive(Default)]
pub(super) struct Closings {
    files: Mutex<HashMap<(u64, u64), Vec<Closing>>>,
    fewer: Condvar,
}

struct Closing {
    mount: u64,
    handle: u64,
    /// It was not released in time.
    stays: bool,
}

impl Closings {
    fn begin(&self, bucket: u64, ino: u64, mount: u64, handle: u64) {
        let mut files = self.files.lock();
        let closings = files.entry((bucket, ino)).or_default();
        if !closings.iter().any(|closing| (closing.mount, closing.handle) == (mount, handle)) {
            closings.push(Closing { mount, handle, stays: false });
        }
    }

    fn end(&self, bucket: u64, ino: u64, mount: u64, handle: u64) {
        let mut files = self.files.lock();
        if let Some(closings) = files.get_mut(&(bucket, ino)) {
            closings.retain(|closing| (closing.mount, closing.handle) != (mount, handle));
            if closings.is_empty() {
                files.remove(&(bucket, ino));
            }
            self.fewer.notify_all();
        }
    }

    /// Removes a mount that has ended, with all its handles.
    pub fn end_all(&self, mount: u64) {
        self.files.lock().retain(|_, closings| {
            closings.retain(|closing| closing.mount != mount);
            !closings.is_empty()
        });
        self.fewer.notify_all();
    }

    fn wait(&self, bucket: u64, ino: u64) {
        let mut files = self.files.lock();
        let closes = |files: &mut HashMap<(u64, u64), Vec<Closing>>| {
            files.get(&(bucket, ino)).is_some_and(|closings| closings.iter().any(|closing| !closing.stays))
        };
        if self.fewer.wait_while_for(&mut files, closes, PATIENCE).timed_out() {
            let left = files.get_mut(&(bucket, ino)).into_iter().flatten();
            left.for_each(|closing| closing.stays = true);
        }
    }
}

impl Volume {
    /// Records that a descriptor of a file open for writing is being closed, perhaps the last of `handle`. Called
    /// before close(2) returns; [`Volume::closed`] follows later.
    pub fn closing(&self, ino: u64, handle: u64) {
        let Session { core, bucket, mount, .. } = &*self.0;
        core.writers.closings.begin(*bucket, ino, *mount, handle);
    }

    /// Records that the handle was released, and [`Volume::close_writer`] called for it.
    pub fn closed(&self, ino: u64, handle: u64) {
        let Session { core, bucket, mount, .. } = &*self.0;
        core.writers.closings.end(*bucket, ino, *mount, handle);
    }

    /// Waits before another writer begins, so that a version whose writers have closed is complete.
    pub(super) fn wait_for_closing(&self, ino: u64) {
        let Session { core, bucket, .. } = &*self.0;
        if core.writers.is_begun(*bucket, ino) {
            core.writers.closings.wait(*bucket, ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Whether there is nothing to wait for.
    fn is_closed(closings: &Closings) -> bool {
        let begun = Instant::now();
        closings.wait(1, 2);
        begun.elapsed() < PATIENCE
    }

    #[test]
    fn who_comes_next_waits_for_all_that_close() {
        let closings = Closings::default();
        assert!(is_closed(&closings));
        closings.begin(1, 2, 7, 10);
        closings.begin(1, 2, 7, 11);
        closings.begin(1, 3, 7, 12);
        std::thread::scope(|scope| {
            let (waited, waits) = mpsc::channel();
            let closings = &closings;
            scope.spawn(move || {
                closings.wait(1, 2);
                waited.send(closings.files.lock().contains_key(&(1, 2))).unwrap();
            });
            closings.end(1, 2, 7, 10);
            assert!(waits.try_recv().is_err());
            closings.end(1, 2, 7, 11);
            assert!(!waits.recv().unwrap());
        });
        closings.end_all(7);
        assert!(closings.files.lock().is_empty());
    }

    #[test]
    fn what_stays_open_is_waited_for_once() {
        let closings = Closings::default();
        closings.begin(1, 2, 7, 10);
        assert!(!is_closed(&closings));
        closings.begin(1, 2, 7, 10);
        assert!(is_closed(&closings), "another copy of its descriptor was closed");
        closings.begin(1, 2, 8, 10);
        closings.end(1, 2, 8, 10);
        assert!(is_closed(&closings), "the same number of another mount");
        closings.end(1, 2, 7, 10);
        closings.begin(1, 2, 7, 10);
        closings.end_all(7);
        assert!(is_closed(&closings));
    }
}
