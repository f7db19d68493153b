//! The connections of each session, so that its end reaches all of them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::refusal::Refusal;

/// Tells a connection to end.
type End = watch::Sender<Option<Refusal>>;

/// All connections; a cheap handle.
#[derive(Clone, Default)]
pub(super) struct Sessions {
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    last: u64,
    /// Set once every connection has to end, also those that are still in their handshake.
    stopped: Option<Refusal>,
    ends: HashMap<Bytes, HashMap<u64, End>>,
}

/// A connection in the table, until it is dropped.
pub(super) struct Member {
    sessions: Sessions,
    session: Bytes,
    number: u64,
    ended: watch::Receiver<Option<Refusal>>,
}

impl Sessions {
    /// Enters a connection. Its session is what the peer claims; only an end is ever sent.
    pub(super) fn enter(&self, session: &Bytes) -> Member {
        let mut table = self.table.lock();
        let (end, ended) = watch::channel(table.stopped.clone());
        table.last += 1;
        let number = table.last;
        table.ends.entry(session.clone()).or_default().insert(number, end);
        Member { sessions: self.clone(), session: session.clone(), number, ended }
    }

    pub(super) fn end(&self, session: &Bytes, refusal: &Refusal) {
        if let Some(ends) = self.table.lock().ends.get(session) {
            ends.values().for_each(|end| drop(end.send_replace(Some(refusal.clone()))));
        }
    }

    /// Ends every connection, also those that are entered later.
    pub(super) fn end_all(&self, refusal: &Refusal) {
        let mut table = self.table.lock();
        table.stopped = Some(refusal.clone());
        let ends = table.ends.values().flat_map(HashMap::values);
        ends.for_each(|end| drop(end.send_replace(Some(refusal.clone()))));
    }
}

impl Member {
    /// Completes when the connection has to end.
    pub(super) async fn ended(&mut self) -> Refusal {
        let refusal = self.ended.wait_for(Option::is_some).await.ok().and_then(|refusal| refusal.clone());
        match refusal {
            Some(refusal) => refusal,
            // The table keeps the sender while this exists.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut table = self.sessions.table.lock();
        if let Some(ends) = table.ends.get_mut(&self.session) {
            ends.remove(&self.number);
            if ends.is_empty() {
                table.ends.remove(&self.session);
            }
        }
    }
}
