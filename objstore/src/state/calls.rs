//! The calls under way of a session that can be ended from outside: after its end none is.

use parking_lot::{Condvar, Mutex};

/// Counts the calls of a session.
#[derive(Default)]
pub(crate) struct Calls {
    state: Mutex<State>,
    fewer: Condvar,
}

#[derive(Default)]
struct State {
    under_way: usize,
    closed: bool,
}

/// A call under way.
pub(crate) struct UnderWay<'a>(&'a Calls);

impl Calls {
    /// Begins a call; `None` once the session is ended.
    pub fn begin(&self) -> Option<UnderWay<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.under_way += 1;
        Some(UnderWay(self))
    }

    /// Whether further calls are refused.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Refuses further calls, and waits for those under way.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        while state.under_way > 0 {
            self.fewer.wait(&mut state);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state.lock().under_way -= 1;
        self.0.fewer.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_waits_for_calls_under_way_and_refuses_others() {
        let calls = Calls::default();
        let first = calls.begin();
        assert!(first.is_some());
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| calls.close());
            while calls.begin().is_some() {
                std::thread::yield_now();
            }
            assert!(!closing.is_finished(), "the first call is under way");
            drop(first);
        });
        assert!(calls.begin().is_none());
        calls.close();
    }
}
