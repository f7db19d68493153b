//! The kernel behind the mounts, where these outlive their server: what it asked and was not answered, what it holds.
//!
//! - It dies with the power. After a kill or an orderly end the next process takes the mounts over, and is asked again
//!   what the one before took and did not answer.
//! - Its feeds are read while an operation of S3 waits for them, on the same thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Process;
use crate::error::Result;
use crate::feed::Feed;
use crate::store::Store;
use crate::tests::lying::act::Act;
use crate::tests::lying::model::State;
use crate::tests::rig::{name, read_file};
use crate::volume::replay::{Recorded, RequestId, serve};
use crate::volume::{Change, SessionId, Volume, VolumeOptions};

/// The kernel; clones are the same.
#[derive(Clone, Default)]
pub(in super::super) struct Kernel(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    /// Whether mounts outlive their server.
    lasting: bool,
    sessions: BTreeMap<String, SessionId>,
    last_request: u64,
    /// What was asked last, if it is not answered.
    asked: Option<(Act, RequestId)>,
    /// Files without a name that programs have open, with their content.
    nameless: Vec<(String, u64, Vec<u8>)>,
    /// Files open for writing, by bucket, oldest first.
    writers: BTreeMap<String, Vec<u64>>,
}

/// What a process has of it.
#[derive(Default)]
pub(super) struct Served {
    feeds: Mutex<BTreeMap<String, Feed>>,
    recorded: Option<Recorded>,
    /// Whether what is served was asked before.
    pub(super) again: bool,
}

impl Kernel {
    /// One whose mounts outlive their server, or not.
    pub(in super::super) fn new(lasting: bool) -> Self {
        let kernel = Self::default();
        kernel.0.lock().lasting = lasting;
        kernel
    }

    /// The process died; what it left is all there is, if the power went with it.
    pub(in super::super) fn lose_server(&self, power: bool) {
        let mut held = self.0.lock();
        if power || !held.lasting {
            *held = Held { lasting: held.lasting, last_request: held.last_request, ..Held::default() };
        }
    }

    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.0.lock().sessions.values().copied().collect()
    }

    /// What is to be asked again.
    pub(in super::super) fn asked(&self) -> Option<Act> {
        self.0.lock().asked.as_ref().map(|(act, _)| act.clone())
    }

    /// Nobody waits for an answer any more.
    pub(in super::super) fn gives_up(&self) {
        self.0.lock().asked = None;
    }

    pub(super) fn opens(&self, bucket: &str, ino: u64) {
        self.0.lock().writers.entry(bucket.to_owned()).or_default().push(ino);
    }

    /// The file that has been open longest.
    pub(super) fn closes(&self, bucket: &str) -> Option<u64> {
        let mut held = self.0.lock();
        held.writers.get_mut(bucket).filter(|open| !open.is_empty()).map(|open| open.remove(0))
    }

    /// A file that is held may have lost its last name.
    pub(super) fn unlinked(&self, bucket: &str, volume: &Volume, ino: u64) -> Result<()> {
        let mut held = self.0.lock();
        if held.lasting && volume.attr(ino)?.nlink == 0 {
            held.nameless.push((bucket.to_owned(), ino, read_file(volume, ino)));
        }
        Ok(())
    }

    fn holds(&self, bucket: &str, ino: u64) -> bool {
        let held = self.0.lock();
        held.nameless.iter().any(|(of, held, _)| (&**of, *held) == (bucket, ino))
            || held.writers.get(bucket).is_some_and(|open| open.contains(&ino))
    }

    /// The number of a request, if it is asked again by whoever gets no answer. Not what is written to a version that is
    /// under way: how much of that belongs to the version which the next server begins, nobody can say.
    fn request(&self, state: &State, act: &Act) -> Option<RequestId> {
        let mut held = self.0.lock();
        held.last_request += 2;
        let request = RequestId { unique: held.last_request, resent: false };
        let lasts = held.lasting && act.is_asked_again() && !state.goes_on_with_a_version(act);
        held.asked = lasts.then(|| (act.clone(), request));
        lasts.then_some(request)
    }
}

impl Process {
    /// Mounts a bucket or snapshot.
    pub(super) fn mount(&self, bucket: &str) -> Result<Volume> {
        let kernel = &self.machine.kernel;
        if !kernel.0.lock().lasting {
            return self.store.open_volume(&name(bucket), VolumeOptions::default());
        }
        let id = self.store.new_session();
        let volume = open_lasting(&self.store, bucket, id, false)?;
        self.listen(bucket, &volume);
        kernel.0.lock().sessions.insert(bucket.to_owned(), id);
        Ok(volume)
    }

