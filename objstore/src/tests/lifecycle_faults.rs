//! The lifecycle worker under faults: unreadable records, and a clock that was ahead.

use std::time::{Duration, Instant};

use super::lifecycle::{Set, rule};
use super::test_store::{TestStore, name};
use crate::lifecycle::{Day, Pass, Worker};
use crate::meta::Durability;
use crate::record::key::{self, tag};

#[test]
fn a_bucket_whose_rules_cannot_be_read_is_given_up_at_once() {
    let test = TestStore::in_memory();
    let buckets: Vec<_> = (0..9).map(|number| test.bucket(&format!("bucket-{number}"))).collect();
    for at in [0, 7, 8] {
        test.put(&buckets[at], "k", b"1").unwrap();
        test.set_rules(&buckets[at], vec![rule(|rule| rule.expire_date = Some(1))]);
    }
    let damaged = test.store.bucket(&buckets[7]).unwrap().id;
    let written = test.store.core.meta.write(Durability::Synced, move |txn| {
        txn.put(key::by_id(tag::SETTINGS, damaged), vec![0xff; 9]);
        Ok(())
    });
    written.wait().unwrap();
    // What was read before is kept until then.
    let test = test.reopen();
    let mut pass = Pass::resume(&test.store.core, Day::default()).unwrap();
    let mut errors = 0;
    loop {
        match pass.step(&test.store.core) {
            Ok(stepped) if stepped.done => break,
            Ok(_) => {}
            Err(_) => {
                errors += 1;
                pass.skip_bucket();
            }
        }
    }
    assert_eq!(errors, 1, "once, and not for each number between two buckets");
    for at in [0, 8] {
        assert!(test.keys(&name(&format!("bucket-{at}"))).is_empty());
    }
}

#[test]
fn a_pass_made_while_the_clock_was_ahead_does_not_put_off_the_next() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    clock.pass(1_000);
    test.expire();
    clock.pass(-1_000);
    let worker = Worker::start(&test.store, Day::new(Duration::from_millis(10))).unwrap();
    let started = Instant::now();
    while worker.stats().passes == 0 {
        assert!(started.elapsed().as_secs() < 9, "it waits for the date that the clock once showed");
        std::thread::sleep(Duration::from_millis(50));
        clock.pass(1);
    }
}
