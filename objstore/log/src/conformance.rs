//! The conformance suite of all engines: each guarantee is a function, to be called with a new, empty log.

mod owners;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;

use crate::batch::{Batch, Entry, Limit, MAX_BATCH_ENTRIES, MAX_ENTRY_BYTES};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::owner::{Claim, Epoch, Tenure};

/// An empty log, as two servers see it.
pub struct Fixture {
    /// One server's client.
    pub log: Arc<dyn Log>,
    /// Another server's client of the same log.
    pub other: Arc<dyn Log>,
    /// Lets time pass on the log's clock.
    pub pass: Box<dyn Fn(Duration) + Send + Sync>,
}

/// A guarantee; it panics if the log does not keep it.
pub type Guarantee = fn(&Fixture);

/// The guarantee in which an owner appends without a pause and never renews its lease. Where a takeover follows the appends
/// of the former owner, as in S3, it ends once it is faster than they are; a server's owner renews each second, and stops when
/// that is refused.
pub const WITHOUT_RENEWALS: &str = "a_takeover_amid_appends_loses_and_adds_nothing";

/// All guarantees, each with its name.
pub const GUARANTEES: &[(&str, Guarantee)] = &[
    ("what_was_appended_is_read_in_order", what_was_appended_is_read_in_order),
    ("a_batch_is_inserted_as_a_whole_or_not_at_all", a_batch_is_inserted_as_a_whole_or_not_at_all),
    ("reads_are_bounded_and_continue", reads_are_bounded_and_continue),
    ("a_gap_ends_the_log_until_it_is_filled", a_gap_ends_the_log_until_it_is_filled),
    ("the_next_owner_removes_what_lies_behind_a_gap", the_next_owner_removes_what_lies_behind_a_gap),
    ("trimmed_entries_are_refused_and_the_last_stays", trimmed_entries_are_refused_and_the_last_stays),
    ("impossible_batches_are_refused", impossible_batches_are_refused),
    ("a_zombie_changes_nothing", owners::a_zombie_changes_nothing),
    ("a_lease_keeps_other_servers_out", owners::a_lease_keeps_other_servers_out),
    ("one_of_many_servers_becomes_the_owner", owners::one_of_many_servers_becomes_the_owner),
    (WITHOUT_RENEWALS, owners::a_takeover_amid_appends_loses_and_adds_nothing),
    ("followers_are_known_while_they_announce_themselves", owners::followers_are_known_while_they_announce_themselves),
];

/// The lease of the suite's owners. It is longer than any pause of a busy machine.
const LEASE: Duration = Duration::from_secs(600);

fn claim(server: &str) -> Claim {
    Claim { server: server.to_owned(), lease: LEASE }
}

fn own(log: &dyn Log) -> Tenure {
    log.fence(&claim("a")).unwrap()
}

fn batch(epoch: Epoch, first: u64, bodies: &[&str]) -> Batch {
    Batch { epoch, first, bodies: bodies.iter().map(|body| Bytes::copy_from_slice(body.as_bytes())).collect() }
}

/// Appends and waits for the answer.
fn append(log: &dyn Log, batch: Batch) -> Result<()> {
    let (answer, answered) = mpsc::channel();
    log.append(batch, Box::new(move |outcome| answer.send(outcome).unwrap()));
    while log.drive() {}
    answered.recv().expect("every append is answered")
}

fn read(log: &dyn Log, number: u64) -> Vec<Entry> {
    log.read_from(number, Limit::default()).unwrap()
}

fn shown(entries: &[Entry]) -> Vec<(u64, Epoch, String)> {
    let text = |entry: &Entry| String::from_utf8(entry.body.to_vec()).unwrap();
    entries.iter().map(|entry| (entry.number, entry.epoch, text(entry))).collect()
}

fn what_was_appended_is_read_in_order(Fixture { log, other, .. }: &Fixture) {
    let tail = log.tail().unwrap();
    assert_eq!((tail.first, tail.next), (1, 1));
    let tenure = own(&**log);
    assert_eq!(tenure.tail, tail);
    assert_eq!(read(&**log, 1), []);
    append(&**log, batch(tenure.epoch, 1, &["one"])).unwrap();
    append(&**log, batch(tenure.epoch, 2, &["", "three"])).unwrap();
    let large = vec![7; 1 << 20];
    append(&**log, Batch { epoch: tenure.epoch, first: 4, bodies: vec![large.clone().into()] }).unwrap();
    for log in [log, other] {
        let entries = read(&**log, 1);
        let epoch = tenure.epoch;
        let expected = [(1, epoch, "one".into()), (2, epoch, String::new()), (3, epoch, "three".into())];
        assert_eq!(shown(&entries[..3]), expected);
        assert_eq!((entries.len(), entries[3].number, &entries[3].body[..]), (4, 4, &large[..]));
        assert_eq!(read(&**log, 4).len(), 1);
        assert_eq!(read(&**log, 5), []);
        assert_eq!(log.tail().unwrap(), crate::Tail { id: tail.id, first: 1, next: 5 });
    }
    // Bytes of every value come back.
    let every: Vec<u8> = (0..=255).collect();
    append(&**log, Batch { epoch: tenure.epoch, first: 5, bodies: vec![every.clone().into()] }).unwrap();
    assert_eq!(read(&**other, 5)[0].body, every);
}

