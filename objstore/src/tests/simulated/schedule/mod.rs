//! A schedule: processes that execute generated operations, and die at some call of the disk, one after the other.
//!
//! - After each death, unless the next process dies while it opens the store, everything is compared with the model and
//!   recounted.
//! - The *history* is the set of states that the store may be found in: the last state known to be on disk, those after
//!   it that were answered, and the one in progress. After a kill only the last answered one and the one in progress
//!   count.
//! - Everything follows from the seed, the operations and the crash of each process separately, so that a shortened
//!   schedule stays the same.

mod after;
mod step;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use objstore_testing::simulated::{Amount, Death, FalseSyncs, SimulatedDisk};

use super::content::{Contents, End, FileId};
use super::model::State;
use super::operation::Operation;
use super::process::{Kernel, Machine, Process, Ticks, check_on};
use super::repairing;
use crate::blob;
use crate::check;
use crate::clock::Scripted;
use crate::error::Error;
use crate::tests::random::Choices;

/// In half of the schedules: small, so that content lies in extents.
const COPY_MAX: u64 = 8 << 10;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How many processes die.
    pub(super) lives: u64,
    /// The most operations of each.
    pub(super) acts: usize,
    /// The call at which the first dies, counted from the end of its opening; drawn if there is none.
    pub(super) crash_at: Option<u64>,
    pub(super) lies: FalseSyncs,
    /// Whether content that is not small lies in extents once it is written in place, with any seed.
    pub(super) in_extents: bool,
    /// The operations of each life in place of those drawn, those that can be. The last life ends with a power cut,
    /// others with a kill.
    pub(super) script: Option<fn(u64) -> Vec<Operation>>,
}

impl Plan {
    /// The usual size.
    pub(super) fn of(seed: u64) -> Self {
        Self { seed, lives: 3, acts: 24, crash_at: None, lies: FalseSyncs::default(), in_extents: false, script: None }
    }

    fn choices(&self, of: u64, life: u64) -> Choices {
        Choices::with(self.seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ (of << 56) ^ life.rotate_left(32))
    }
}

/// What a schedule came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    /// Crashes, kills included.
    pub(super) crashes: u64,
    /// Operations done.
    pub(super) acts: u64,
    /// Calls of the first process, after its opening.
    pub(super) calls: u64,
    /// Of all calls of the disk.
    pub(super) trace: u64,
}

/// What is wrong, and what was done before.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) what: String,
    pub(super) done: Vec<String>,
}

struct Run<'a> {
    plan: &'a Plan,
    machine: Machine,
    /// What may be on disk, oldest first.
    history: Vec<State>,
    /// What was being done, and its images.
    under_way: Option<State>,
    /// What that may be instead: it was begun, and not gone on with, or not ended.
    begun: Vec<State>,
    /// What it comes to once it was done.
    aimed_at: Option<State>,
    /// What was there before that which a kernel asks again, or would.
    before_asked: Option<State>,
    /// The file that was written when a kernel asked again.
    written: Option<FileId>,
    contents: Contents,
    /// How processes ended since the store was last compared.
    end: End,
    stamp: u64,
    day: u64,
    /// Bytes of files that lost their last name in this life: a program may hold them still.
    unnamed_bytes: u64,
    ran: Ran,
    done: Vec<String>,
}

/// Runs a schedule to its end, or to the first thing that is wrong.
pub(super) fn run(plan: &Plan) -> Result<Ran, Failure> {
    let mut run = Run::new(plan);
    let outcome = catch_unwind(AssertUnwindSafe(|| run.all()));
    let outcome = outcome.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("a panic: {}", words.unwrap_or_default()))
    });
    match outcome {
        Ok(()) => Ok(run.ran),
        Err(what) => Err(Failure { what, done: run.done }),
    }
}

/// The smallest of the schedules that fail as this one does, as far as a few tries tell.
pub(super) fn shrunk(plan: &Plan, failure: Failure) -> (Plan, Failure) {
    let (mut least, mut found) = (*plan, failure);
    let shorter = (1..plan.lives).map(|lives| Plan { lives, ..*plan });
    if let Some((plan, failure)) = shorter.into_iter().find_map(fails) {
        (least, found) = (plan, failure);
    }
    let shorter = (1..least.acts).map(|acts| Plan { acts, ..least });
    if let Some((plan, failure)) = shorter.into_iter().find_map(fails) {
        (least, found) = (plan, failure);
    }
    (least, found)
}

