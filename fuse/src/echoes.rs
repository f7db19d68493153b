//! Echoes on their way from requests, which must not wait for the kernel, to the thread that does.
//!
//! - A node is told once, however often it changed meanwhile: never more wait than there are nodes the kernel holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A change through this mount that the kernel does not know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// The content at places the kernel did not write to.
    Content(u64),
    /// The attributes.
    Attributes(u64),
}

/// Where requests leave echoes. Dropping it ends the [`Echoed`].
pub(crate) struct Echoes(Arc<Shared>);

/// Where they are taken.
pub(crate) struct Echoed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Whether it is about content, for each node.
    nodes: BTreeMap<u64, bool>,
    closed: bool,
}

/// Both ends.
pub(crate) fn echoes() -> (Echoes, Echoed) {
    let shared = Arc::new(Shared::default());
    (Echoes(shared.clone()), Echoed(shared))
}

impl Echoes {
    /// Leaves one.
    pub fn send(&self, echo: Echo) {
        let (node, content) = match echo {
            Echo::Content(node) => (node, true),
            Echo::Attributes(node) => (node, false),
        };
        *self.0.waiting.lock().nodes.entry(node).or_default() |= content;
        self.0.filled.notify_one();
    }
}

impl Drop for Echoes {
    fn drop(&mut self) {
        self.0.waiting.lock().closed = true;
        self.0.filled.notify_one();
    }
}

impl Echoed {
    /// All that wait; `None` when none will come.
    pub fn next(&self) -> Option<Vec<Echo>> {
        let mut waiting = self.0.waiting.lock();
        self.0.filled.wait_while(&mut waiting, |waiting| waiting.nodes.is_empty() && !waiting.closed);
        let nodes = std::mem::take(&mut waiting.nodes);
        let echo = |(node, content)| if content { Echo::Content(node) } else { Echo::Attributes(node) };
        (!nodes.is_empty()).then(|| nodes.into_iter().map(echo).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_told_once_of_all_that_waits() {
        let (echoes, echoed) = echoes();
        for _ in 0..1000 {
            echoes.send(Echo::Attributes(7));
            echoes.send(Echo::Content(7));
            echoes.send(Echo::Attributes(8));
        }
        drop(echoes);
        assert_eq!(echoed.next(), Some(vec![Echo::Content(7), Echo::Attributes(8)]));
        assert_eq!(echoed.next(), None);
    }
}