fn a_batch_is_inserted_as_a_whole_or_not_at_all(Fixture { log, .. }: &Fixture) {
    let epoch = own(&**log).epoch;
    append(&**log, batch(epoch, 1, &["one", "two"])).unwrap();
    let before = read(&**log, 1);
    for again in [batch(epoch, 1, &["one", "two"]), batch(epoch, 2, &["other", "three"])] {
        let number = again.first;
        assert_eq!(append(&**log, again), Err(Error::Taken { number }), "a duplicate, or part of one");
        assert_eq!(read(&**log, 1), before);
    }
    append(&**log, batch(epoch, 3, &["three"])).unwrap();
    assert_eq!(log.tail().unwrap().next, 4);
}

fn reads_are_bounded_and_continue(Fixture { log, .. }: &Fixture) {
    let epoch = own(&**log).epoch;
    append(&**log, batch(epoch, 1, &["aaaa", "bbbb", "cc", "", "dddddddddddd", "e"])).unwrap();
    let read = |number, entries, bytes| -> Vec<u64> {
        let read = log.read_from(number, Limit { entries, bytes }).unwrap();
        read.iter().map(|entry| entry.number).collect()
    };
    assert_eq!(read(1, 2, 100), [1, 2]);
    assert_eq!(read(1, 9, 10), [1, 2, 3, 4]);
    assert_eq!(read(1, 9, 9), [1, 2]);
    assert_eq!(read(5, 9, 1), [5], "the first is returned at any size");
    assert_eq!(read(2, 9, 1000), [2, 3, 4, 5, 6]);
}

fn a_gap_ends_the_log_until_it_is_filled(Fixture { log, other, .. }: &Fixture) {
    let epoch = own(&**log).epoch;
    append(&**log, batch(epoch, 1, &["one"])).unwrap();
    append(&**log, batch(epoch, 3, &["three"])).unwrap();
    assert_eq!(other.tail().unwrap().next, 2);
    assert_eq!(read(&**other, 1).len(), 1);
    assert_eq!(read(&**other, 2), []);
    append(&**log, batch(epoch, 2, &["two"])).unwrap();
    assert_eq!(other.tail().unwrap().next, 4);
    assert_eq!(read(&**other, 1).len(), 3);
}

fn the_next_owner_removes_what_lies_behind_a_gap(Fixture { log, .. }: &Fixture) {
    let epoch = own(&**log).epoch;
    append(&**log, batch(epoch, 2, &["behind"])).unwrap();
    let tenure = own(&**log);
    assert_eq!(tenure.tail.next, 1, "not even the first entry is there");
    append(&**log, batch(tenure.epoch, 1, &["one"])).unwrap();
    append(&**log, batch(tenure.epoch, 3, &["three", "four"])).unwrap();
    let next = own(&**log);
    assert_eq!(next.tail.next, 2);
    append(&**log, batch(next.epoch, 2, &["two"])).unwrap();
    let expected = [(1, tenure.epoch, "one".into()), (2, next.epoch, "two".into())];
    assert_eq!(shown(&read(&**log, 1)), expected, "what was behind the gap does not come back");
}

fn trimmed_entries_are_refused_and_the_last_stays(Fixture { log, other, .. }: &Fixture) {
    let epoch = own(&**log).epoch;
    assert!(matches!(log.trim(epoch, 1), Err(Error::Invalid { .. })), "an empty log has no last entry");
    for number in 1..=20 {
        append(&**log, batch(epoch, number, &["x"])).unwrap();
    }
    log.trim(epoch, 15).unwrap();
    log.trim(epoch, 3).unwrap();
    for number in [1, 14] {
        let refused = other.read_from(number, Limit::default());
        assert_eq!(refused, Err(Error::Trimmed { first: 15 }));
    }
    assert_eq!(read(&**other, 15).len(), 6);
    assert_eq!(append(&**log, batch(epoch, 3, &["again"])), Err(Error::Taken { number: 3 }));
    assert!(matches!(log.trim(epoch, 21), Err(Error::Invalid { .. })));
    log.trim(epoch, 20).unwrap();
    let tail = own(&**log).tail;
    assert_eq!((tail.first, tail.next), (20, 21));
}

fn impossible_batches_are_refused(Fixture { log, .. }: &Fixture) {
    let epoch = own(&**log).epoch;
    let many = vec![Bytes::new(); MAX_BATCH_ENTRIES + 1];
    let large = vec![Bytes::from(vec![0; MAX_ENTRY_BYTES + 1])];
    for (first, bodies) in [(1, Vec::new()), (1, many), (1, large), (0, vec![Bytes::new()])] {
        let refused = append(&**log, Batch { epoch, first, bodies });
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    assert_eq!(log.tail().unwrap().next, 1);
}
