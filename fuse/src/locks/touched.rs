//! Which files have locks of this mount, or may have: closing any other asks nobody.
//!
//! A file is touched from before the store is first asked for a lock, until the store says that the session has no lock
//! of it and waits for none, unless another request for one began since that was asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use objstore_files::FileSession;
use parking_lot::Mutex;

/// The files with locks.
#[derive(Default)]
pub(super) struct Touched {
    files: Mutex<HashMap<u64, Touch>>,
    /// Any file may have locks: the store could not be asked.
    all: AtomicBool,
}

#[derive(Default)]
struct Touch {
    /// How many requests for locks the store is being asked for.
    under_way: usize,
    /// How many began.
    begun: u64,
}

/// A request for a lock of a file.
pub(super) struct UnderWay<'a> {
    touched: &'a Touched,
    ino: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(touch) = self.touched.files.lock().get_mut(&self.ino) {
            touch.under_way -= 1;
        }
    }
}

impl Touched {
    /// Asks the store for the files of which the session has locks.
    pub fn load(&self, files: &FileSession) {
        let mut after = 0;
        loop {
            let inos = match files.own().locked_inodes(after) {
                Ok(inos) => inos,
                Err(error) => {
                    tracing::debug!(%error, "each close asks the store about locks");
                    return self.all.store(true, Ordering::Release);
                }
            };
            let Some(last) = inos.last().copied().filter(|last| *last > after) else { return };
            after = last;
            let mut known = self.files.lock();
            known.extend(inos.into_iter().map(|ino| (ino, Touch::default())));
        }
    }

    /// Whether a file may have locks.
    pub fn has(&self, ino: u64) -> bool {
        self.all.load(Ordering::Acquire) || self.files.lock().contains_key(&ino)
    }

    /// A request for a lock begins.
    pub fn begin(&self, ino: u64) -> UnderWay<'_> {
        let mut files = self.files.lock();
        let touch = files.entry(ino).or_default();
        touch.under_way += 1;
        touch.begun += 1;
        UnderWay { touched: self, ino }
    }

    /// The moment at which the store is asked to end locks.
    pub fn moment(&self, ino: u64) -> u64 {
        self.files.lock().get(&ino).map_or(0, |touch| touch.begun)
    }

    /// The store, asked at this moment, has others of the file left, or not.
    pub fn left(&self, ino: u64, moment: u64, has_others: bool) {
        let files = &mut *self.files.lock();
        let is_over = |touch: &Touch| touch.under_way == 0 && touch.begun == moment;
        if !has_others && files.get(&ino).is_some_and(is_over) {
            files.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_touched_until_the_store_has_no_lock_of_it() {
        let touched = Touched::default();
        let request = touched.begin(7);
        let early = touched.moment(7);
        touched.left(7, early, false);
        assert!(touched.has(7), "a request is under way");
        drop(request);
        touched.left(7, early, true);
        assert!(touched.has(7));
        drop(touched.begin(7));
        touched.left(7, early, false);
        assert!(touched.has(7), "one began since");
        touched.left(7, touched.moment(7), false);
        assert!(!touched.has(7) && touched.files.lock().is_empty());
    }
}
