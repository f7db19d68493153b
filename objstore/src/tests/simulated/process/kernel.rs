//! The simulated kernel behind persistent mounts: requests without a reply, and the inodes it holds.
//!
//! - It ends with a power cut. After a kill or an orderly end the next process takes the mounts over and receives again
//!   the requests that the one before read and did not answer.
//! - Its feeds are read while an operation of S3 waits for them, on the same thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Mounted, Process};
use crate::error::Result;
use crate::feed::Feed;
use crate::store::Store;
use crate::tests::simulated::model::State;
use crate::tests::simulated::operation::Operation;
use crate::tests::test_store::{name, read_file};
use crate::volume::replay::{Call, Recorded, RequestId};
use crate::volume::{Change, SessionId, Volume, VolumeOptions};

/// The kernel; clones are the same.
#[derive(Clone, Default)]
pub(in super::super) struct Kernel(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    /// Whether mounts outlive their server.
    persistent: bool,
    /// Whether buckets are mounted twice.
    twice: bool,
    sessions: BTreeMap<Mounted, SessionId>,
    last_request: u64,
    /// What was asked last, if it is not answered.
    asked: Option<(Operation, RequestId)>,
    /// Files without a name that programs have open, with their content.
    nameless: Vec<(Mounted, u64, Vec<u8>)>,
    /// Files open for writing, by bucket, oldest first.
    writers: BTreeMap<String, Vec<(Mounted, u64)>>,
}

/// What a process has of it.
#[derive(Default)]
pub(super) struct Served {
    feeds: Mutex<BTreeMap<Mounted, Feed>>,
    recorded: Option<Recorded>,
    /// The request that is being served.
    call: Option<Call>,
    /// Whether what is served was asked before.
    pub(super) again: bool,
}

impl Served {
    /// A handle for the request that is being served.
    pub(super) fn acting(&self, volume: Volume) -> Volume {
        self.call.as_ref().map(|call| volume.for_call(call)).unwrap_or(volume)
    }
}

impl Kernel {
    /// One whose mounts outlive their server, or not, and that mounts buckets twice, or not.
    pub(in super::super) fn new(persistent: bool, twice: bool) -> Self {
        Self(Arc::new(Mutex::new(Held { persistent, twice, ..Held::default() })))
    }

    /// The process died; what it left is all there is, if the power went with it.
    pub(in super::super) fn lose_server(&self, power: bool) {
        let mut held = self.0.lock();
        if power || !held.persistent {
            let Held { persistent, twice, last_request, .. } = *held;
            *held = Held { persistent, twice, last_request, ..Held::default() };
        }
    }

    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.0.lock().sessions.values().copied().collect()
    }

    /// What is to be asked again.
    pub(in super::super) fn asked(&self) -> Option<Operation> {
        self.0.lock().asked.as_ref().map(|(operation, _)| operation.clone())
    }

    /// Nobody waits for an answer any more.
    pub(in super::super) fn gives_up(&self) {
        self.0.lock().asked = None;
    }

    pub(super) fn opens(&self, bucket: &str, second: bool, ino: u64) {
        let opened = ((bucket.to_owned(), second), ino);
        self.0.lock().writers.entry(bucket.to_owned()).or_default().push(opened);
    }

    /// The file that has been open longest.
    pub(super) fn closes(&self, bucket: &str) -> Option<(Mounted, u64)> {
        let mut held = self.0.lock();
        held.writers.get_mut(bucket).filter(|open| !open.is_empty()).map(|open| open.remove(0))
    }

    /// A file that is held may have lost its last name.
    pub(super) fn unlinked(&self, mounted: Mounted, volume: &Volume, ino: u64) -> Result<()> {
        let mut held = self.0.lock();
        if held.persistent && volume.attr(ino)?.nlink == 0 {
            held.nameless.push((mounted, ino, read_file(volume, ino)));
        }
        Ok(())
    }

    fn holds(&self, mounted: &Mounted, ino: u64) -> bool {
        let held = self.0.lock();
        let opened = held.writers.values().flatten().map(|(of, held)| (of, *held));
        held.nameless.iter().map(|(of, held, _)| (of, *held)).chain(opened).any(|held| held == (mounted, ino))
    }

    /// Whether a request comes from the second mount of its bucket.
    fn is_second(&self, request: RequestId) -> bool {
        self.0.lock().twice && request.unique.is_multiple_of(6)
    }

    /// The number of a request, and whether a mount sends it again if it gets no answer. Writes to a version in
    /// progress are not sent again: it is unknown how much of them belongs to the version that the next server begins.
    fn request(&self, state: &State, operation: &Operation) -> (RequestId, bool) {
        let mut held = self.0.lock();
        held.last_request += 2;
        let request = RequestId { unique: held.last_request, resent: false };
        let lasts = held.persistent && operation.is_asked_again() && !state.goes_on_with_a_version(operation);
        held.asked = lasts.then(|| (operation.clone(), request));
        (request, lasts)
    }
}

impl Process {
    /// Mounts a bucket or snapshot.
    pub(super) fn mount(&self, mounted: &Mounted) -> Result<Volume> {
        let kernel = &self.machine.kernel;
        if !kernel.0.lock().persistent {
            return self.store.open_volume(&name(&mounted.0), VolumeOptions::default());
        }
        let id = self.store.new_session();
        let volume = open_persistent(&self.store, &mounted.0, id, false)?;
        self.listen(mounted, &volume);
        kernel.0.lock().sessions.insert(mounted.clone(), id);
        Ok(volume)
    }

