//! Random schedules: servers that share a log on a store which loses, delays, repeats and reorders; zombies, takeovers,
//! trims and standbys; compared with a map of what was acknowledged.
//!
//! - A schedule follows from its seed. `AMPHORA_SEED` runs one, `AMPHORA_SCHEDULES` another number of them.
//! - A server counts an append as acknowledged after all before it, like [`crate::appender::Appender`].

use std::collections::{BTreeMap, VecDeque};

use objstore_testing::random::{Choices, given, usual_seed};

use super::*;

/// The result of an append, once there is one.
type Outcome = Arc<Mutex<Option<Result<()>>>>;

#[derive(Default)]
struct Server {
    name: String,
    log: Option<Arc<S3>>,
    epoch: Option<Epoch>,
    next: u64,
    under_way: VecDeque<(u64, Vec<Bytes>, Outcome)>,
}

struct World {
    objects: Arc<Simulated>,
    still: Still,
    choices: Choices,
    servers: Vec<Server>,
    /// The epoch of the last takeover that was answered, and the end of the log that it found.
    epoch: Epoch,
    end: u64,
    /// What the log has for ever.
    acknowledged: BTreeMap<u64, Bytes>,
    /// Where the log begins at least and at most.
    first: (u64, u64),
    bodies: u64,
    takeovers: u64,
    zombies: u64,
}

fn run(seed: u64, conditions: bool) -> World {
    let mut faults = Choices::with(seed ^ 0x5555_0000);
    let one_in = [0, 30, 8][faults.below(3)];
    let objects = Arc::new(Simulated::new(Faults::chosen(move |end| faults.below(end), one_in)));
    let servers = ["a", "b", "c"].map(|name| Server { name: name.to_owned(), ..Server::default() });
    let mut world = World {
        objects,
        still: Still::default(),
        choices: Choices::with(seed),
        servers: servers.into(),
        epoch: 0,
        end: 1,
        acknowledged: BTreeMap::new(),
        first: (1, 1),
        bodies: 0,
        takeovers: 0,
        zombies: 0,
    };
    for step in 0..150 {
        if step == 20 && !conditions {
            world.objects.ignore_conditions();
        }
        world.step();
    }
    world
}

