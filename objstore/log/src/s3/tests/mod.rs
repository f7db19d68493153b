//! The log in an S3 store: conformance in memory and over HTTP, refusals, failures, what is removed.

#![expect(clippy::print_stdout, reason = "the harness shows it with the failure")]

mod failures;
mod schedules;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use objstore_bucket::{Keys, Location};
use objstore_testing::s3::{BUCKET, FakeS3};

use super::simulated::{Faults, Simulated};
use super::*;
use crate::conformance::{Fixture, GUARANTEES, WITHOUT_RENEWALS};

/// A clock that stands still until it is moved.
#[derive(Clone, Default)]
struct Still(Arc<AtomicU64>);

impl Still {
    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Arc::new(move || Duration::from_millis(now.load(Ordering::SeqCst)))
    }

    fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

/// Two servers that look at the log while time passes.
fn fixture(still: Still, log: Arc<S3>, other: Arc<S3>) -> Fixture {
    let observers = [Arc::clone(&log), Arc::clone(&other)];
    let pass = move |time| {
        observers.iter().for_each(|log| log.observe().unwrap());
        still.pass(time);
    };
    Fixture { log, other, pass: Box::new(pass) }
}

fn in_memory(objects: &Arc<Simulated>, still: &Still) -> Result<Arc<S3>> {
    let objects: Arc<dyn Objects> = objects.clone();
    S3::open_in(objects, still.clock(), "s3://simulated").map(Arc::new)
}

fn settings(server: &FakeS3, prefix: &str) -> Settings {
    let location = Location::parse(&format!("s3://{BUCKET}/{prefix}")).unwrap();
    let keys = Some(Keys { id: "AKID".into(), secret: "hidden-secret".into() });
    Settings { bucket: Options { endpoint: Some(server.endpoint()), keys, ..Options::new(location) } }
}

fn claim(server: &str) -> Claim {
    Claim { server: server.to_owned(), lease: Duration::from_secs(60) }
}

fn append(log: &dyn Log, epoch: Epoch, first: u64, count: u64) -> Result<()> {
    let (answer, answered) = mpsc::channel();
    let bodies = (first..first + count).map(|number| Bytes::from(format!("entry {number}"))).collect();
    log.append(Batch { epoch, first, bodies }, Box::new(move |outcome| answer.send(outcome).unwrap()));
    while log.drive() {}
    answered.recv().unwrap()
}

fn numbers(log: &dyn Log, from: u64) -> Vec<u64> {
    let entries = log.read_from(from, Limit::default()).unwrap();
    assert!(entries.iter().all(|entry| entry.body == format!("entry {}", entry.number)));
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn a_log_in_s3_keeps_every_guarantee_in_memory() {
    for (name, guarantee) in GUARANTEES {
        println!("{name}");
        let (objects, still) = (Arc::new(Simulated::new(Faults::none())), Still::default());
        let open = || in_memory(&objects, &still).unwrap();
        guarantee(&fixture(still.clone(), open(), open()));
    }
}

#[test]
fn a_log_in_s3_keeps_every_guarantee_over_http() {
    let server = FakeS3::start();
    // This server is slow.
    let quick = GUARANTEES.iter().filter(|(name, _)| *name != WITHOUT_RENEWALS);
    for (name, guarantee) in quick {
        println!("{name}");
        let still = Still::default();
        let open = || Arc::new(S3::open_with(&settings(&server, name), still.clock()).unwrap());
        guarantee(&fixture(still.clone(), open(), open()));
    }
}

#[test]
fn a_long_log_is_read_by_a_new_client_from_any_number() {
    let (objects, still) = (Arc::new(Simulated::new(Faults::none())), Still::default());
    let log = in_memory(&objects, &still).unwrap();
    let mut next = 1;
    for round in 0..5 {
        let epoch = log.fence(&claim("a")).unwrap().epoch;
        for at in 0..30 {
            let count = [1, 3, 256, 7][(at + round) % 4];
            append(&*log, epoch, next, count).unwrap();
            next += count;
        }
    }
    for from in [1, 2, 3, 5, 200, 259, 260, 261, 1000, next / 2, next - 1, next] {
        let fresh = in_memory(&objects, &still).unwrap();
        assert_eq!(fresh.tail().unwrap().next, next);
        let (mut at, mut pages) = (from, 0);
        while at < next {
            let read = fresh.read_from(at, Limit { entries: 100, bytes: 1 << 20 }).unwrap();
            assert_eq!(
                read.iter().map(|entry| entry.number).collect::<Vec<_>>(),
                (at..next.min(at + 100)).collect::<Vec<_>>()
            );
            at += read.len() as u64;
            pages += 1;
        }
        assert!(numbers(&*fresh, next).is_empty() && pages >= (next - from) / 100);
    }
}

#[test]
fn trimmed_objects_are_removed_and_seals_stay() {
    let (objects, still) = (Arc::new(Simulated::new(Faults::none())), Still::default());
    let log = in_memory(&objects, &still).unwrap();
    let first = log.fence(&claim("a")).unwrap().epoch;
    (0..20).for_each(|at| append(&*log, first, 1 + at * 50, 50).unwrap());
    // Behind a gap: nobody will read it.
    append(&*log, first, 2000, 1).unwrap();
    let second = log.fence(&claim("a")).unwrap();
    assert_eq!(second.tail.next, 1001);
    (0..20).for_each(|at| append(&*log, second.epoch, 1001 + at * 50, 50).unwrap());
    let count = |epoch: Epoch| objects.keys().iter().filter(|key| key.starts_with(&keys::epoch(epoch))).count();
    assert_eq!((count(first), count(second.epoch)), (22, 20));
    log.trim(second.epoch, 700).unwrap();
    assert_eq!((count(first), numbers(&*log, 700).len()), (13, 1301));
    log.trim(second.epoch, 1500).unwrap();
    assert_eq!(count(first), 1, "the seal");
    log.trim(second.epoch, 2000).unwrap();
    assert!(log.record().unwrap().ended.is_empty());
    assert_eq!(numbers(&*in_memory(&objects, &still).unwrap(), 2000), [2000]);
    // A write of the first owner that comes much later is refused, or never read.
    let late = Bytes::from_static(b"late");
    let id = log.record().unwrap().id;
    let late = stored::encode(id, &Batch { epoch: first, first: 1001, bodies: vec![late] });
    assert!(objects.put(&keys::batch(first, 1001), late).is_err());
    assert_eq!(log.tail().unwrap().next, 2001);
}