    fn listen(&self, mounted: &Mounted, volume: &Volume) {
        self.served.feeds.lock().insert(mounted.clone(), volume.feed());
    }

    pub(super) fn unmount(&mut self, bucket: &str) {
        let kernel = self.machine.kernel.clone();
        for mounted in [false, true].map(|second| (bucket.to_owned(), second)) {
            let mut held = kernel.0.lock();
            held.writers.remove(bucket);
            held.nameless.retain(|(of, _, _)| *of != mounted);
            let lasted = held.sessions.remove(&mounted).is_some();
            drop(held);
            self.served.feeds.lock().remove(&mounted);
            if let Some(volume) = self.volumes.remove(&mounted).filter(|_| lasted) {
                volume.end();
            }
        }
    }

    /// Takes the mounts over: what they held without a name is whole, and is let go.
    pub(in super::super) fn take_over(&mut self) -> Result<Option<String>> {
        let kernel = self.machine.kernel.clone();
        let sessions = kernel.0.lock().sessions.clone();
        for (mounted, id) in sessions.clone() {
            if self.store.bucket(&name(&mounted.0)).is_err() {
                self.store.end_session(id)?;
                self.unmount(&mounted.0);
                continue;
            }
            let volume = open_persistent(&self.store, &mounted.0, id, true)?;
            self.listen(&mounted, &volume);
            self.volumes.insert(mounted, volume);
        }
        let (nameless, writers) = {
            let mut held = kernel.0.lock();
            (std::mem::take(&mut held.nameless), std::mem::take(&mut held.writers))
        };
        if sessions.is_empty() {
            return Ok(None);
        }
        for (mounted, ino, bytes) in nameless {
            let volume = &self.volumes[&mounted];
            let size = volume.attr(ino)?.size;
            let found = volume.read(ino, 0, size as usize)?;
            if found[..] != bytes[..] {
                return Ok(Some(format!("{mounted:?}: a file without a name holds other bytes than before")));
            }
            volume.forget(ino, 1);
        }
        for (mounted, ino) in writers.into_values().flatten() {
            self.volumes[&mounted].close_inherited_writer(ino)?;
            self.volumes[&mounted].forget(ino, 1);
        }
        self.pump();
        Ok(None)
    }

    /// Serves what the kernel asks once more.
    pub(in super::super) fn ask_again(&mut self, state: &State) -> Result<()> {
        let asked = self.machine.kernel.0.lock().asked.clone();
        let Some((operation, request)) = asked else { return Ok(()) };
        self.second = self.machine.kernel.is_second(request);
        self.served.again = true;
        let (done, recorded) = self.serve_request(RequestId { resent: true, ..request }, state, &operation);
        self.served.again = false;
        (self.served.recorded, _) = (recorded, done?);
        self.answer();
        self.pump();
        // And closes what it has open since before.
        if let Some(at) = operation.written() {
            let (volume, ino) = self.mounted(&at)?;
            volume.close_inherited_writer(ino)?;
        }
        if let Operation::Create { at } = operation {
            self.let_go(&Operation::Close { bucket: at.bucket })?;
        }
        Ok(())
    }

    /// Serves a request; and tells whether anything was recorded for it.
    fn serve_request(
        &mut self,
        request: RequestId,
        state: &State,
        operation: &Operation,
    ) -> (Result<Option<String>>, Option<Recorded>) {
        let call = self.served.call.insert(Call::new(request)).clone();
        let done = self.serve(state, operation);
        self.served.call = None;
        (done, call.recorded())
    }

    /// The kernel gets its answer.
    pub(super) fn answer(&mut self) {
        if let Some(recorded) = self.served.recorded.take() {
            recorded.answered();
        }
        self.machine.kernel.gives_up();
    }

    /// Does an operation; a new upload's id. What a mount did is answered when the next is asked.
    pub(in super::super) fn operation(&mut self, state: &State, operation: &Operation) -> Result<Option<String>> {
        self.answer();
        let (request, lasts) = self.machine.kernel.request(state, operation);
        self.second = self.machine.kernel.is_second(request);
        if !lasts {
            let done = self.serve(state, operation);
            self.pump();
            return done;
        }
        let (done, recorded) = self.serve_request(request, state, operation);
        self.served.recorded = recorded;
        if done.is_err() && !self.disk.is_dead() {
            self.machine.kernel.gives_up();
        }
        self.pump();
        done
    }

    /// Reads the feeds, and answers what is asked through them.
    pub(super) fn pump(&self) {
        loop {
            let mut told: Vec<(Mounted, Vec<Change>)> = Vec::new();
            for (mounted, feed) in self.served.feeds.lock().iter_mut() {
                let changes = feed.gathered();
                feed.acknowledge();
                if !changes.is_empty() {
                    told.push((mounted.clone(), changes));
                }
            }
            if told.is_empty() {
                return;
            }
            for (mounted, changes) in told {
                for change in changes {
                    if let (Change::Probe { ino }, Some(volume)) = (change, self.volumes.get(&mounted)) {
                        volume.probe_result(ino, self.machine.kernel.holds(&mounted, ino));
                    }
                }
            }
        }
    }
}

fn open_persistent(store: &Store, bucket: &str, id: SessionId, inherited: bool) -> Result<Volume> {
    store.open_volume(&name(bucket), VolumeOptions { session: Some(id), inherited, ..VolumeOptions::default() })
}
