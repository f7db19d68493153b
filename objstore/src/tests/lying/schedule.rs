//! One schedule: processes that do what a seed draws, and die at some call of the disk, one after the other.
//!
//! - After each death, if not the next one dies while it opens the store, all is compared with the model, and recounted.
//! - The *history* is what the store may be found to be: the state that was last known to be on disk, those after it
//!   that were answered, and the one under way. After a kill only the last answered and the one under way count.
//! - All that is drawn follows from the seed, each life's operations and crash on their own, so that a schedule can be
//!   cut short and still be the same.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use super::act::{Act, Answered};
use super::content::{Contents, End};
use super::draw::Draw;
use super::judge::Seen;
use super::model::State;
use super::process::{Machine, Process, Ticks, check_closed};
use crate::check;
use crate::clock::Scripted;
use crate::disk::lying::{Amount, Death, Lies, LyingDisk};
use crate::error::Error;
use crate::tests::audit;
use crate::tests::random::Choices;

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
    pub(super) lies: Lies,
    /// The operations of each life in place of those drawn, those that can be. The last life ends with a power cut,
    /// others with a kill.
    pub(super) script: Option<fn(u64) -> Vec<Act>>,
}

impl Plan {
    /// The usual size.
    pub(super) fn of(seed: u64) -> Self {
        Self { seed, lives: 3, acts: 24, crash_at: None, lies: Lies::default(), script: None }
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
    contents: Contents,
    /// How processes ended since the store was last compared.
    end: End,
    stamp: u64,
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
            contents: Contents::default(),
            end: End::Kill,
            stamp: 0,
            ran: Ran::default(),
            done: Vec::new(),
        }
    }

    fn all(&mut self) -> Result<(), String> {
        let mut choices = self.plan.choices(0, 0);
        let (reflinks, empty) = (choices.once_in(2), choices.once_in(32));
        let mut disk = match empty {
            true => LyingDisk::new(self.machine.clock.clone(), self.plan.lies, reflinks),
            false => new_store().given(self.machine.clock.clone(), self.plan.lies, reflinks),
        };
        for life in 0..self.plan.lives {
            disk = self.live(&disk, life)?;
        }
        let mut last = self.open(&disk).map_err(|error| format!("it does not open: {error}"))?;
        self.judge(&mut last)?;
        let disk = last.close().after_kill();
        let report = check_closed(&disk).map_err(|error| format!("it cannot be checked: {error}"))?;
        if report.clean() { Ok(()) } else { Err(format!("the check finds: {}", report.problems.join("; "))) }
    }

    /// One process, from its opening to its death; the disk it leaves.
    fn live(&mut self, disk: &LyingDisk, life: u64) -> Result<LyingDisk, String> {
        let mut crash = self.plan.choices(1, life);
        let scripted = self.plan.script.is_some();
        let in_opening = crash.once_in(4) && !scripted && (life > 0 || self.plan.crash_at.is_none());
        let done = *crash.of(&[Amount::None, Amount::Some, Amount::All]);
        disk.dies_at(in_opening.then(|| Death { call: 1 + crash.below_u64(40), done }));
        match self.open(disk) {
            _ if disk.is_dead() => {
                self.done.push("died while it opened".into());
                Ok(self.crash(disk, life, &mut crash))
            }
            Ok(mut process) => {
                process.disk.dies_at(None);
                self.judge(&mut process)?;
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
                Ok(self.crash(&process, life, &mut crash))
            }
            Err(error) => Err(format!("it does not open: {error}")),
        }
    }

    fn open(&self, disk: &LyingDisk) -> Result<Process, Error> {
        Process::open(self.machine.clone(), disk.clone())
    }

    fn crash(&mut self, disk: &LyingDisk, life: u64, choices: &mut Choices) -> LyingDisk {
        self.ran.crashes += 1;
        let killed = match self.plan.script {
            Some(_) => life + 1 < self.plan.lives,
            None => choices.once_in(3),
        };
        self.done.push(if killed { "-- killed".into() } else { "-- power cut".into() });
        if killed {
            return disk.after_kill();
        }
        self.end = End::PowerCut;
        disk.after_power_cut(choices)
    }

    /// Compares all with the model, which from then on is what was found.
    fn judge(&mut self, process: &mut Process) -> Result<(), String> {
        let seen = Seen::of(process).map_err(|error| format!("something cannot be read: {error}"))?;
        let answered = match self.end {
            End::Kill => self.history.len() - 1..self.history.len(),
            End::PowerCut => 0..self.history.len(),
        };
        let candidates: Vec<&State> = self.under_way.iter().chain(self.history[answered].iter().rev()).collect();
        let faults: Vec<Option<String>> =
            candidates.iter().map(|state| seen.fault(state, &self.contents, self.end)).collect();
        let Some(found) = faults.iter().position(Option::is_none) else {
            let faults: Vec<String> = faults.into_iter().flatten().collect();
            return Err(format!("it is none of {} states it may be in: {}", faults.len(), faults.join(" | ")));
        };
        let mut state = candidates[found].clone();
        seen.settle(&mut state, &mut self.contents);
        (self.history, self.under_way, self.end) = (vec![state], None, End::Kill);
        let faults = audit::faults(&process.store);
        if !faults.is_empty() {
            return Err(format!("the recount finds: {}", faults.join("; ")));
        }
        let report = check::records_of(&process.store.core).map_err(|error| error.to_string())?;
        if report.clean() { Ok(()) } else { Err(format!("the check finds: {}", report.problems.join("; "))) }
    }

    /// Does what is drawn, until the process is dead or all is done.
    fn work(&mut self, mut process: Process, life: u64) -> Result<LyingDisk, String> {
        let mut choices = self.plan.choices(2, life);
        let script = self.plan.script.map(|script| script(life));
        for index in 0..script.as_ref().map_or(self.plan.acts, Vec::len) {
            self.stamp += 1;
            let state = self.history[self.history.len() - 1].clone();
            let act = match &script {
                Some(script) if !script[index].can_be(&state) => continue,
                Some(script) => script[index].clone(),
                None => Draw { state: &state, choices: &mut choices, stamp: self.stamp }.act(),
            };
            self.done.push(format!("{act:?}"));
            self.ran.acts += 1;
            if matches!(act, Act::Reopen) {
                let dead = process.disk.clone();
                match self.reopen(process)? {
                    Some(next) => process = next,
                    None => return Ok(dead),
                }
                continue;
            }
            self.act(&mut process, &state, &act)?;
            if process.disk.is_dead() {
                break;
            }
        }
        // Before what it holds is dropped: nobody who is killed tidies up.
        process.disk.dies();
        Ok(process.disk.clone())
    }

    /// Closes in order and opens again; nothing if the process died of it.
    fn reopen(&mut self, process: Process) -> Result<Option<Process>, String> {
        let disk = process.close();
        if disk.is_dead() {
            return Ok(None);
        }
        self.on_disk();
        self.contents.sync_all();
        match self.open(&disk) {
            _ if disk.is_dead() => Ok(None),
            Ok(next) => Ok(Some(next)),
            Err(error) => Err(format!("it does not open again: {error}")),
        }
    }

    fn on_disk(&mut self) {
        self.history.drain(..self.history.len() - 1);
    }

    fn act(&mut self, process: &mut Process, before: &State, act: &Act) -> Result<(), String> {
        let (mut after, mut contents) = (before.clone(), self.contents.clone());
        after.apply(&mut contents, act);
        match process.act(before, act) {
            Ok(upload) => {
                if let (Act::BeginUpload { at }, id) = (act, upload) {
                    after.upload(at).id = id;
                }
                self.contents = contents;
                match act.answered() {
                    Answered::OnDisk => self.history = vec![after],
                    Answered::InStore => self.history.push(after),
                    Answered::Nothing => {}
                }
                if matches!(act, Act::Pass) {
                    self.contents.sync_all();
                }
            }
            Err(_) if process.disk.is_dead() => {
                self.contents = contents.not_yet_synced(&self.contents);
                // Its records may be there before its bytes.
                after.see_images_of(before);
                self.under_way = Some(after);
            }
            Err(Error::QuotaExceeded { .. }) => self.done.push("… refused: quota".into()),
            Err(error) => return Err(format!("it refuses {act:?}: {error}")),
        }
        Ok(())
    }
}

fn machine(seed: u64) -> Machine {
    static RUNTIME: OnceLock<Arc<tokio::runtime::Runtime>> = OnceLock::new();
    let runtime = RUNTIME
        .get_or_init(|| Arc::new(tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()));
    Machine { clock: Ticks::new(), random: Arc::new(Scripted::new(seed)), runtime: runtime.clone() }
}

/// A disk with a store that was made and closed.
fn new_store() -> &'static LyingDisk {
    static MADE: OnceLock<LyingDisk> = OnceLock::new();
    MADE.get_or_init(|| {
        let machine = machine(0);
        let disk = LyingDisk::new(machine.clock.clone(), Lies::default(), false);
        let disk = Process::open(machine, disk).unwrap().close();
        crate::disk::Disk::sync_everything(&disk, std::path::Path::new("/")).unwrap();
        disk
    })
}
