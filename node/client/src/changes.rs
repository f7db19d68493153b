//! The changes of others, as the mount takes and acknowledges them.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use node_codec::session::write;
use node_session::Boot;
use objstore_files::{Change, Changes};
use tokio::runtime::Handle;

use crate::link::Link;
use crate::stream::Part;

/// The changes, as the mount takes them.
pub(crate) struct RemoteChanges {
    link: Arc<Link>,
    runtime: Handle,
    parts: Receiver<Part>,
    taken: Option<(Boot, u64)>,
}

impl RemoteChanges {
    pub(crate) fn new(link: Arc<Link>, runtime: Handle) -> Self {
        let parts = link.stream.follow();
        Self { link, runtime, parts, taken: None }
    }
}

impl RemoteChanges {
    /// If the store takes the lease of the volume back: everything that was answered here is made before that is
    /// acknowledged, or the session is lost.
    fn hand_in(&self, changes: &[Change]) {
        let recalled = changes.iter().filter_map(|change| match change {
            Change::Recall { grant } => Some(*grant),
            _ => None,
        });
        let Some(grant) = recalled.max() else { return };
        let link = &self.link;
        link.queue.recall(grant);
        // A session that is lost has handed in all that it ever will.
        let _ = self.runtime.block_on(link.handed_in(link.queue.last()));
    }
}

impl Changes for RemoteChanges {
    fn next(&mut self) -> Option<Vec<Change>> {
        let Ok(Part { boot, number, changes }) = self.parts.recv() else {
            self.link.cache.close();
            self.link.queue.close();
            return None;
        };
        self.hand_in(&changes);
        self.link.cache.changed(&changes);
        self.taken = Some((boot, number));
        Some(changes)
    }

    fn acknowledge(&mut self) {
        let Some((boot, number)) = self.taken.take() else { return };
        if let Some(acknowledged) = self.link.stream.applied(boot, number) {
            let client = self.link.client.clone();
            // If it is lost with its connection, the change is delivered again, and acknowledged then.
            self.runtime.spawn(async move { drop(client.notice(write(&acknowledged)).await) });
        }
    }

    fn is_lost(&self) -> bool {
        self.link.stream.is_lost()
    }
}
