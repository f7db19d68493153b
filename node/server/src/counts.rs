//! What is counted of the calls of one session.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts.
#[derive(Default)]
pub(crate) struct Counts {
    answered: AtomicU64,
    under_way: AtomicU64,
    waiting: AtomicU64,
}

/// Something under way; counted until it is dropped.
pub(crate) struct UnderWay<'a>(&'a AtomicU64);

impl Counts {
    /// A call of the session is executed, until [`Self::called`].
    pub(crate) fn call(&self) {
        self.under_way.fetch_add(1, Relaxed);
    }

    /// A call of the session is not executed any more.
    pub(crate) fn called(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// An answer waits for other mounts.
    pub(crate) fn wait(&self) -> UnderWay<'_> {
        UnderWay::new(&self.waiting)
    }

    pub(crate) fn answer(&self) {
        self.answered.fetch_add(1, Relaxed);
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.load(Relaxed)
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }
}

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
