//! Appends over a log in memory that loses, delays and reorders.

use objstore_testing::random::Choices;

use super::*;
use crate::batch::Limit;
use crate::memory::{Faults, Memory};
use crate::owner::{Claim, LogId};

fn claim() -> Claim {
    Claim { server: "a".to_owned(), lease: Duration::from_secs(10) }
}

fn over(log: Memory) -> (Arc<Memory>, Appender) {
    let log = Arc::new(log);
    let tenure = log.fence(&claim()).unwrap();
    (log.clone(), Appender::new(log, tenure.epoch, tenure.tail.next))
}

fn body(number: u64) -> Bytes {
    Bytes::from(number.to_be_bytes().to_vec())
}

#[test]
fn what_was_waited_for_is_in_the_log_in_order() {
    for seed in 0..200 {
        let mut choices = Choices::with(seed);
        let (log, appender) = over(Memory::with(LogId([1; 16]), Faults::chosen(move |end| choices.below(end), 0)));
        for number in 1..=40 {
            appender.push(number, body(number)).unwrap();
            assert!(log.under_way() <= MAX_UNDER_WAY);
            if number % 7 == 0 {
                appender.wait(number).unwrap();
                assert!(log.tail().unwrap().next > number, "seed {seed}");
            }
        }
        appender.wait(40).unwrap();
        assert_eq!((appender.acknowledged(), appender.lag()), (40, Duration::ZERO));
        let read = log.read_from(1, Limit::default()).unwrap();
        assert!(read.iter().zip(1..).all(|(entry, number)| entry.body == body(number)) && read.len() == 40);
    }
}

#[test]
fn nothing_is_acknowledged_after_a_failure_and_everything_before_it_is_kept() {
    let mut failures = 0;
    for seed in 0..300 {
        let mut choices = Choices::with(seed);
        let (log, appender) = over(Memory::with(LogId([1; 16]), Faults::chosen(move |end| choices.below(end), 10)));
        for number in 1..=30 {
            let pushed = appender.push(number, body(number));
            if pushed.and_then(|()| if number % 5 == 0 { appender.wait(number) } else { Ok(()) }).is_err() {
                break;
            }
        }
        let acknowledged = appender.acknowledged();
        if let Some(failure) = appender.failure() {
            failures += 1;
            assert_eq!(appender.push(31, body(31)), Err(failure.clone()));
            assert_eq!(appender.wait(acknowledged + 1), Err(failure));
            appender.wait(acknowledged).unwrap();
        }
        while log.drive() {}
        assert_eq!(appender.acknowledged(), acknowledged, "seed {seed}");
        let kept = log.fence(&claim()).unwrap().tail;
        assert!(kept.next > acknowledged, "seed {seed}: {acknowledged} were acknowledged, {kept:?} is left");
    }
    assert!(failures > 100, "only {failures} schedules failed");
}

#[test]
fn a_wrong_number_and_an_entry_that_is_too_large_are_refused_alone() {
    let (log, appender) = over(Memory::new());
    assert!(matches!(appender.push(2, body(2)), Err(Error::Invalid { .. })));
    let large = Bytes::from(vec![0; crate::MAX_ENTRY_BYTES + 1]);
    assert!(matches!(appender.push(1, large), Err(Error::Invalid { .. })));
    appender.push(1, body(1)).unwrap();
    appender.wait(1).unwrap();
    assert_eq!(log.tail().unwrap().next, 2);
}

#[test]
fn a_push_waits_while_too_much_is_queued_and_a_failure_ends_the_wait() {
    struct Stuck;
    impl Log for Stuck {
        fn fence(&self, _: &Claim) -> Result<crate::Tenure> {
            unreachable!()
        }
        fn renew(&self, _: Epoch) -> Result<()> {
            unreachable!()
        }
        fn release(&self, _: Epoch) -> Result<()> {
            unreachable!()
        }
        fn append(&self, _: Batch, _: crate::Done) {}
        fn read_from(&self, _: u64, _: Limit) -> Result<Vec<crate::Entry>> {
            unreachable!()
        }
        fn trim(&self, _: Epoch, _: u64) -> Result<()> {
            unreachable!()
        }
        fn tail(&self) -> Result<crate::Tail> {
            unreachable!()
        }
        fn announce(&self, _: &str, _: u64) -> Result<()> {
            unreachable!()
        }
        fn standing(&self, _: Duration) -> Result<crate::Standing> {
            unreachable!()
        }
    }
    let appender = Appender::new(Arc::new(Stuck), 1, 1);
    let large = Bytes::from(vec![0; MAX_BATCH_BYTES]);
    let most = MAX_UNDER_WAY as u64 + (MAX_WAITING_BYTES / MAX_BATCH_BYTES) as u64;
    (1..=most).for_each(|number| appender.push(number, large.clone()).unwrap());
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| appender.push(most + 1, large.clone()));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished() && appender.lag() >= Duration::from_millis(50));
        appender.failing()(Error::Fenced { epoch: 1 });
        assert_eq!(waiting.join().unwrap(), Err(Error::Fenced { epoch: 1 }));
    });
}
