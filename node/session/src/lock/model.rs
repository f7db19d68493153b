//! The lock manager against a model that keeps an owner's mode for each byte, and cases from fcntl(2) and flock(2).

use std::collections::BTreeMap;

use objstore_testing::random::Choices;

use super::*;

const BYTES: u64 = 12;
const FILE: u8 = 1;

fn process(session: u128, id: u64) -> Owner {
    Owner::Process(SessionId(session), id)
}

fn range(first: u64, last: u64) -> Range {
    Range::new(first, last).expect("a range")
}

fn set(locks: &mut Locks<u8>, owner: Owner, first: u64, last: u64, mode: Mode, wait: Wait) -> Set {
    locks.set(FILE, owner, Kind::Ranges, (range(first, last), mode), wait)
}

/// Who holds each byte, and who waits, in order.
#[derive(Default)]
struct Model {
    bytes: BTreeMap<(u64, Owner), Mode>,
    waiting: Vec<(Ticket, Owner, Range, Mode)>,
}

impl Model {
    fn conflicts(&self, owner: Owner, range: Range, mode: Mode) -> bool {
        let mut held = self.bytes.iter();
        held.any(|((byte, other), had)| {
            *other != owner
                && (range.first()..=range.last()).contains(byte)
                && (mode == Mode::Exclusive || *had == Mode::Exclusive)
        })
    }

    fn set(&mut self, owner: Owner, range: Range, mode: Option<Mode>) {
        for byte in range.first()..=range.last().min(BYTES) {
            match mode {
                Some(mode) => drop(self.bytes.insert((byte, owner), mode)),
                None => drop(self.bytes.remove(&(byte, owner))),
            }
        }
    }

    fn grant(&mut self) -> Vec<Ticket> {
        let mut granted = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() {
            let (ticket, owner, range, mode) = self.waiting[at];
            if self.conflicts(owner, range, mode) {
                at += 1;
            } else {
                self.set(owner, range, Some(mode));
                self.waiting.remove(at);
                granted.push(ticket);
            }
        }
        granted
    }

    /// The held bytes, as the manager has them.
    fn compare(&self, locks: &Locks<u8>) {
        let mut held = BTreeMap::new();
        for (_, _, Conflict { owner, range, mode }) in locks.held() {
            for byte in range.first()..=range.last() {
                assert_eq!(held.insert((byte, owner), mode), None, "two locks of one owner on one byte");
            }
        }
        assert_eq!(held, self.bytes);
        for ((byte, owner), mode) in &held {
            let other = |(at, holder): &(u64, Owner)| at == byte && holder != owner;
            let shared = held.iter().filter(|(key, _)| other(key)).all(|(_, had)| *had == Mode::Shared);
            assert!(shared && (*mode == Mode::Shared || !held.keys().any(other)), "mutual exclusion of byte {byte}");
        }
    }
}

fn step(choices: &mut Choices, locks: &mut Locks<u8>, model: &mut Model) {
    let owner = process(choices.below(3) as u128, choices.below_u64(2));
    let first = choices.below_u64(BYTES);
    let chosen = range(first, first + choices.below_u64(BYTES - first));
    let mode = *choices.of(&[Mode::Shared, Mode::Exclusive]);
    match choices.below(10) {
        0..=5 => {
            let wait = *choices.of(&[Wait::No, Wait::Yes]);
            let free = !model.conflicts(owner, chosen, mode);
            match locks.set(FILE, owner, Kind::Ranges, (chosen, mode), wait) {
                Set::Granted(woken) => {
                    assert!(free);
                    model.set(owner, chosen, Some(mode));
                    assert_eq!(woken, model.grant());
                }
                Set::Refused(..) => assert_eq!((wait, free), (Wait::No, false)),
                Set::Waits(ticket, _) => {
                    assert!(wait == Wait::Yes && !free);
                    model.waiting.push((ticket, owner, chosen, mode));
                }
                Set::Deadlock => assert!(wait == Wait::Yes && !free),
                Set::TooMany => panic!("so many locks were never taken"),
            }
        }
        6 | 7 => {
            let woken = locks.unset(FILE, owner, Kind::Ranges, chosen);
            model.set(owner, chosen, None);
            assert_eq!(woken, model.grant());
        }
        8 => {
            let ticket = model.waiting.get(choices.below(4)).map(|waiting| waiting.0);
            model.waiting.retain(|waiting| Some(waiting.0) != ticket);
            assert_eq!(ticket.and_then(|ticket| locks.interrupt(ticket)).unwrap_or_default(), model.grant());
        }
        _ => {
            let session = owner.session();
            model.waiting.retain(|waiting| waiting.1.session() != session);
            model.bytes.retain(|(_, owner), _| owner.session() != session);
            let (mut woken, mut expected) = (locks.end_all_of(session), model.grant());
            woken.sort_unstable();
            expected.sort_unstable();
            assert_eq!(woken, expected);
        }
    }
}

#[test]
fn random_requests_agree_with_a_mode_for_each_byte() {
    let mut choices = Choices::new();
    for _ in 0..300 {
        let (mut locks, mut model) = (Locks::new(1000), Model::default());
        for _ in 0..60 {
            step(&mut choices, &mut locks, &mut model);
            model.compare(&locks);
        }
        for session in 0..3 {
            locks.end_all_of(SessionId(session));
        }
        assert!(locks.is_empty(), "{locks:?}");
    }
}

