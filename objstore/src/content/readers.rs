//! Readers under way, so that the trash keeps what they may still need.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// All readers, by when they began.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Table>);

#[derive(Default)]
struct Table {
    clock: u64,
    active: BTreeMap<u64, u64>,
}

/// A reader under way.
pub(crate) struct ReadGuard {
    readers: Arc<Readers>,
    began: u64,
}

impl Readers {
    /// Begins a reader. Its snapshot has to be taken after this.
    pub fn begin(self: &Arc<Self>) -> ReadGuard {
        let mut table = self.0.lock();
        let began = table.clock;
        *table.active.entry(began).or_default() += 1;
        ReadGuard { readers: self.clone(), began }
    }

    /// A moment: readers that begin later are told apart from those before.
    pub fn moment(&self) -> u64 {
        let mut table = self.0.lock();
        table.clock += 1;
        table.clock
    }

    /// Whether all readers that began before `moment` have ended.
    pub fn ended_before(&self, moment: u64) -> bool {
        self.0.lock().active.first_key_value().is_none_or(|(oldest, _)| *oldest >= moment)
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut table = self.readers.0.lock();
        if let Some(count) = table.active.get_mut(&self.began) {
            *count -= 1;
            if *count == 0 {
                table.active.remove(&self.began);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_passes_when_the_readers_before_it_end() {
        let readers = Arc::new(Readers::default());
        let before = readers.begin();
        let moment = readers.moment();
        let after = readers.begin();
        assert!(!readers.ended_before(moment));
        drop(before);
        assert!(readers.ended_before(moment));
        drop(after);
    }
}
