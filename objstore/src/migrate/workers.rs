//! Doing something with many things, several at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// How many at a time.
const WORKERS: usize = 8;

/// Calls `work` for each thing that `next` returns. The first error ends it.
pub(super) fn for_each<T: Send>(
    next: impl FnMut() -> Result<Option<T>> + Send,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let (next, failure, failed) = (Mutex::new(next), Mutex::new(None), AtomicBool::new(false));
    let run = || {
        while !failed.load(Ordering::Relaxed) {
            let thing = (*next.lock())();
            let done = match thing {
                Ok(Some(thing)) => work(thing),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                failed.store(true, Ordering::Relaxed);
                failure.lock().get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = (0..WORKERS).map(|_| std::thread::Builder::new().name("migrate".into()).spawn_scoped(scope, run));
        let threads: Vec<_> = threads.collect();
        if threads.iter().all(Result::is_err) {
            failure.lock().get_or_insert(Error::Engine { why: "no thread could be started".into() });
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn each_thing_is_done_once_and_the_first_error_ends_it() {
        let (mut things, sum) = ((1..=1000_u64).fuse(), AtomicU64::new(0));
        let add = |thing| {
            sum.fetch_add(thing, Ordering::Relaxed);
            Ok(())
        };
        for_each(|| Ok(things.next()), add).unwrap();
        assert_eq!(sum.into_inner(), 500_500);
        let mut endless = 0..;
        let refused = for_each(
            || Ok(endless.next()),
            |thing| match thing {
                500 => Err(Error::Engine { why: "500".into() }),
                _ => Ok(()),
            },
        );
        assert!(matches!(refused, Err(Error::Engine { why }) if why == "500"));
    }
}