    fn listen(&self, bucket: &str, volume: &Volume) {
        self.served.feeds.lock().insert(bucket.to_owned(), volume.feed());
    }

    pub(super) fn unmount(&mut self, bucket: &str) {
        let kernel = self.machine.kernel.clone();
        let mut held = kernel.0.lock();
        held.writers.remove(bucket);
        held.nameless.retain(|(of, _, _)| of != bucket);
        let lasted = held.sessions.remove(bucket).is_some();
        drop(held);
        self.served.feeds.lock().remove(bucket);
        if let Some(volume) = self.volumes.remove(bucket).filter(|_| lasted) {
            volume.end();
        }
    }

    /// Takes the mounts over: what they held without a name is whole, and is let go.
    pub(in super::super) fn take_over(&mut self) -> Result<Option<String>> {
        let kernel = self.machine.kernel.clone();
        let sessions = kernel.0.lock().sessions.clone();
        for (bucket, id) in sessions.clone() {
            if self.store.bucket(&name(&bucket)).is_err() {
                self.store.end_session(id)?;
                self.unmount(&bucket);
                continue;
            }
            let volume = open_lasting(&self.store, &bucket, id, true)?;
            self.listen(&bucket, &volume);
            self.volumes.insert(bucket, volume);
        }
        let (nameless, writers) = {
            let mut held = kernel.0.lock();
            (std::mem::take(&mut held.nameless), std::mem::take(&mut held.writers))
        };
        if sessions.is_empty() {
            return Ok(None);
        }
        for (bucket, ino, bytes) in nameless {
            let volume = &self.volumes[&bucket];
            let size = volume.attr(ino)?.size;
            let found = volume.read(ino, 0, size as usize)?;
            if found[..] != bytes[..] {
                return Ok(Some(format!("{bucket}: a file without a name holds other bytes than before")));
            }
            volume.forget(ino, 1);
        }
        for (bucket, open) in writers {
            for ino in open {
                self.volumes[&bucket].close_inherited_writer(ino)?;
                self.volumes[&bucket].forget(ino, 1);
            }
        }
        self.pump();
        Ok(None)
    }

    /// Serves what the kernel asks once more.
    pub(in super::super) fn ask_again(&mut self, state: &State) -> Result<()> {
        let asked = self.machine.kernel.0.lock().asked.clone();
        let Some((act, request)) = asked else { return Ok(()) };
        self.served.again = true;
        let (done, recorded) = serve(RequestId { resent: true, ..request }, || self.serve(state, &act));
        self.served.again = false;
        (self.served.recorded, _) = (recorded, done?);
        self.answer();
        self.pump();
        // And closes what it has open since before.
        if let Some(at) = act.written() {
            let (volume, ino) = self.mounted(&at)?;
            volume.close_inherited_writer(ino)?;
        }
        Ok(())
    }

    /// The kernel gets its answer.
    pub(super) fn answer(&mut self) {
        if let Some(recorded) = self.served.recorded.take() {
            recorded.answered();
        }
        self.machine.kernel.gives_up();
    }

    /// Does an operation; a new upload's id. What a mount did is answered when the next is asked.
    pub(in super::super) fn act(&mut self, state: &State, act: &Act) -> Result<Option<String>> {
        self.answer();
        let Some(request) = self.machine.kernel.request(state, act) else {
            let done = self.serve(state, act);
            self.pump();
            return done;
        };
        let (done, recorded) = serve(request, || self.serve(state, act));
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
            let mut told: Vec<(String, Vec<Change>)> = Vec::new();
            for (bucket, feed) in self.served.feeds.lock().iter_mut() {
                let changes = feed.gathered();
                feed.acknowledge();
                if !changes.is_empty() {
                    told.push((bucket.clone(), changes));
                }
            }
            if told.is_empty() {
                return;
            }
            for (bucket, changes) in told {
                for change in changes {
                    if let (Change::Probe { ino }, Some(volume)) = (change, self.volumes.get(&bucket)) {
                        volume.probe_result(ino, self.machine.kernel.holds(&bucket, ino));
                    }
                }
            }
        }
    }
}

fn open_lasting(store: &Store, bucket: &str, id: SessionId, inherited: bool) -> Result<Volume> {
    store.open_volume(&name(bucket), VolumeOptions { session: Some(id), inherited, ..VolumeOptions::default() })
}
