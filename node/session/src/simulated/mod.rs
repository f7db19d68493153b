//! Nodes and a store over a simulated network, which loses, delays, repeats and reorders; processes stop, die and lose
//! power; clocks differ in rate. Everything runs on one thread: a seed replays exactly.
//!
//! - The service is a small stand-in (`store.rs`, `node.rs`: lists of tokens, a guarded number, one lock, caches); the
//!   state machines and the frames are the real ones.
//! - `checker.rs` has the promises: nothing acknowledged is lost, nothing is done twice, no read misses an acknowledged
//!   change, locks and exclusive leases exclude, a fenced session changes nothing.
//! - `planted.rs` breaks the rules one by one; the schedules have to detect each.
//! - Environment variables set the number of runs: see docs/internals/testing.md, "The simulated network".

mod answers;
mod checker;
mod ledger;
mod network;
mod node;
mod packet;
mod planted;
mod program;
mod store;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use objstore_testing::random::{any_seed, given, usual_seed};
use planted::Planted;
use world::{Failure, Plan, Ran, run};

/// In how many schedules a planted fault has to be noticed.
const PLANTED_SCHEDULES: u64 = 6_000;
/// How many of the last notes a failure shows.
const NOTES: usize = 60;

fn plan(seed: u64) -> Plan {
    Plan { seed, planted: Planted::None }
}

fn must(plan: Plan) -> Ran {
    run(plan).unwrap_or_else(|Failure { what, notes }| {
        let last = notes[notes.len().saturating_sub(NOTES)..].join("\n  ");
        let seed = plan.seed;
        panic!(
            "{what}\nafter\n  {last}\nreplay with AMPHORA_SEED={seed} cargo t -p node-session --lib simulated::random"
        )
    })
}

#[test]
#[expect(clippy::print_stderr, reason = "the harness shows it with the failure, and the full run its progress")]
fn random_schedules_keep_every_promise() {
    if let Some(seed) = given("AMPHORA_SEED") {
        eprintln!("{:?}", must(plan(seed)));
        return;
    }
    let search = given("AMPHORA_SCHEDULES");
    let (count, limit) = search.map_or((3_000, Duration::from_secs(12)), |count| (count, Duration::MAX));
    let first = given("AMPHORA_FIRST_SEED").unwrap_or_else(|| if search.is_some() { any_seed() } else { usual_seed() });
    eprintln!("schedules from AMPHORA_SEED={first}");
    let (started, sum) = (Instant::now(), Sum::default());
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        for _ in 0..threads {
            scope.spawn(|| {
                while started.elapsed() < limit {
                    let index = sum.begun.fetch_add(1, Relaxed);
                    if index >= count {
                        break;
                    }
                    sum.add(must(plan(first + index)));
                }
            });
        }
    });
    eprintln!("{} in {:?}", sum.shown(), started.elapsed());
}

/// What all threads did.
#[derive(Default)]
struct Sum {
    begun: AtomicU64,
    ended: AtomicU64,
    events: AtomicU64,
    faults: AtomicU64,
    acknowledged: AtomicU64,
}

impl Sum {
    #[expect(clippy::print_stderr, reason = "the full run takes hours")]
    fn add(&self, ran: Ran) {
        self.events.fetch_add(ran.events, Relaxed);
        self.faults.fetch_add(ran.faults, Relaxed);
        self.acknowledged.fetch_add(ran.acknowledged, Relaxed);
        if (self.ended.fetch_add(1, Relaxed) + 1).is_multiple_of(10_000) {
            eprintln!("{}", self.shown());
        }
    }

    fn shown(&self) -> String {
        let [ended, events, faults, acknowledged] =
            [&self.ended, &self.events, &self.faults, &self.acknowledged].map(|count| count.load(Relaxed));
        format!("{ended} schedules, {events} events, {faults} faults, {acknowledged} acknowledged changes")
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 1_000..1_020 {
        assert_eq!(must(plan(seed)), must(plan(seed)), "{seed}");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "the harness shows it with the failure")]
fn every_planted_fault_is_caught() {
    let search = |planted| {
        let caught = |seed: &u64| run(Plan { seed: *seed, planted }).is_err();
        let first = (0..PLANTED_SCHEDULES).find(caught);
        eprintln!("{planted:?}: caught by schedule {first:?}");
        first.is_some()
    };
    let (searched, missed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, std::num::NonZero::get) {
            scope.spawn(|| {
                while let Some(planted) = Planted::ALL.get(searched.fetch_add(1, Relaxed) as usize) {
                    if !search(*planted) {
                        missed.lock().expect("no search panics").push(*planted);
                    }
                }
            });
        }
    });
    assert_eq!(*missed.lock().expect("no search panics"), [], "no schedule notices these faults");
}
