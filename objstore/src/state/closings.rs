//! Handles that sent FLUSH and are not released yet (see `volume/closing.rs`).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long to wait for the RELEASE after a FLUSH, which normally follows at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Handles that sent FLUSH, by bucket and inode.
#[derive(Default)]
pub(crate) struct Closings {
    files: Mutex<Files>,
    fewer: Condvar,
}

#[derive(Default)]
struct Files {
    by_inode: HashMap<(u64, u64), Vec<Closing>>,
    /// How many handles of each mount there are.
    by_mount: HashMap<u64, usize>,
}

impl Files {
    /// Removes the handles of a file for which `ends` holds.
    fn remove(&mut self, file: (u64, u64), ends: impl Fn(&Closing) -> bool) {
        let Some(closings) = self.by_inode.get_mut(&file) else { return };
        closings.retain(|closing| {
            let stays = !ends(closing);
            if !stays && let Some(count) = self.by_mount.get_mut(&closing.mount) {
                *count -= 1;
            }
            stays
        });
        if closings.is_empty() {
            self.by_inode.remove(&file);
        }
        self.by_mount.retain(|_, count| *count > 0);
    }
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
        let files = &mut *self.files.lock();
        let closings = files.by_inode.entry((bucket, ino)).or_default();
        if !closings.iter().any(|closing| (closing.mount, closing.handle) == (mount, handle)) {
            closings.push(Closing { mount, handle, stays: false });
            *files.by_mount.entry(mount).or_default() += 1;
        }
    }

    /// How many handles of a mount were said to close and are not closed: of a file, and of all.
    pub fn count(&self, bucket: u64, ino: u64, mount: u64) -> (usize, usize) {
        let files = self.files.lock();
        let closings = files.by_inode.get(&(bucket, ino)).into_iter().flatten();
        let of_file = closings.filter(|closing| closing.mount == mount).count();
        (of_file, files.by_mount.get(&mount).copied().unwrap_or(0))
    }

    /// A handle was released.
    pub fn end(&self, bucket: u64, ino: u64, mount: u64, handle: u64) {
        let is_it = |closing: &Closing| (closing.mount, closing.handle) == (mount, handle);
        self.files.lock().remove((bucket, ino), is_it);
        self.fewer.notify_all();
    }

    /// Removes a mount that has ended, with all its handles.
    pub fn end_all(&self, mount: u64) {
        let files = &mut *self.files.lock();
        files.by_inode.retain(|_, closings| {
            closings.retain(|closing| closing.mount != mount);
            !closings.is_empty()
        });
        files.by_mount.remove(&mount);
        self.fewer.notify_all();
    }

    /// Waits until no handle of a file closes any more.
    pub fn wait(&self, bucket: u64, ino: u64) {
        let mut files = self.files.lock();
        let closes = |files: &mut Files| {
            files.by_inode.get(&(bucket, ino)).is_some_and(|closings| closings.iter().any(|closing| !closing.stays))
        };
        if self.fewer.wait_while_for(&mut files, closes, PATIENCE).timed_out() {
            let left = files.by_inode.get_mut(&(bucket, ino)).into_iter().flatten();
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
                waited.send(closings.files.lock().by_inode.contains_key(&(1, 2))).unwrap();
            });
            closings.end(1, 2, 7, 10);
            assert!(waits.try_recv().is_err());
            closings.end(1, 2, 7, 11);
            assert!(!waits.recv().unwrap());
        });
        closings.end_all(7);
        let files = closings.files.lock();
        assert!(files.by_inode.is_empty() && files.by_mount.is_empty());
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
