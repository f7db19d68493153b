//! The network: frames that are lost, delayed, repeated and reordered, and directions that are cut.
//!
//! A frame belongs to a connection. A connection does not outlive the process at either of its ends, as with TCP; within
//! one, this network is worse than TCP.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bytes::Bytes;
use objstore_testing::random::Choices;

/// What happens at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A frame reaches the store, whose life the node had connected to.
    ToStore { node: usize, life: u64, bytes: Bytes },
    /// A frame of a life of the store reaches a node.
    ToNode { node: usize, life: u64, bytes: Bytes },
    /// A node looks around.
    NodeTick(usize),
    /// The store looks around.
    StoreTick,
    /// Something fails.
    Fault,
}

/// How bad the network is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// One frame in so many is lost; none if zero.
    pub(super) lost: usize,
    /// One frame in so many is repeated.
    pub(super) repeated: usize,
    /// One frame in so many is late.
    pub(super) late: usize,
}

/// The queue of events, in microseconds of true time.
pub(super) struct Network {
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    pub(super) now: u64,
    pub(super) weather: Weather,
    /// Until when each node's direction to the store and from it is cut.
    pub(super) cuts: Vec<(u64, u64)>,
}

impl Network {
    pub(super) fn new(nodes: usize, weather: Weather) -> Self {
        Self { queue: BinaryHeap::new(), order: 0, now: 0, weather, cuts: vec![(0, 0); nodes] }
    }

    pub(super) fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((time.max(self.now), self.order, event)));
    }

    pub(super) fn next(&mut self) -> Option<Event> {
        let Reverse((time, _, event)) = self.queue.pop()?;
        self.now = time;
        Some(event)
    }

    /// Sends a frame, if its direction is not cut and it is not lost.
    pub(super) fn send(&mut self, event: &Event, choices: &mut Choices) {
        let is_cut = match event {
            Event::ToStore { node, .. } => self.cuts[*node].0 > self.now,
            Event::ToNode { node, .. } => self.cuts[*node].1 > self.now,
            _ => false,
        };
        if is_cut || self.weather.lost > 0 && choices.once_in(self.weather.lost) {
            return;
        }
        let copies = if self.weather.repeated > 0 && choices.once_in(self.weather.repeated) { 2 } else { 1 };
        for _ in 0..copies {
            let late = self.weather.late > 0 && choices.once_in(self.weather.late);
            let delay = if late { choices.below_u64(200_000) } else { 100 + choices.below_u64(4_000) };
            self.at(self.now + delay, event.clone());
        }
    }

    /// Whether a connection can be opened.
    pub(super) fn connects(&self, node: usize) -> bool {
        let (to, from) = self.cuts[node];
        to <= self.now && from <= self.now
    }
}
