//! The conformance of a log in memory, and what its faults leave.

#![expect(clippy::print_stdout, reason = "the harness shows it with the failure")]

use std::sync::Arc;

use objstore_testing::random::Choices;

use super::*;
use crate::conformance::{Fixture, GUARANTEES};

#[test]
fn a_log_in_memory_keeps_every_guarantee() {
    for (name, guarantee) in GUARANTEES {
        println!("{name}");
        let log = Arc::new(Memory::new());
        let clock = Arc::clone(&log);
        guarantee(&Fixture { log: log.clone(), other: log, pass: Box::new(move |time| clock.pass(time)) });
    }
}

#[test]
fn what_is_lost_in_any_way_leaves_acknowledged_entries_before_the_first_gap() {
    for seed in 0..500 {
        let mut choices = Choices::with(seed);
        let mut own = Choices::with(seed + 1_000_000);
        let faults = Faults::chosen(move |end| choices.below(end), 5);
        let log = Memory::with(LogId([0; 16]), faults);
        let claim = Claim { server: "a".to_owned(), lease: Duration::ZERO };
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..10 {
            let tenure = log.fence(&claim).unwrap();
            let kept = log.read_from(1, Limit::default()).unwrap();
            let numbers: Vec<_> = kept.iter().map(|entry| entry.number).collect();
            assert_eq!(numbers, (1..tenure.tail.next).collect::<Vec<_>>(), "seed {seed}");
            for (number, epoch) in acknowledged.lock().iter() {
                let entry = kept.iter().find(|entry| entry.number == *number);
                // An acknowledged entry behind one that failed is not acknowledged to the outside; if the log has the
                // number, it is that entry or one of a later epoch.
                assert!(entry.is_none_or(|entry| entry.epoch >= *epoch), "seed {seed}");
            }
            for number in tenure.tail.next..tenure.tail.next + 1 + own.below(4) as u64 {
                let (acknowledged, epoch) = (Arc::clone(&acknowledged), tenure.epoch);
                let batch = Batch { epoch, first: number, bodies: vec![Bytes::from_static(b"x")] };
                let done = move |outcome: Result<()>| {
                    assert!(!matches!(outcome, Err(Error::Taken { .. })), "seed {seed}");
                    outcome.iter().for_each(|()| acknowledged.lock().push((number, epoch)));
                };
                log.append(batch, Box::new(done));
            }
            while own.below(3) > 0 && log.drive() {}
        }
    }
}
