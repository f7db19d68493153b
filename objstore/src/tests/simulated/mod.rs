//! The whole store on the simulated disk, which keeps only what was synced, with a crash at any call of the disk.
//!
//! - The disk is `objstore/testing/src/simulated/`. The engine is `objstore/kv/src/leader_engine.rs`, whose log lies on
//!   that disk, so that metadata and content crash together. Everything runs on one thread: a seed replays exactly.
//! - Environment variables set the number of runs: see docs/internals/testing.md, "The simulated disk".

mod checker;
mod content;
mod found;
mod generator;
mod model;
mod operation;
mod process;
mod remote;
mod repairing;
mod restored;
mod schedule;
mod times;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use objstore_testing::simulated::FalseSyncs;
use schedule::{Failure, Plan, Ran, run, shrunk};

use crate::tests::random::{any_seed, given, usual_seed};

fn told(plan: &Plan, failure: Failure) -> String {
    let (plan, failure) = shrunk(plan, failure);
    let Failure { what, done } = failure;
    let done = done.join("\n  ");
    format!(
        "{what}\nafter\n  {done}\n{plan:?}\nreplay with AMPHORA_SEED={} cargo test --ignore-rust-version -p objstore simulated::",
        plan.seed
    )
}

fn must(plan: Plan) -> Ran {
    run(&plan).unwrap_or_else(|failure| panic!("{}", told(&plan, failure)))
}

#[test]
#[expect(clippy::print_stderr, reason = "the harness shows it with the failure, and the full run its progress")]
fn random_schedules_lose_nothing_that_was_promised() {
    if let Some(seed) = given("AMPHORA_SEED") {
        let ran = must(Plan::of(seed));
        eprintln!("{ran:?}");
        return;
    }
    let search = given("AMPHORA_SCHEDULES");
    let (count, limit) = search.map_or((3_000, Duration::from_secs(25)), |count| (count, Duration::MAX));
    let first = given("AMPHORA_FIRST_SEED").unwrap_or_else(|| if search.is_some() { any_seed() } else { usual_seed() });
    eprintln!("schedules from AMPHORA_SEED={first}");
    let (started, sum) = (Instant::now(), Sum::default());
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        for _ in 0..threads {
            scope.spawn(|| {
                while started.elapsed() < limit && sum.next(first, count).is_some_and(|plan| sum.add(must(plan))) {}
            });
        }
    });
    eprintln!("{} in {:?}", sum.told(), started.elapsed());
}

/// What all threads did.
#[derive(Default)]
struct Sum {
    begun: AtomicU64,
    ended: AtomicU64,
    crashes: AtomicU64,
    acts: AtomicU64,
}

impl Sum {
    fn next(&self, first: u64, count: u64) -> Option<Plan> {
        let index = self.begun.fetch_add(1, Relaxed);
        (index < count).then(|| Plan::of(first + index))
    }

    #[expect(clippy::print_stderr, reason = "the full run takes hours")]
    fn add(&self, ran: Ran) -> bool {
        self.crashes.fetch_add(ran.crashes, Relaxed);
        self.acts.fetch_add(ran.acts, Relaxed);
        if (self.ended.fetch_add(1, Relaxed) + 1).is_multiple_of(10_000) {
            eprintln!("{}", self.told());
        }
        true
    }

    fn told(&self) -> String {
        let [ended, crashes, acts] = [&self.ended, &self.crashes, &self.acts].map(|count| count.load(Relaxed));
        format!("{ended} schedules, {crashes} crashes, {acts} operations")
    }
}

#[test]
fn short_schedules_survive_a_crash_at_every_call() {
    for seed in 0..given("AMPHORA_EXHAUSTED").unwrap_or(4) {
        let plan = Plan { lives: 1, acts: 12, ..Plan::of(seed) };
        let calls = must(Plan { crash_at: Some(u64::MAX / 2), ..plan }).calls;
        for call in 1..=calls {
            must(Plan { crash_at: Some(call), ..plan });
        }
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 1_000..1_030 {
        let plan = Plan::of(seed);
        assert_eq!(must(plan), must(plan), "{seed}");
    }
}

#[test]
fn the_judge_notices_a_disk_whose_syncs_lie() {
    let all = FalseSyncs::default();
    for lies in [
        FalseSyncs { file_sync: true, ..all },
        FalseSyncs { dir_sync: true, ..all },
        FalseSyncs { full_sync: true, ..all },
    ] {
        let noticed = (0..1_000).filter(|seed| run(&Plan { lies, ..Plan::of(*seed) }).is_err()).take(3).count();
        assert_eq!(noticed, 3, "{lies:?}");
    }
}
