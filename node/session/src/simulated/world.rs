//! One schedule: machines with clocks of their own, programs and faults; then a time without faults, after which every
//! promise has to hold.

use std::time::Duration;

use objstore_testing::random::Choices;

use super::checker::Checker;
use super::network::{Event, Network, Weather};
use super::node::{Node, Stage};
use super::packet::Packet;
use super::planted::Planted;
use super::store::{Habits, Sent, Store};
use crate::lease::Standing;
use crate::{Moment, Terms};

const LEASE: Duration = Duration::from_millis(300);
/// How much faster the fastest clock may run, in millionths.
const DIFFERENCE_PPM: u32 = 100_000;
/// For how long things fail, and for how long programs work, in microseconds.
const FAULTS: u64 = 1_500_000;
const WORK: u64 = 1_800_000;
/// When everything has to be right.
const END: u64 = 3_600_000;

/// What a seed chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) planted: Planted,
}

/// What happened in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) events: u64,
    pub(super) faults: u64,
    pub(super) acknowledged: u64,
}

/// A broken promise, and what led to it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) what: String,
    pub(super) notes: Vec<String>,
}

struct World {
    choices: Choices,
    network: Network,
    store: Store,
    store_rate: f64,
    nodes: Vec<Machine>,
    checker: Checker,
    ran: Ran,
}

/// A node with its clock.
struct Machine {
    node: Node,
    rate: f64,
    /// Until when its process is stopped.
    stopped: u64,
}

/// Runs a schedule.
pub(super) fn run(plan: Plan) -> Result<Ran, Failure> {
    let mut world = World::new(plan);
    while world.network.now < END && world.checker.violation.is_none() {
        let Some(event) = world.network.next() else { break };
        world.happen(event);
    }
    let lists = world.store.ledger.state.lists.clone();
    world.checker.finally(&lists);
    let unfinished =
        world.nodes.iter().find(|machine| !machine.node.behind.is_empty() || machine.node.stage != Stage::Up);
    if let Some(Machine { node, .. }) = unfinished {
        let what = format!("node {} is {:?} at the end, with {:?} to send", node.id, node.stage, node.behind);
        world.checker.fail(what);
    }
    world.ran.acknowledged = world.checker.acknowledged;
    match world.checker.violation {
        Some(what) => Err(Failure { what, notes: world.checker.notes }),
        None => Ok(world.ran),
    }
}

