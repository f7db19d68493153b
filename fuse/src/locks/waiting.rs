//! Requests that wait for a lock: which of them the store is being asked for, and which wait at the store.

use std::collections::{HashMap, VecDeque};

use objstore_files::{Lock, LockOwner};

use crate::errno::Result;

/// How many interruptions of requests that are not known yet are remembered: the thread that read such a request is just
/// about to begin it. Others are of requests that wait for no lock, and mean nothing.
const EARLY_MAX: usize = 1024;

/// Answers a request.
pub(crate) type Answer = Box<dyn FnOnce(Result<()>) + Send>;

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The file.
    pub ino: u64,
    /// Whose it will be.
    pub by: LockOwner,
    /// The lock.
    pub lock: Lock,
}

/// The requests that wait.
#[derive(Default)]
pub(super) struct Waits {
    requests: HashMap<u64, Request>,
    early: VecDeque<u64>,
    /// Nothing is granted any more.
    is_over: bool,
}

struct Request {
    wanted: Wanted,
    answer: Answer,
    state: State,
    interrupted: bool,
    /// How often the store may have forgotten it.
    moment: u64,
    /// The changes said that it is granted, while the store was being asked.
    granted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The store is being asked for it. It is not answered meanwhile: the program could unlock, and the store would lock
    /// again.
    Asking,
    /// It waits at the store, as far as is known.
    Waiting,
    /// It is being taken back from the store. The store is not asked for it meanwhile.
    Cancelling,
}

/// What follows when a request waits at the store, or could not be taken back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The changes tell when it is granted; or it was answered before.
    Nothing,
    /// The store may have forgotten it again: ask once more.
    Ask,
    /// Its caller was interrupted meanwhile: take it back. It was asked for at this moment.
    Cancel(u64),
    /// It was granted since.
    Granted,
    /// Nothing is granted any more.
    Over,
}

impl Waits {
    /// A request begins.
    pub fn begin(&mut self, number: u64, wanted: Wanted, answer: Answer) {
        let interrupted = self.early.contains(&number);
        self.early.retain(|early| *early != number);
        self.requests
            .insert(number, Request { wanted, answer, state: State::Asking, interrupted, moment: 0, granted: false });
    }

    /// What to ask the store for, and the moment at which it is asked.
    pub fn wanted(&self, number: u64) -> Option<(Wanted, u64)> {
        self.requests.get(&number).map(|request| (request.wanted, request.moment))
    }

    /// The store, asked at this moment, lets a request wait.
    pub fn waits(&mut self, number: u64, moment: u64) -> Then {
        let is_over = self.is_over;
        let Some(request) = self.requests.get_mut(&number) else { return Then::Nothing };
        if std::mem::take(&mut request.granted) {
            return Then::Granted;
        }
        if is_over {
            return Then::Over;
        }
        if request.moment != moment {
            return Then::Ask;
        }
        request.state = if request.interrupted { State::Cancelling } else { State::Waiting };
        if request.interrupted { Then::Cancel(moment) } else { Then::Nothing }
    }

    /// The caller of a request was interrupted; the moment at which to take it back from the store, if it is now.
    pub fn interrupt(&mut self, number: u64) -> Option<u64> {
        if let Some(request) = self.requests.get_mut(&number) {
            request.interrupted = true;
            let waits = request.state == State::Waiting;
            request.state = if waits { State::Cancelling } else { request.state };
            return waits.then_some(request.moment);
        }
        if self.early.len() == EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back(number);
        None
    }

    /// The store, asked at this moment to take a request back, does not know that it waits.
    pub fn is_unknown(&mut self, number: u64, moment: u64) -> Then {
        let Some(request) = self.requests.get_mut(&number) else { return Then::Nothing };
        if request.moment != moment {
            request.state = State::Asking;
            return Then::Ask;
        }
        request.state = State::Waiting;
        Then::Nothing
    }

    /// The changes say that a request is granted: it ends, or as soon as the store has answered.
    pub fn granted(&mut self, number: u64) -> Option<Answer> {
        match self.requests.get_mut(&number) {
            Some(request) if request.state == State::Asking => {
                request.granted = true;
                None
            }
            _ => self.finish(number),
        }
    }

    /// The store may have forgotten those requests that `is_meant` picks; what to ask for again.
    pub fn forgotten(&mut self, is_meant: impl Fn(&Wanted) -> bool) -> Vec<u64> {
        let mut again = Vec::new();
        for (number, request) in self.requests.iter_mut().filter(|(_, request)| is_meant(&request.wanted)) {
            request.moment += 1;
            if request.state == State::Waiting {
                request.state = State::Asking;
                again.push(*number);
            }
        }
        again
    }

