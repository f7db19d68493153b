//! Modification times, also on a disk that loses each unsynced time.

use super::found::{at, bucket, open_past_the_server, put, write};
use super::model::State;
use super::operation::Operation;
use super::process::Process;
use super::schedule::having_done;
use crate::clock::{Clock, Timestamp};
use crate::tests::random::Choices;

/// A file is written and synced twice, and power fails; when it was changed the second time at the earliest, and when by
/// what is found.
fn changed_twice(last: Operation) -> (Timestamp, Timestamp) {
    let fsync = Operation::Fsync { at: at("f"), data_only: false };
    let first = [bucket(), Operation::Make { at: at("f") }, write(at("f"), 0, 9_000), fsync, put("other", 10)];
    let (machine, mut process) = having_done(first);
    let earliest = machine.clock.now();
    for operation in [write(at("f"), 100, 100), last] {
        process.operation(&State::default(), &operation).unwrap();
    }
    process.disk.dies();
    let left = process.disk.after_power_cut(&mut Choices::with(1));
    let found = Process::open(machine, left).unwrap().modified(&at("f")).unwrap();
    (earliest, found)
}

#[test]
fn fsync_takes_the_time_along() {
    let (earliest, found) = changed_twice(Operation::Fsync { at: at("f"), data_only: false });
    assert!(found >= earliest, "{found:?}, {earliest:?}");
}

#[test]
fn so_does_the_end_of_a_mount() {
    let (earliest, found) = changed_twice(Operation::SyncVolume { bucket: "alpha".into() });
    assert!(found >= earliest, "{found:?}, {earliest:?}");
}

#[test]
fn fdatasync_need_not() {
    let (earliest, found) = changed_twice(Operation::Fsync { at: at("f"), data_only: true });
    assert!(found < earliest, "the disk does not lie: {found:?}, {earliest:?}");
}

#[test]
fn a_file_that_is_mapped_past_the_server_shows_when_it_was_written_and_not_when_that_was_noticed() {
    let (_machine, mut process) = having_done(open_past_the_server(6));
    let written = process.modified(&at("f")).unwrap();
    for later in [Operation::Day, Operation::Look { bucket: "alpha".into() }] {
        process.operation(&State::default(), &later).unwrap();
        assert_eq!(process.modified(&at("f")).unwrap(), written, "{later:?}");
    }
}
