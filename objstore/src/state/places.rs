//! A cache of recently changed directories: the length of their paths, and whether a mount can show them.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::name::mountable;

/// The most cached places.
const PLACES_MAX: usize = 4096;

/// The position of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Length of its path in bytes, with the final `/`; zero at the top.
    pub bytes: usize,
    /// Whether a mount cannot show it, because of its own name or one above it.
    pub unshown: bool,
}

impl Place {
    /// The place of a directory in this one.
    pub fn below(self, name: &str) -> Self {
        Self { bytes: self.bytes + name.len() + 1, unshown: self.unshown || !mountable(name) }
    }
}

/// Places of directories, by bucket and inode.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<(u64, u64), Place>>);

impl Places {
    /// The place of a directory, if it is kept.
    pub fn get(&self, bucket: u64, dir: u64) -> Option<Place> {
        self.0.lock().get(&(bucket, dir)).copied()
    }

    /// Keeps places of directories of a bucket.
    pub fn add(&self, bucket: u64, found: &[(u64, Place)]) {
        let mut places = self.0.lock();
        if places.len() + found.len() > PLACES_MAX {
            places.clear();
        }
        places.extend(found.iter().take(PLACES_MAX).map(|(dir, place)| ((bucket, *dir), *place)));
    }

    /// Removes the places of a bucket.
    pub fn forget(&self, bucket: u64) {
        self.0.lock().retain(|(of, _), _| *of != bucket);
    }
}