    /// A request ends; `None` if it did before.
    pub fn finish(&mut self, number: u64) -> Option<Answer> {
        self.requests.remove(&number).map(|request| request.answer)
    }

    /// Nothing is granted any more: all requests end that the store is not being asked for.
    pub fn end(&mut self) -> Vec<Answer> {
        self.is_over = true;
        let over = self.requests.iter().filter(|(_, request)| request.state != State::Asking);
        let over: Vec<_> = over.map(|(number, _)| *number).collect();
        over.into_iter().filter_map(|number| self.finish(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use objstore_files::{LockKind, LockMode, LockRange};

    use super::*;

    const WANTED: Wanted = Wanted {
        ino: 1,
        by: LockOwner { owner: 2, handle: 3, pid: 4 },
        lock: Lock { kind: LockKind::Whole, mode: LockMode::Shared, range: LockRange::ALL },
    };

    fn begun(waits: &mut Waits, number: u64) -> u64 {
        waits.begin(number, WANTED, Box::new(drop));
        waits.wanted(number).unwrap().1
    }

    #[test]
    fn an_interruption_counts_before_during_and_after_the_store_is_asked() {
        let mut waits = Waits::default();
        assert_eq!(waits.interrupt(2), None, "not known yet");
        let moment = begun(&mut waits, 2);
        assert_eq!(waits.waits(2, moment), Then::Cancel(0));
        let moment = begun(&mut waits, 4);
        assert_eq!(waits.interrupt(4), None, "the store is being asked");
        assert_eq!(waits.waits(4, moment), Then::Cancel(0));
        let moment = begun(&mut waits, 6);
        assert_eq!(waits.waits(6, moment), Then::Nothing);
        assert_eq!((waits.interrupt(6), waits.interrupt(6)), (Some(0), None), "taken back once");
        assert_eq!(waits.forgotten(|_| true), [0; 0], "each of them is being taken back");
        assert_eq!(waits.is_unknown(6, 0), Then::Ask, "the store was restarted meanwhile");
        assert_eq!(waits.waits(6, 1), Then::Cancel(1));
        assert_eq!(waits.is_unknown(6, 1), Then::Nothing, "granted: the changes tell");
        assert!(waits.granted(6).is_some());
        let moment = begun(&mut waits, 8);
        assert_eq!(waits.waits(8, moment), Then::Nothing);
    }

    #[test]
    fn early_interruptions_are_bounded() {
        let mut waits = Waits::default();
        assert!((0..=EARLY_MAX as u64).all(|number| waits.interrupt(number).is_none()));
        assert_eq!(waits.early.len(), EARLY_MAX);
    }

    #[test]
    fn what_a_store_may_have_forgotten_is_asked_for_again() {
        let mut waits = Waits::default();
        let moments = [2, 4].map(|number| begun(&mut waits, number));
        assert_eq!(waits.waits(2, moments[0]), Then::Nothing);
        assert_eq!(waits.forgotten(|_| true), [2]);
        assert_eq!(waits.waits(4, moments[1]), Then::Ask, "its answer came before the restart, and is read after it");
        let moment = waits.wanted(2).unwrap().1;
        assert_eq!(waits.waits(2, moment), Then::Nothing);
        assert!(waits.finish(2).is_some() && waits.finish(2).is_none());
        assert_eq!(waits.waits(2, moment), Then::Nothing, "granted before the answer was read");
    }

    /// If it were, its program could unlock before the store is asked, and the store would lock again.
    #[test]
    fn a_request_is_not_answered_while_the_store_is_being_asked_for_it() {
        let mut waits = Waits::default();
        let moment = begun(&mut waits, 2);
        assert!(waits.granted(2).is_none(), "its answer is overtaken by the changes");
        assert_eq!(waits.waits(2, moment), Then::Granted);
        assert!(waits.finish(2).is_some());
        let moment = begun(&mut waits, 4);
        waits.waits(4, moment);
        assert_eq!(waits.forgotten(|_| true), [4]);
        assert!(waits.granted(4).is_none() && waits.finish(4).is_some());
    }

    #[test]
    fn at_the_end_nobody_waits() {
        let mut waits = Waits::default();
        let moments = [2, 4].map(|number| begun(&mut waits, number));
        waits.waits(2, moments[0]);
        assert_eq!(waits.end().len(), 1);
        assert_eq!(waits.waits(4, moments[1]), Then::Over);
    }
}