fn local(true_micros: u64, rate: f64) -> Moment {
    Moment::after_start(Duration::from_micros(true_micros).mul_f64(rate))
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut choices = Choices::with(plan.seed);
        let terms = Terms { lease: LEASE, rate_difference_ppm: DIFFERENCE_PPM, changes: 1 + choices.below(6) };
        let count = 1 + choices.below(3);
        let mut rate = || 1.0 + choices.below(usize::try_from(DIFFERENCE_PPM).unwrap()) as f64 / 1e6;
        let store_rate = rate();
        let machine = |(id, rate)| Machine { node: Node::new(id, terms, plan.planted), rate, stopped: 0 };
        let rates: Vec<f64> = (0..count).map(|_| rate()).collect();
        let nodes: Vec<Machine> = rates.into_iter().enumerate().map(machine).collect();
        let weather = Weather {
            lost: *choices.of(&[0, 50, 10]),
            repeated: *choices.of(&[0, 20, 5]),
            late: *choices.of(&[0, 30, 8]),
        };
        let mut network = Network::new(count, weather);
        (0..count).for_each(|id| network.at(0, Event::NodeTick(id)));
        network.at(0, Event::StoreTick);
        network.at(0, Event::Fault);
        let habits = Habits { sync: *choices.of(&[8, 80]), s3: *choices.of(&[5, 100]) };
        let store = Store::new(terms, plan.planted, habits, local(0, store_rate));
        Self { choices, network, store, store_rate, nodes, checker: Checker::default(), ran: Ran::default() }
    }

    fn happen(&mut self, event: Event) {
        self.ran.events += 1;
        match event {
            Event::ToStore { node, life, bytes } => {
                if life == self.store.life {
                    let now = self.store_now();
                    let sent = self.store.receive(node, Packet::decode(&bytes), now, &mut self.checker);
                    self.send_to_nodes(sent);
                }
            }
            Event::ToNode { node, life, bytes } => self.deliver(node, life, bytes),
            Event::NodeTick(id) => self.node_tick(id),
            Event::StoreTick => {
                let now = self.store_now();
                let sent = self.store.tick(now, &mut self.choices, &mut self.checker);
                self.send_to_nodes(sent);
                self.again(Event::StoreTick);
            }
            Event::Fault => self.fault(),
        }
        self.check_exclusive();
    }

    fn store_now(&self) -> Moment {
        local(self.network.now, self.store_rate)
    }

    fn node_now(&self, id: usize) -> Moment {
        local(self.network.now, self.nodes[id].rate)
    }

    fn again(&mut self, event: Event) {
        let pause = 4_000 + self.choices.below_u64(10_000);
        self.network.at(self.network.now + pause, event);
    }

    fn send_to_nodes(&mut self, sent: Vec<Sent>) {
        for (node, packet) in sent {
            let event = Event::ToNode { node, life: self.store.life, bytes: packet.encode() };
            self.network.send(&event, &mut self.choices);
        }
    }

    fn send_to_store(&mut self, node: usize, sent: Vec<Packet>) {
        let life = self.nodes[node].node.connected;
        for packet in sent {
            let event = Event::ToStore { node, life, bytes: packet.encode() };
            self.network.send(&event, &mut self.choices);
        }
    }

    fn deliver(&mut self, id: usize, life: u64, bytes: bytes::Bytes) {
        let (now, machine) = (self.node_now(id), &mut self.nodes[id]);
        if machine.stopped > self.network.now {
            self.network.at(machine.stopped, Event::ToNode { node: id, life, bytes });
            return;
        }
        if machine.node.connected == life {
            let sent = machine.node.receive(&Packet::decode(&bytes), now, &mut self.checker);
            self.send_to_store(id, sent);
            self.entered(id);
            self.synced(id);
        }
    }

    fn node_tick(&mut self, id: usize) {
        let (now, is_working) = (self.node_now(id), self.network.now < WORK);
        let connects = self.network.connects(id);
        let machine = &mut self.nodes[id];
        if machine.stopped > self.network.now {
            self.network.at(machine.stopped, Event::NodeTick(id));
            return;
        }
        machine.node.is_working = is_working;
        let life = if connects { self.store.life } else { machine.node.connected };
        let sent = machine.node.tick(now, life, &mut self.choices, &mut self.checker);
        self.send_to_store(id, sent);
        self.again(Event::NodeTick(id));
    }

    /// Programs that entered the section under the lock: no other one may act as if it were inside.
    fn entered(&mut self, id: usize) {
        for program in std::mem::take(&mut self.nodes[id].node.entered) {
            let now = self.network.now;
            let nodes = &mut self.nodes;
            let believes = |other: usize| {
                let machine = &mut nodes[other];
                let at = local(now, machine.rate);
                // A process that has not resumed its session serves nothing.
                machine.node.lease.is_some() && machine.node.standing(at) != Standing::Expired
            };
            self.checker.enters(program, id, believes);
        }
    }

    /// What an fsync reported as kept survives a power cut from now on.
    fn synced(&mut self, id: usize) {
        let tokens = std::mem::take(&mut self.nodes[id].node.synced_tokens);
        if let Some(token) = tokens.iter().find(|token| !self.store.ledger.has_synced(**token)) {
            self.checker.fail(format!("an fsync of node {id} covered {token}, which a power cut can lose"));
        }
        self.checker.synced(&tokens);
    }

    /// A node that answers changes itself has the volume.
    fn check_exclusive(&mut self) {
        let (now, holder) = (self.network.now, self.store.holder());
        for machine in &mut self.nodes {
            let at = local(now, machine.rate);
            if machine.node.lease.is_some() && machine.node.has_exclusive(at) && holder != Some(machine.node.session())
            {
                let what = format!("node {} answers changes itself, and {holder:?} has the volume", machine.node.id);
                self.checker.fail(what);
            }
        }
    }

    fn fault(&mut self) {
        let now = self.network.now;
        if now >= FAULTS {
            self.network.weather = Weather { lost: 0, repeated: 0, late: 0 };
            self.network.cuts.fill((now, now));
            return;
        }
        self.network.at(now + self.choices.below_u64(120_000), Event::Fault);
        self.ran.faults += 1;
        let id = self.choices.below(self.nodes.len());
        let longest = if self.choices.once_in(3) { 700_000 } else { 100_000 };
        let until = now + self.choices.below_u64(longest);
        match self.choices.below(12) {
            0 | 1 => self.network.cuts[id] = (until, until),
            2 => self.network.cuts[id].0 = until,
            3 => self.network.cuts[id].1 = until,
            4 | 5 => self.nodes[id].stopped = until,
            6 => self.restart_node(id),
            7 | 8 => self.restart_store(false),
            9 | 10 => self.restart_store(true),
            _ => {}
        }
    }

    fn restart_node(&mut self, id: usize) {
        self.checker.note(|| format!("node {id} restarts"));
        self.nodes[id].node.restart();
        // What the store may still lose, this process cannot send again; what the other process answered itself is kept.
        let (ledger, behind) = (&self.store.ledger, &self.nodes[id].node.behind);
        let is_kept = |token| ledger.has_synced(token) || behind.iter().any(|op| op.token == token);
        self.checker.forgives(id, |_, token| !is_kept(token));
    }

    fn restart_store(&mut self, power_cut: bool) {
        let now = self.store_now();
        if power_cut {
            let unsynced = self.store.ledger.unsynced();
            let kept = self.choices.below(unsynced + 1);
            self.store.ledger.cut(kept);
            self.checker.note(|| format!("power cut, {kept} of {unsynced} commits kept"));
        } else {
            self.checker.note(|| "the store is killed".to_owned());
        }
        self.store.restart(now);
    }
}
