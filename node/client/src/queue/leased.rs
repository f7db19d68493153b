//! The lease of the volume as the node has it: asked for, held, taken back, given back.
//!
//! A number that was taken or given back never counts again: an answer that grants it was overtaken.

use std::ops::Range;
use std::time::Duration;

use node_codec::session::Leased;
use node_session::Moment;
use objstore_base::clock::Timestamp;

/// So many changes within [`WINDOW`] are wanted before the lease is asked for.
const WANTED: u32 = 4;
const WINDOW: Duration = Duration::from_secs(1);
/// How long it is not asked for again after the store did not grant it. The store itself grants none for a second after others
/// have used the volume.
const PAUSE: Duration = Duration::from_secs(1);
/// How long after a refusal, at most: others use the volume all the time.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How the lease stands.
#[derive(Debug, Default)]
pub(super) enum Stage {
    /// It is not known whether the store leases volumes, or it does not.
    #[default]
    Never,
    /// Nothing is answered here any more.
    Over,
    /// Others may use the volume.
    Shared(Shared),
    /// This session has the volume alone.
    Held(Held),
}

/// A volume that others may use.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The highest number that was taken or given back.
    over: u64,
    /// When changes were counted first, and how many.
    wanted: Option<(Moment, u32)>,
    /// When the lease was not granted last, and for how long it is not asked for.
    pause: Option<(Moment, Duration)>,
    is_asked: bool,
}

/// A volume that this session has alone.
#[derive(Debug)]
pub(super) struct Held {
    grant: u64,
    /// The highest number that was taken or given back before.
    over: u64,
    /// The time at the store, and when it was told.
    now: (Timestamp, Moment),
    free_bytes: u64,
    /// Numbers for new inodes.
    inos: Range<u64>,
}

impl Stage {
    /// The store leases volumes and there is a journal, or not.
    pub(super) fn allow(&mut self, allowed: bool) {
        match self {
            Self::Over => {}
            Self::Never if allowed => *self = Self::Shared(Shared::default()),
            _ if !allowed => *self = Self::Never,
            _ => {}
        }
    }

    /// Nothing is answered here any more, in this process. The lease stays until the store takes it back.
    pub(super) fn forbid(&mut self) {
        *self = Self::Over;
    }

    /// Whether changes are answered here: not while the numbers for new inodes are used up, until there are others.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Held(held) if !held.inos.is_empty())
    }

    /// Whether the lease is this session's.
    pub(super) fn has_lease(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// The number of the next new inode.
    pub(super) fn next_ino(&self) -> Option<u64> {
        let Self::Held(held) = self else { return None };
        held.inos.clone().next()
    }

    /// That number is used.
    pub(super) fn took_ino(&mut self) {
        if let Self::Held(held) = self {
            held.inos.start += 1;
        }
    }

    /// The lease would be useful; whether it is to be asked for now.
    pub(super) fn wanted(&mut self, now: Moment) -> bool {
        let Self::Shared(shared) = self else { return false };
        if shared.pause.is_some_and(|(since, pause)| now.since(since) < pause) {
            return false;
        }
        let (since, count) = shared.wanted.filter(|(since, _)| now.since(*since) < WINDOW).unwrap_or((now, 0));
        shared.wanted = Some((since, count + 1));
        count + 1 == WANTED && !shared.is_asked
    }

    /// Whether the lease is to be asked for, or for more numbers, now that nothing waits.
    pub(super) fn ask(&mut self) -> bool {
        let shared = match self {
            Self::Never | Self::Over => return false,
            Self::Held(held) => return held.inos.is_empty(),
            Self::Shared(shared) => shared,
        };
        let asks = shared.wanted.is_some_and(|(_, count)| count >= WANTED);
        if asks {
            (shared.wanted, shared.is_asked) = (None, true);
        }
        asks
    }

    /// The store has answered the request for the lease, or not (`None`). Returns a number that has to be given back: it
    /// was over before.
    pub(super) fn granted(&mut self, leased: Option<Leased>, now: Moment) -> Option<u64> {
        let leased = leased.filter(|leased| leased.grant != 0);
        let over = match self {
            Self::Never | Self::Over => u64::MAX,
            Self::Held(held) => held.over,
            Self::Shared(shared) => shared.over,
        };
        match (leased, &mut *self) {
            (Some(leased), _) if leased.grant > over => {
                let Leased { grant, free_bytes, first_ino, inos, .. } = leased;
                let inos = first_ino..first_ino.saturating_add(inos);
                *self = Self::Held(Held { grant, over, now: (Timestamp(leased.now), now), free_bytes, inos });
                None
            }
            // The store is just taking it back.
            (None, Self::Held(held)) => {
                *self = shared(held.grant);
                None
            }
            (leased, Self::Shared(shared)) => {
                let before = shared.pause.map_or(PAUSE, |(_, pause)| pause);
                shared.pause = Some((now, (before * 2).min(PAUSE_MAX)));
                shared.is_asked = false;
                leased.map(|leased| leased.grant)
            }
            (leased, _) => leased.map(|leased| leased.grant),
        }
    }

    /// The store takes the lease back, or an earlier one.
    pub(super) fn recall(&mut self, grant: u64) {
        match self {
            Self::Never | Self::Over => {}
            Self::Shared(shared) => shared.over = shared.over.max(grant),
            Self::Held(held) if held.grant > grant => held.over = held.over.max(grant),
            Self::Held(_) => *self = shared(grant),
        }
    }

    /// Gives the lease back after a rest; its number.
    pub(super) fn give_back(&mut self) -> Option<u64> {
        let Self::Held(held) = self else { return None };
        let grant = held.grant;
        *self = shared(grant);
        Some(grant)
    }

    /// The time of a change, as the store counts: never ahead of it.
    pub(super) fn time(&self, now: Moment) -> Option<Timestamp> {
        let Self::Held(Held { now: (told, since), .. }) = self else { return None };
        let elapsed = i64::try_from(now.since(*since).as_nanos()).unwrap_or(0);
        Some(Timestamp(told.0.saturating_add(elapsed)))
    }

    /// The store has made a change that takes about so many bytes.
    pub(super) fn spent(&mut self, bytes: u64) {
        if let Self::Held(held) = self {
            held.free_bytes = held.free_bytes.saturating_sub(bytes);
        }
    }

    /// Takes so many of the free bytes; whether there are more.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let Self::Held(held) = self else { return false };
        let left = held.free_bytes.checked_sub(bytes);
        held.free_bytes = left.unwrap_or(held.free_bytes);
        left.is_some()
    }
}

