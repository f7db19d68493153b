//! A simulated kernel behind a mount's session: what it holds, and what it is notified of.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::test_store::TestStore;
use crate::name::BucketName;
use crate::volume::replay::{RequestId, serve};
use crate::volume::{Change, SessionId, Volume};

/// A simulated kernel with a mount that outlives its servers.
pub(crate) struct Kernel {
    pub(crate) bucket: BucketName,
    pub(crate) session: SessionId,
    /// The inodes it holds, each with the number of inode references to return.
    pub(crate) nodes: Arc<Mutex<HashMap<u64, u64>>>,
    /// The notifications it received, in order.
    pub(crate) told: Arc<Mutex<Vec<Change>>>,
    last_request: u64,
    server: Option<(Volume, JoinHandle<()>)>,
}

impl Kernel {
    /// Mounts a bucket.
    pub(crate) fn mount(test: &TestStore, bucket: &BucketName) -> Self {
        let (volume, session) = test.mount_persistent(bucket);
        let (nodes, told) = (Arc::default(), Arc::default());
        let mut kernel = Self { bucket: bucket.clone(), session, nodes, told, last_request: 0, server: None };
        kernel.listen(volume);
        kernel
    }

    /// Makes another server take over the mount's session.
    pub(crate) fn go_on(&mut self, test: &TestStore) {
        assert!(self.server.is_none(), "its server is to be killed first");
        self.listen(test.take_over(&self.bucket, self.session));
    }

    fn listen(&mut self, volume: Volume) {
        let (mut feed, asked) = (volume.feed(), volume.clone());
        let (nodes, told) = (self.nodes.clone(), self.told.clone());
        let listener = std::thread::spawn(move || {
            while let Some(changes) = feed.next() {
                for change in &changes {
                    if let Change::Probe { ino } = change {
                        let held = nodes.lock().contains_key(ino);
                        asked.probe_result(*ino, held);
                    }
                }
                told.lock().extend(changes);
                feed.acknowledge();
            }
        });
        self.server = Some((volume, listener));
    }

    /// Ends the connection to a server that dies.
    pub(crate) fn lose_server(&mut self) {
        let (volume, listener) = self.server.take().unwrap();
        volume.close_feed();
        listener.join().unwrap();
    }

    /// Unmounts the bucket.
    pub(crate) fn unmount(mut self) {
        self.volume().end();
        self.lose_server();
    }

    /// The volume that serves it.
    pub(crate) fn volume(&self) -> &Volume {
        &self.server.as_ref().unwrap().0
    }

    /// The number of a new request.
    pub(crate) fn request(&mut self) -> RequestId {
        self.last_request += 2;
        RequestId { unique: self.last_request, resent: false }
    }

    /// Sends a request and returns the answer.
    pub(crate) fn ask<T>(&mut self, call: impl FnOnce(&Volume) -> T) -> T {
        let request = self.request();
        self.ask_as(request, call)
    }

    /// Sends a request with the given number and returns the answer.
    pub(crate) fn ask_as<T>(&self, request: RequestId, call: impl FnOnce(&Volume) -> T) -> T {
        let (value, recorded) = serve(self.volume(), request, call);
        if let Some(recorded) = recorded {
            recorded.answered();
        }
        value
    }

    /// Sends a request to a server that dies before it answers.
    pub(crate) fn ask_in_vain<T>(&mut self, call: impl FnOnce(&Volume) -> T) -> RequestId {
        let request = self.request();
        drop(serve(self.volume(), request, call));
        RequestId { resent: true, ..request }
    }

    /// Records that an answer with an inode arrived.
    pub(crate) fn got(&self, ino: u64) -> u64 {
        *self.nodes.lock().entry(ino).or_default() += 1;
        ino
    }

    /// Looks a name up in the root.
    pub(crate) fn look_up(&self, name: &str) -> u64 {
        let volume = self.volume();
        self.got(volume.lookup(volume.root(), name).unwrap().ino)
    }

    /// Drops an inode from the cache.
    pub(crate) fn evict(&self, ino: u64) {
        let lookups = self.nodes.lock().remove(&ino).unwrap();
        self.volume().forget(ino, lookups);
    }

    /// Waits until all notifications have arrived and been processed.
    pub(crate) fn settle(&self, test: &TestStore) {
        let id = test.store.bucket(&self.bucket).unwrap().id;
        test.run(test.store.core.feeds.wait_for_mounts(id));
        test.store.core.meta.sync().wait().unwrap();
    }
}

/// Kills the server of all these mounts and starts another, which takes over their sessions.
pub(crate) fn restart(test: TestStore, kernels: &mut [&mut Kernel]) -> TestStore {
    for kernel in kernels.iter_mut() {
        kernel.lose_server();
    }
    let sessions: Vec<SessionId> = kernels.iter().map(|kernel| kernel.session).collect();
    let test = test.killed(&sessions);
    for kernel in kernels.iter_mut() {
        kernel.go_on(&test);
    }
    test
}