#[test]
fn ranges_split_and_merge() {
    let mut locks = Locks::new(10);
    let owner = process(1, 1);
    for (first, last) in [(0, 4), (5, 9)] {
        set(&mut locks, owner, first, last, Mode::Exclusive, Wait::No);
    }
    let held = |locks: &Locks<u8>| -> Vec<_> { locks.held().map(|(.., lock)| (lock.range, lock.mode)).collect() };
    assert_eq!(held(&locks), [(range(0, 9), Mode::Exclusive)]);
    set(&mut locks, owner, 3, 5, Mode::Shared, Wait::No);
    locks.unset(FILE, owner, Kind::Ranges, range(0, 0));
    let parts = [(range(1, 2), Mode::Exclusive), (range(3, 5), Mode::Shared), (range(6, 9), Mode::Exclusive)];
    assert_eq!(held(&locks), parts);
    let end = Range::new(u64::MAX - 1, u64::MAX).expect("a range");
    locks.set(FILE, owner, Kind::Ranges, (end, Mode::Shared), Wait::No);
    locks.unset(FILE, owner, Kind::Ranges, Range::ALL);
    assert_eq!(held(&locks), []);
}

#[test]
fn a_circle_of_waiting_processes_is_refused_and_ends_with_a_release() {
    let mut locks = Locks::new(10);
    let [a, b, c] = [process(1, 1), process(2, 1), process(1, 2)];
    for (owner, byte) in [(a, 0), (b, 1), (c, 2)] {
        assert_eq!(set(&mut locks, owner, byte, byte, Mode::Exclusive, Wait::Yes), Set::Granted(vec![]));
    }
    assert!(matches!(set(&mut locks, a, 1, 1, Mode::Exclusive, Wait::Yes), Set::Waits(..)));
    let Set::Waits(second, _) = set(&mut locks, b, 2, 2, Mode::Exclusive, Wait::Yes) else { panic!("b waits") };
    assert_eq!(set(&mut locks, c, 0, 0, Mode::Shared, Wait::Yes), Set::Deadlock);
    assert!(matches!(set(&mut locks, c, 0, 0, Mode::Shared, Wait::No), Set::Refused(..)));
    assert_eq!(locks.unset(FILE, c, Kind::Ranges, range(2, 2)), [second]);
}

#[test]
fn a_waiting_writer_keeps_no_reader_from_its_lock_and_is_granted_before_later_waiters() {
    let mut locks = Locks::new(10);
    let [reader, writer, late, last] = [process(1, 1), process(2, 1), process(3, 1), process(3, 2)];
    set(&mut locks, reader, 0, 9, Mode::Shared, Wait::No);
    let Set::Waits(write, _) = set(&mut locks, writer, 0, 9, Mode::Exclusive, Wait::Yes) else { panic!("it waits") };
    assert_eq!(set(&mut locks, late, 0, 0, Mode::Shared, Wait::Yes), Set::Granted(vec![]), "a child of the reader");
    let Set::Waits(second, _) = set(&mut locks, last, 0, 0, Mode::Exclusive, Wait::Yes) else { panic!("it waits") };
    assert_eq!(locks.release(FILE, reader, Kind::Ranges), []);
    assert_eq!(locks.release(FILE, late, Kind::Ranges), [write]);
    assert_eq!(locks.release(FILE, writer, Kind::Ranges), [second]);
}

#[test]
fn flock_converts_by_giving_up_first_and_knows_no_ranges() {
    let mut locks = Locks::new(10);
    let [a, b] = [1, 2].map(|id| Owner::Description(SessionId(id), 1));
    let mut flock = |owner, mode, wait| locks.set(FILE, owner, Kind::Whole, (range(5, 5), mode), wait);
    assert_eq!(flock(a, Mode::Shared, Wait::No), Set::Granted(vec![]));
    assert_eq!(flock(b, Mode::Shared, Wait::No), Set::Granted(vec![]));
    let Set::Waits(ticket, _) = flock(b, Mode::Exclusive, Wait::Yes) else { panic!("it waits") };
    assert!(matches!(flock(a, Mode::Exclusive, Wait::No), Set::Refused(_, woken) if woken == [ticket]));
    let conflict = locks.test(FILE, a, Kind::Whole, (Range::ALL, Mode::Shared)).expect("b holds it");
    assert_eq!((conflict.owner, conflict.range), (b, Range::ALL));
    let beside = locks.set(FILE, process(3, 1), Kind::Ranges, (Range::ALL, Mode::Exclusive), Wait::No);
    assert_eq!(beside, Set::Granted(vec![]), "the two kinds do not see each other");
}

#[test]
fn a_session_has_a_bounded_number_of_locks() {
    let mut locks = Locks::new(3);
    let owner = process(1, 1);
    for byte in [0, 2, 4] {
        assert_eq!(set(&mut locks, owner, byte, byte, Mode::Shared, Wait::No), Set::Granted(vec![]));
    }
    assert_eq!(set(&mut locks, owner, 6, 6, Mode::Shared, Wait::No), Set::TooMany);
    locks.unset(FILE, owner, Kind::Ranges, range(0, 0));
    assert_eq!(set(&mut locks, owner, 6, 6, Mode::Shared, Wait::No), Set::Granted(vec![]));
    assert!(matches!(set(&mut locks, process(2, 1), 0, 0, Mode::Shared, Wait::No), Set::Granted(_)));
}