#[test]
fn servers_that_share_a_log_in_a_failing_store_lose_and_double_nothing() {
    let (first, count) = match given("AMPHORA_SEED") {
        Some(seed) => (seed, 1),
        None => (usual_seed(), given("AMPHORA_SCHEDULES").unwrap_or(1500)),
    };
    let (mut takeovers, mut zombies, mut entries) = (0, 0, 0);
    let begun = std::time::Instant::now();
    for seed in first..first + count {
        let world = std::panic::catch_unwind(|| run(seed, true)).unwrap_or_else(|panic| {
            println!("replay with AMPHORA_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        takeovers += world.takeovers;
        zombies += world.zombies;
        entries += world.end;
        if (seed - first + 1) % 100_000 == 0 {
            println!("{} schedules in {:?}", seed - first + 1, begun.elapsed());
        }
    }
    let time = begun.elapsed();
    println!("{count} schedules in {time:?}: {takeovers} takeovers, {zombies} refusals of zombies, {entries} entries");
    assert!(count == 1 || (takeovers > count * 3 && zombies > count / 2), "too little happened");
}

#[test]
fn the_schedules_notice_a_store_that_ignores_conditions() {
    let noticed = (0..40).filter(|seed| std::panic::catch_unwind(|| drop(run(*seed, false))).is_err()).count();
    assert!(noticed > 5, "{noticed} of 40");
}

impl World {
    fn step(&mut self) {
        let at = self.choices.below(self.servers.len());
        if self.servers[at].log.is_none() {
            // Failures of the store, which are tried again.
            match in_memory(&self.objects, &self.still) {
                Ok(log) => self.servers[at].log = Some(log),
                Err(error) => assert!(!matches!(error, Error::Unusable { .. }), "{error}"),
            }
            return;
        }
        match self.choices.below(24) {
            0..=9 => self.append(at),
            10..=12 => {
                for _ in 0..1 + self.choices.below(3) {
                    self.objects.drive();
                }
            }
            13 => self.renew(at),
            14 => self.trim(at),
            15 => self.announce(at),
            16..=17 => self.read(at),
            18 => {
                // The process dies; what it sent may still arrive.
                let name = std::mem::take(&mut self.servers[at].name);
                self.servers[at] = Server { name, ..Server::default() };
            }
            19 => self.still.pass(Duration::from_secs(25)),
            _ => self.take_over(at),
        }
        (0..self.servers.len()).for_each(|at| self.settle(at));
    }

    fn owner(&self, at: usize) -> Option<(Arc<S3>, Epoch)> {
        Some((self.servers[at].log.clone()?, self.servers[at].epoch?))
    }

    fn append(&mut self, at: usize) {
        let Some((log, epoch)) = self.owner(at) else { return };
        let count = 1 + self.choices.below(3) as u64;
        let server = &mut self.servers[at];
        if server.under_way.len() >= crate::MAX_UNDER_WAY {
            return;
        }
        self.bodies += 1;
        let body = |number: u64| Bytes::from(format!("{} {epoch} {} {number}", server.name, self.bodies));
        let (first, outcome) = (server.next, Outcome::default());
        let bodies: Vec<_> = (first..first + count).map(body).collect();
        server.next += count;
        server.under_way.push_back((first, bodies.clone(), Arc::clone(&outcome)));
        log.append(Batch { epoch, first, bodies }, Box::new(move |result| *outcome.lock() = Some(result)));
    }

    /// Counts what is acknowledged in order; after a failure the server steps down.
    fn settle(&mut self, at: usize) {
        while let Some((first, bodies, outcome)) = self.servers[at].under_way.front() {
            let Some(outcome) = outcome.lock().clone() else { return };
            let Some(epoch) = self.servers[at].epoch else { return };
            if let Err(error) = outcome {
                assert!(!matches!(error, Error::Taken { .. } | Error::Invalid { .. }), "{error}");
                self.zombies += u64::from(matches!(error, Error::Fenced { .. }));
                self.servers[at].epoch = None;
                self.servers[at].under_way.clear();
                return;
            }
            for (number, body) in (*first..).zip(bodies) {
                if epoch == self.epoch {
                    self.acknowledged.insert(number, body.clone());
                } else if number >= self.first.1 {
                    assert!(number < self.end, "a zombie's append {number} was acknowledged behind {}", self.end);
                    assert_eq!(self.acknowledged.get(&number), Some(body), "a zombie's append {number}");
                }
            }
            self.servers[at].under_way.pop_front();
        }
    }

    fn take_over(&mut self, at: usize) {
        let Some(log) = self.servers[at].log.clone() else { return };
        let claim = claim(&self.servers[at].name);
        let tenure = match log.fence(&claim) {
            Ok(tenure) => tenure,
            Err(Error::Held { .. }) => {
                if self.choices.once_in(3) {
                    self.still.pass(Duration::from_secs(61));
                }
                return;
            }
            Err(error) => {
                assert!(matches!(error, Error::Unavailable { .. } | Error::Indeterminate { .. }), "{error}");
                // This client may own another epoch, or none.
                return;
            }
        };
        // What was acknowledged before counts, also if nobody has looked at the answer.
        (0..self.servers.len()).for_each(|at| self.settle(at));
        assert!(tenure.epoch > self.epoch, "epochs rise");
        self.takeovers += 1;
        let found = self.read_all(&log, tenure.tail.first, tenure.tail.next);
        assert!((self.first.0..=self.first.1).contains(&tenure.tail.first), "{:?}, {tenure:?}", self.first);
        for (number, body) in self.acknowledged.range(tenure.tail.first..) {
            assert_eq!(found.get(number), Some(body), "entry {number} was acknowledged");
        }
        self.first = (tenure.tail.first, tenure.tail.first);
        (self.epoch, self.end, self.acknowledged) = (tenure.epoch, tenure.tail.next, found);
        let server = &mut self.servers[at];
        (server.epoch, server.next) = (Some(tenure.epoch), tenure.tail.next);
        server.under_way.clear();
    }

    /// Everything that the log has; failures of the store are tried again.
    fn read_all(&self, log: &Arc<S3>, first: u64, next: u64) -> BTreeMap<u64, Bytes> {
        let (mut found, mut at, mut failed) = (BTreeMap::new(), first, 0);
        while at < next {
            match log.read_from(at, Limit { entries: 5, bytes: 1000 }) {
                Ok(entries) => {
                    assert!(!entries.is_empty(), "the log lacks {at} of {next}");
                    for entry in entries {
                        assert_eq!(entry.number, at);
                        found.insert(at, entry.body);
                        at += 1;
                    }
                }
                Err(error) => {
                    failed += 1;
                    assert!(matches!(error, Error::Unavailable { .. }) && failed < 1000, "{error}");
                }
            }
        }
        assert_eq!(at, next, "nothing is there behind the end");
        found
    }

    fn renew(&mut self, at: usize) {
        let Some((log, epoch)) = self.owner(at) else { return };
        let outcome = if self.choices.once_in(5) { log.release(epoch) } else { log.renew(epoch) };
        assert!(outcome.is_err() || epoch == self.epoch, "a zombie's lease was renewed");
    }

    fn trim(&mut self, at: usize) {
        let Some((log, epoch)) = self.owner(at) else { return };
        let last = self.acknowledged.last_key_value().map_or(0, |(number, _)| *number);
        let below = (self.first.1 + self.choices.below(8) as u64).min(last);
        match log.trim(epoch, below) {
            Ok(()) => {
                assert_eq!(epoch, self.epoch, "a zombie's trim");
                self.first = (self.first.0.max(below), self.first.1.max(below));
            }
            Err(Error::Invalid { .. } | Error::Fenced { .. }) => {}
            // Perhaps.
            Err(_) => self.first.1 = self.first.1.max(below),
        }
    }

    fn announce(&mut self, at: usize) {
        let Some(log) = self.servers[at].log.clone() else { return };
        for outcome in [log.announce(&self.servers[at].name, self.end), log.standing(Duration::MAX).map(drop)] {
            assert!(!matches!(outcome, Err(Error::Unusable { .. })), "{outcome:?}");
        }
    }

    /// A standby reads; what it finds below the end of the last takeover is final.
    fn read(&mut self, at: usize) {
        let Some(log) = self.servers[at].log.clone() else { return };
        let from = 1 + self.choices.below_u64(self.end + 6);
        match log.read_from(from, Limit { entries: 20, bytes: 1000 }) {
            Ok(entries) => {
                for (entry, expected) in entries.iter().zip(from..) {
                    assert_eq!(entry.number, expected);
                    if let Some(body) = self.acknowledged.get(&entry.number) {
                        assert_eq!(entry.body, body, "entry {expected}");
                    }
                }
            }
            Err(Error::Trimmed { first }) => {
                assert!((self.first.0..=self.first.1).contains(&first) && from < first);
            }
            Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
        }
    }
}