fn shared(over: u64) -> Stage {
    Stage::Shared(Shared { over, ..Shared::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn leased(grant: u64, inos: u64) -> Leased {
        Leased { grant, first_ino: 100, inos, now: 5_000_000_000, free_bytes: 10, made: 0 }
    }

    fn wanted() -> Stage {
        let mut stage = Stage::default();
        stage.allow(true);
        assert!(!(1..WANTED).any(|_| stage.wanted(at(0))) && stage.wanted(at(0)) && stage.ask() && !stage.ask());
        stage
    }

    #[test]
    fn a_lease_that_was_taken_back_before_its_answer_arrived_is_none() {
        let mut stage = wanted();
        stage.recall(7);
        assert_eq!(stage.granted(Some(leased(7, 9)), at(1)), Some(7), "it is given back once more");
        assert!(!stage.is_held() && !stage.wanted(at(2)), "there is a pause");
        assert_eq!(stage.granted(Some(leased(8, 9)), at(9)), None);
        assert!(stage.is_held());
        stage.recall(7);
        assert!(stage.is_held(), "that was an earlier one");
        stage.recall(8);
        assert!(!stage.is_held() && stage.time(at(9)).is_none());
        let mut stage = wanted();
        assert_eq!(stage.granted(Some(leased(3, 9)), at(1)), None);
        assert_eq!((stage.give_back(), stage.give_back()), (Some(3), None));
        assert_eq!(stage.granted(Some(leased(3, 9)), at(1)), Some(3));
        stage.forbid();
        stage.allow(true);
        assert!(!stage.wanted(at(9)) && !stage.ask());
        assert_eq!(stage.granted(Some(leased(4, 9)), at(1)), Some(4));
    }

    #[test]
    fn a_refused_lease_is_asked_for_less_and_less_often() {
        let mut stage = wanted();
        let mut now = 0;
        for pause in [2, 4, 8, 16, 30, 30] {
            assert_eq!(stage.granted(None, at(now)), None);
            assert!(!(0..9).any(|_| stage.wanted(at(now + pause - 1))));
            now += pause;
            assert!((0..WANTED).any(|_| stage.wanted(at(now))) && stage.ask());
        }
        let mut stage = wanted();
        stage.granted(Some(leased(3, 9)), at(0));
        stage.give_back();
        assert!((0..WANTED).any(|_| stage.wanted(at(0))), "not after it was given back");
        assert!(!Stage::default().wanted(at(0)));
    }

    #[test]
    fn numbers_and_bytes_are_used_up_and_the_time_is_that_of_the_store() {
        let mut stage = wanted();
        stage.granted(Some(leased(3, 2)), at(1));
        assert_eq!(stage.time(at(3)), Some(Timestamp(7_000_000_000)));
        assert!(stage.take(6) && !stage.take(5) && stage.take(4) && !stage.take(1));
        assert_eq!(stage.next_ino(), Some(100));
        stage.took_ino();
        assert!(stage.is_held() && !stage.ask());
        stage.took_ino();
        assert!(!stage.is_held() && stage.next_ino().is_none() && stage.ask(), "it asks for others");
        stage.granted(Some(leased(3, 2)), at(4));
        assert!(stage.is_held() && stage.take(9));
        stage.spent(9);
        assert!(!stage.take(1));
        stage.took_ino();
        stage.took_ino();
        assert_eq!(stage.granted(None, at(4)), None);
        assert!(!stage.is_held() && !stage.ask(), "the store is taking it back");
    }
}
