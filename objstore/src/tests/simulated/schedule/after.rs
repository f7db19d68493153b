//! The time after a crash: taking over what the earlier process left, and comparing everything with the model.

use super::Run;
use crate::check;
use crate::error::Error;
use crate::tests::audit;
use crate::tests::simulated::checker::Seen;
use crate::tests::simulated::content::End;
use crate::tests::simulated::model::State;
use crate::tests::simulated::process::Process;

impl Run<'_> {
    /// What a process before left to this one: mounts, and what their kernel waits for.
    pub(super) fn take_over(&mut self, process: &mut Process) -> Result<(), String> {
        let asked = self.machine.kernel.asked();
        let waits = asked.is_some();
        let state = self.history[self.history.len() - 1].clone();
        let told = process.take_over().and_then(|fault| match fault {
            None => process.ask_again(&state).map(|()| None),
            fault => Ok(fault),
        });
        match told {
            _ if process.disk.is_dead() => return Ok(()),
            Ok(None) => self.written = None,
            Ok(Some(fault)) => return Err(fault),
            Err(Error::QuotaExceeded { .. }) if waits => {
                self.machine.kernel.gives_up();
                self.aimed_at = None;
            }
            Err(error) => return Err(format!("it does not go on with what was asked: {error}")),
        }
        if waits {
            // What was asked last is done.
            let last = self.aimed_at.take().unwrap_or(state);
            self.written = asked.and_then(|operation| operation.written()).map(|at| last.file_of(&at));
            (self.history, self.under_way, self.begun) = (vec![last], None, Vec::new());
        } else {
            self.before_asked = None;
        }
        Ok(())
    }

    /// Compares all with the model, which from then on is what was found.
    pub(super) fn checker(&mut self, process: &Process) -> Result<(), String> {
        let seen = Seen::of(process).map_err(|error| format!("something cannot be read: {error}"))?;
        let candidates = self.candidates(&seen);
        let faults: Vec<Option<String>> =
            candidates.iter().map(|state| seen.fault(state, &self.contents, self.end)).collect();
        let Some(found) = faults.iter().position(Option::is_none) else {
            let faults: Vec<String> = faults.into_iter().flatten().collect();
            return Err(format!("it is none of {} states it may be in: {}", faults.len(), faults.join(" | ")));
        };
        let mut state = candidates[found].clone();
        let written = self.written.take();
        seen.settle(&mut state, &mut self.contents, written);
        // What was asked again is done, and not on disk.
        let before = self.before_asked.take().map(|before| before.settled_like(&state, written));
        (self.history, self.end) = (before.into_iter().chain([state]).collect(), End::Kill);
        (self.under_way, self.begun, self.aimed_at) = (None, Vec::new(), None);
        self.unnamed_bytes = 0;
        let faults = audit::faults(&process.store);
        if !faults.is_empty() {
            return Err(format!("the recount finds: {}", faults.join("; ")));
        }
        let report = check::records_of(&process.store.core).map_err(|error| error.to_string())?;
        if report.clean() { Ok(()) } else { Err(format!("the check finds: {}", report.problems.join("; "))) }
    }

    /// The states that the store may be in, the latest first.
    fn candidates(&self, seen: &Seen) -> Vec<State> {
        let answered = match self.end {
            End::Kill => self.history.len() - 1..self.history.len(),
            End::PowerCut => 0..self.history.len(),
        };
        let (all, first) = (self.history.iter().chain(&self.under_way), answered.start);
        let all: Vec<&State> = all.collect();
        let mut candidates = Vec::new();
        for at in (first..all.len()).rev() {
            candidates.push(all[at].clone());
            // Rules are carried out in steps.
            candidates.extend(at.checked_sub(1).and_then(|before| seen.partly_expired(all[before], all[at])));
        }
        candidates.extend(self.begun.clone());
        candidates
    }
}
