//! What waits as calls hand it in: which changes go together, and what the store's answer leaves.

use std::time::Duration;

use node_codec::session::{Leased, QUEUED_PER_CALL};
use node_session::{Boot, Moment};
use objstore_base::error::Error;
use objstore_files::{Attr, Change as Told, NameOp, Op, OpenOp};

use super::Queue;
use super::state::{Change, State};
use crate::cache::Cache;

/// The most bytes that the changes of one call write, if there are several.
const CALL_BYTES: usize = 512 << 10;
/// How long changes wait for others that go with them, unless a call waits for them.
const GATHER: Duration = Duration::from_millis(4);
/// So many changes, or bytes that they write, wait for no others.
const ENOUGH: (usize, usize) = (64, 256 << 10);

/// What is to be done next.
pub(crate) enum Next {
    /// Hand in these changes; the last one that failed has this number.
    HandIn(Vec<Change>, u64),
    /// Look again after this time, or when something is added.
    Gather(Duration),
    /// Ask for the lease.
    Ask,
    /// Wait, and give the lease back after a rest.
    Rest,
    /// Wait.
    Wait,
}

/// What the store answered to changes.
pub(crate) struct Outcome {
    pub(crate) boot: Boot,
    /// The number of the last one that is made; zero for none.
    pub(crate) made: u64,
    /// The error of the next one.
    pub(crate) failed: Option<Error>,
    /// The attributes that they left.
    pub(crate) after: Vec<Attr>,
}

impl Queue {
    /// Completes when something was added, or is waited for.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// What is to be done now.
    pub(crate) fn next(&self, now: Moment) -> Next {
        let state = &mut *self.state.lock();
        let Some(first) = state.waiting.front() else {
            return match state.stage.ask() {
                true => Next::Ask,
                false if state.stage.has_lease() => Next::Rest,
                false => Next::Wait,
            };
        };
        let left = GATHER.saturating_sub(now.since(first.since));
        let is_enough = state.waiting.len() >= ENOUGH.0 || state.bytes >= ENOUGH.1;
        if !left.is_zero() && !is_enough && state.needed < first.number {
            return Next::Gather(left);
        }
        let (mut bytes, mut changes) = (0, Vec::new());
        for change in state.waiting.iter().take(QUEUED_PER_CALL) {
            bytes += change.data.len();
            if !changes.is_empty() && bytes > CALL_BYTES {
                break;
            }
            changes.push(change.clone());
        }
        Next::HandIn(changes, state.passed)
    }

    /// The store has answered the request for the lease, or not. Returns the number of a lease that has to be given back.
    pub(crate) fn granted(&self, leased: Option<Leased>, now: Moment) -> Option<u64> {
        let state = &mut *self.state.lock();
        if let Some(leased) = &leased {
            state.count_on_behind(leased.made);
            self.made.send_replace(state.made());
        }
        state.stage.granted(leased, now).filter(|grant| *grant != 0)
    }

    /// Gives the lease back if nothing waits; its number.
    pub(crate) fn rest(&self) -> Option<u64> {
        let state = &mut *self.state.lock();
        if state.waiting.is_empty() { state.stage.give_back() } else { None }
    }

    /// The store has answered to the first changes. Returns the number up to which all are made or have failed, which has to be
    /// [released](Self::release), and what the kernel has to drop.
    pub(crate) fn settle(&self, cache: &Cache, now: Moment, outcome: Outcome) -> (u64, Vec<Told>) {
        let Outcome { made, failed, after, .. } = outcome;
        let (state, mut told) = (&mut *self.state.lock(), Vec::new());
        while state.waiting.front().is_some_and(|change| change.number <= made) {
            state.pop();
        }
        if let Some(error) = failed {
            told.extend(fail(state, cache, error));
        }
        // Before a call relies on it.
        state.mark_made(now);
        for attr in after.into_iter().filter(|attr| !state.inos.contains_key(&attr.ino)) {
            if cache.made(attr) {
                told.push(Told::Attributes { ino: attr.ino });
            }
        }
        (state.made(), told)
    }

    /// Lets calls go on that wait for changes up to this number.
    pub(crate) fn release(&self, number: u64) {
        self.made.send_replace(number);
    }
}

/// The first change that waits has failed: its file is not what its programs and the kernel believe.
fn fail(state: &mut State, cache: &Cache, error: Error) -> Option<Told> {
    let change = state.pop()?;
    state.passed = change.number;
    let (ino, operation) = (change.inos().last()?, change.op.name());
    // The end of a writer that the store does not know harms nobody.
    if matches!(change.op, Op::Opens(OpenOp::CloseWriter { .. })) {
        tracing::debug!(%error, ino, "the store did not close a file that was written");
        return None;
    }
    tracing::error!(%error, ino, operation, "a change that was answered failed at the store: the next fsync or close of the file fails");
    state.fail(ino, error);
    cache.failed(ino);
    let (Op::Names(NameOp::Create { parent, name, .. }) | Op::Names(NameOp::Make { parent, name, .. })) = &change.op
    else {
        return Some(Told::Content { ino });
    };
    cache.unmade(*parent, name);
    Some(Told::Entry { parent: *parent, name: name.clone().into_owned() })
}
