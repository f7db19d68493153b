//! Handles that sent FLUSH and are not released yet (see `volume/closing.rs`).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long to wait for the RELEASE after a FLUSH, which normally follows at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Handles that sent FLUSH, by bucket and inode.
#[derive(Default)]
pub(crate) struct Closings {
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
    /// A handle sent FLUSH.
    pub fn begin(&self, bucket: u64, ino: u64, mount: u64, handle: u64) {
        let mut files = self.files.lock();
        let closings = files.entry((bucket, ino)).or_default();
        if !closings.iter().any(|closing| (closing.mount, closing.handle) == (mount, handle)) {
            closings.push(Closing { mount, handle, stays: false });
        }
    }

    /// How many handles of a mount were said to close and are not closed.
    pub fn count(&self, bucket: u64, ino: u64, mount: u64) -> usize {
        let files = self.files.lock();
        let closings = files.get(&(bucket, ino)).into_iter().flatten();
        closings.filter(|closing| closing.mount == mount).count()
    }

    /// A handle was released.
    pub fn end(&self, bucket: u64, ino: u64, mount: u64, handle: u64) {
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

    /// Waits until no handle of a file closes any more.
    pub fn wait(&self, bucket: u64, ino: u64) {
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