fn fails(plan: Plan) -> Option<(Plan, Failure)> {
    run(&plan).err().map(|failure| (plan, failure))
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            machine: machine(plan.seed),
            history: vec![State::default()],
            under_way: None,
            begun: Vec::new(),
            aimed_at: None,
            before_asked: None,
            written: None,
            contents: Contents::default(),
            end: End::Kill,
            stamp: 0,
            day: 0,
            unnamed_bytes: 0,
            ran: Ran::default(),
            done: Vec::new(),
        }
    }

    fn all(&mut self) -> Result<(), String> {
        let mut choices = self.plan.choices(0, 0);
        let (reflinks, empty) = (choices.once_in(2), choices.once_in(32));
        self.machine.kernel = Kernel::new(choices.once_in(3) && self.plan.script.is_none(), choices.once_in(4));
        let reflinks = reflinks && !self.plan.in_extents;
        if choices.once_in(2) || self.plan.in_extents {
            self.machine.blobs.copy_max_bytes = COPY_MAX;
        }
        let mut disk = match empty {
            true => SimulatedDisk::new(self.machine.clock.clone(), self.plan.lies, reflinks),
            false => new_store().given(self.machine.clock.clone(), self.plan.lies, reflinks),
        };
        for life in 0..self.plan.lives {
            disk = self.dirty(&disk, life)?;
        }
        let mut last = self.open(&disk).map_err(|error| format!("it does not open: {error}"))?;
        self.take_over(&mut last)?;
        self.checker(&last)?;
        let disk = last.close().after_kill();
        let report = check_on(&disk, &check::Options::default());
        let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
        if !report.clean() {
            return Err(format!("the check finds: {}", report.problems.join("; ")));
        }
        match choices.once_in(8) {
            true => repairing::after_damage(&self.machine, &disk, &mut choices),
            false => Ok(()),
        }
    }

    /// One process, from its opening to its death; the disk it leaves.
    fn dirty(&mut self, disk: &SimulatedDisk, life: u64) -> Result<SimulatedDisk, String> {
        let mut crash = self.plan.choices(1, life);
        let scripted = self.plan.script.is_some();
        let in_opening = crash.once_in(4) && !scripted && (life > 0 || self.plan.crash_at.is_none());
        let done = *crash.of(&[Amount::None, Amount::Some, Amount::All]);
        disk.dies_at(in_opening.then(|| Death { call: 1 + crash.below_u64(40), done }));
        match self.open(disk) {
            _ if disk.is_dead() => {
                self.done.push("died while it opened".into());
                self.crash(disk, life, &mut crash)
            }
            Ok(mut process) => {
                let dies = crash.once_in(8) && !scripted && self.machine.kernel.asked().is_some();
                process.disk.dies_at(dies.then(|| Death { call: 1 + crash.below_u64(6), done }));
                self.take_over(&mut process)?;
                if process.disk.is_dead() {
                    self.done.push("died while it was asked again".into());
                    return self.crash(&process.disk.clone(), life, &mut crash);
                }
                process.disk.dies_at(None);
                self.checker(&process)?;
                let drawn = 1 + crash.below_u64(6 * self.plan.acts as u64);
                let call = self.plan.crash_at.filter(|_| life == 0).unwrap_or(drawn);
                let before = process.disk.calls();
                let dies = !scripted || (life == 0 && self.plan.crash_at.is_some());
                process.disk.dies_at(dies.then_some(Death { call, done }));
                let process = self.work(process, life)?;
                if life == 0 {
                    self.ran.calls = process.calls() - before;
                }
                self.ran.trace = self.ran.trace.rotate_left(9) ^ process.trace();
                self.crash(&process, life, &mut crash)
            }
            Err(error) => Err(format!("it does not open: {error}")),
        }
    }

    fn open(&self, disk: &SimulatedDisk) -> Result<Process, Error> {
        Process::open(self.machine.clone(), disk.clone())
    }

    fn crash(&mut self, disk: &SimulatedDisk, life: u64, choices: &mut Choices) -> Result<SimulatedDisk, String> {
        self.ran.crashes += 1;
        let killed = match self.plan.script {
            Some(_) => life + 1 < self.plan.lives,
            None => choices.once_in(3),
        };
        self.done.push(if killed { "-- killed".into() } else { "-- power cut".into() });
        self.machine.kernel.lose_server(!killed);
        if !killed {
            self.end = End::PowerCut;
        }
        let left = if killed { disk.after_kill() } else { disk.after_power_cut(choices) };
        if self.plan.script.is_some() || !choices.once_in(12) {
            return Ok(left);
        }
        self.done.push("-- repaired".into());
        let (left, end) = repairing::after_crash(&left, choices)?;
        if end == End::PowerCut {
            self.machine.kernel.lose_server(true);
            self.end = end;
        }
        Ok(left)
    }
}

/// A process that has done these on a new disk, for tests that look themselves; and what the next one shares with it.
pub(super) fn having_done(acts: impl IntoIterator<Item = Operation>) -> (Machine, Process) {
    let machine = machine(1);
    let disk = SimulatedDisk::new(machine.clock.clone(), FalseSyncs::default(), false);
    let mut process = Process::open(machine.clone(), disk).unwrap();
    for operation in acts {
        process.operation(&State::default(), &operation).unwrap();
    }
    (machine, process)
}

/// A machine whose random numbers follow from a seed.
pub(super) fn machine(seed: u64) -> Machine {
    static RUNTIME: OnceLock<Arc<tokio::runtime::Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Arc::new(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap())
    });
    Machine {
        clock: Ticks::new(),
        random: Arc::new(Scripted::new(seed)),
        runtime: runtime.clone(),
        kernel: Kernel::default(),
        blobs: blob::Options::default(),
    }
}

/// A disk with a store that was made and closed.
fn new_store() -> &'static SimulatedDisk {
    static MADE: OnceLock<SimulatedDisk> = OnceLock::new();
    MADE.get_or_init(|| {
        let machine = machine(0);
        let disk = SimulatedDisk::new(machine.clock.clone(), FalseSyncs::default(), false);
        let disk = Process::open(machine, disk).unwrap().close();
        crate::disk::Disk::sync_everything(&disk, std::path::Path::new("/")).unwrap();
        disk
    })
}
