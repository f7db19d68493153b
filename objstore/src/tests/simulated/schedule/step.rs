//! One operation after the other, each executed by the process and by the model.

use objstore_testing::simulated::SimulatedDisk;

use super::Run;
use crate::error::{Error, Posix};
use crate::tests::simulated::content::Contents;
use crate::tests::simulated::generator::Generator;
use crate::tests::simulated::model::State;
use crate::tests::simulated::operation::{Answered, Operation};
use crate::tests::simulated::process::Process;

impl Run<'_> {
    /// Does what is drawn, until the process is dead or all is done.
    pub(super) fn work(&mut self, mut process: Process, life: u64) -> Result<SimulatedDisk, String> {
        let mut choices = self.plan.choices(2, life);
        let script = self.plan.script.map(|script| script(life));
        for index in 0..script.as_ref().map_or(self.plan.acts, Vec::len) {
            self.stamp += 1;
            let mut state = self.history[self.history.len() - 1].clone();
            state.day = self.day;
            let operation = match &script {
                Some(script) if !script[index].can_be(&state) => continue,
                Some(script) => script[index].clone(),
                None => Generator { state: &state, choices: &mut choices, stamp: self.stamp }.operation(),
            };
            self.done.push(format!("{operation:?}"));
            self.ran.acts += 1;
            if matches!(operation, Operation::Reopen) {
                let dead = process.disk.clone();
                match self.reopen(process)? {
                    Some(next) => process = next,
                    None => return Ok(dead),
                }
                continue;
            }
            self.operation(&mut process, &state, &operation)?;
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
            Ok(mut next) => {
                self.take_over(&mut next)?;
                Ok(Some(next).filter(|_| !disk.is_dead()))
            }
            Err(error) => Err(format!("it does not open again: {error}")),
        }
    }

    fn on_disk(&mut self) {
        self.history.drain(..self.history.len() - 1);
        self.history[0].lose_process();
    }

    fn operation(&mut self, process: &mut Process, before: &State, operation: &Operation) -> Result<(), String> {
        let refused = before.refuses(operation);
        self.before_asked = operation.is_asked_again().then(|| before.clone());
        self.day += u64::from(matches!(operation, Operation::Day));
        let (mut after, mut contents) = (before.clone(), self.contents.clone());
        after.day = self.day;
        if !refused {
            after.apply(&mut contents, operation);
        }
        match process.operation(before, operation) {
            Ok(_) if refused => return Err(format!("it does {operation:?}, which is to be refused")),
            Ok(upload) => {
                if let (Operation::BeginUpload { at }, id) = (operation, upload) {
                    after.upload(at).id = id;
                }
                let known = std::mem::replace(&mut self.contents, contents);
                self.check_quotas((before, &known), &after)?;
                self.history.extend(after.unretained(before, operation));
                self.answered(after, operation);
            }
            Err(_) if process.disk.is_dead() => {
                if refused {
                    self.machine.kernel.gives_up();
                }
                self.aimed_at = Some(after.clone());
                self.contents = contents.not_yet_synced(&self.contents);
                // Its records may be there before its bytes.
                after.see_images_of(before);
                self.begun.clear();
                if !refused {
                    self.begun.extend(before.begun_only(&mut self.contents, operation));
                    self.begun.extend(after.unretained(before, operation));
                }
                self.under_way = Some(after);
            }
            Err(
                Error::Denied { .. } | Error::Invalid { .. } | Error::Posix(Posix::NotPermitted | Posix::CrossDevice),
            ) if refused => {
                self.done.push("… refused".into());
            }
            Err(Error::QuotaExceeded { .. }) if self.may_exceed(before, &after, &contents) => {
                self.done.push("… refused: quota".into());
            }
            Err(error) => return Err(format!("it refuses {operation:?}: {error}")),
        }
        Ok(())
    }

    fn answered(&mut self, after: State, operation: &Operation) {
        match operation.answered() {
            Answered::OnDisk => self.history = vec![after],
            Answered::InStore => self.history.push(after),
            Answered::Nothing => *self.history.last_mut().unwrap() = after,
        }
        if matches!(operation, Operation::Pass | Operation::Day) {
            self.contents.sync_all();
        }
    }

    /// Nothing that was done takes a bucket over its quota.
    fn check_quotas(&mut self, (before, known): (&State, &Contents), after: &State) -> Result<(), String> {
        for (name, bucket) in &after.buckets {
            let Some(was) = before.buckets.get(name) else { continue };
            let gone = was.files.keys().filter(|file| !bucket.files.contains_key(file));
            self.unnamed_bytes += gone.map(|file| was.charged(&self.contents, *file)).sum::<u64>();
            let (used, before) = (bucket.used_bytes(&self.contents), was.used_bytes(known));
            if used > before && bucket.quota.is_some_and(|quota| used > quota) {
                return Err(format!("{name} holds {used} bytes, more than its quota {:?}", bucket.quota));
            }
        }
        Ok(())
    }

    /// Whether an operation may be refused for a quota.
    fn may_exceed(&self, before: &State, after: &State, contents: &Contents) -> bool {
        let exceeds = |name: &String| {
            let (was, bucket) = (before.buckets.get(name)?, &after.buckets[name]);
            let used = bucket.used_bytes(contents);
            Some(used > was.used_bytes(&self.contents) && used + self.unnamed_bytes > bucket.quota?)
        };
        after.buckets.keys().any(|name| exceeds(name) == Some(true))
    }
}
