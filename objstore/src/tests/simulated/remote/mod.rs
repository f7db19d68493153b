//! Sessions of mounts on other machines on the simulated disk: openings, calls in slots that are sent again, ends, and a
//! crash of the store at any call of the disk.
//!
//! - Each node has one call without an answer at most when the store dies, and sends it again to the next process;
//!   before that, other nodes may change the same bytes.
//! - After a kill the files hold exactly what was answered. A call without an answer was executed if and only if its
//!   outcome is recorded, and it is executed once.
//! - After a power cut a file that was synced last holds what was synced.
//! - Nothing of a session is executed after its end was answered.

mod model;
mod node;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use objstore_testing::simulated::{Amount, Death, FalseSyncs, SimulatedDisk};

use self::model::{Model, Op};
use self::node::{Node, Sent};
use super::process::{Machine, Process};
use super::schedule::machine;
use crate::name::BucketName;
use crate::store::Publication;
use crate::tests::random::{Choices, given, usual_seed};
use crate::tests::test_store::{bucket_request, name};
use crate::volume::VolumeOptions;

/// How many nodes there are.
const NODES: usize = 2;
/// How often the store dies.
const LIVES: usize = 4;
/// The most acts of a process.
const ACTS: usize = 40;

/// A schedule.
struct Run {
    choices: Choices,
    machine: Machine,
    bucket: BucketName,
    model: Model,
    nodes: Vec<Node>,
    last_session: u128,
    last_token: u64,
    /// What happened, for the report of a failure.
    done: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            choices: Choices::with(seed),
            machine: machine(seed),
            bucket: name("bucket"),
            model: Model::default(),
            nodes: (0..NODES).map(Node::new).collect(),
            last_session: 0,
            last_token: 0,
            done: Vec::new(),
        }
    }

    fn all(&mut self) {
        let disk = SimulatedDisk::new(self.machine.clock.clone(), FalseSyncs::default(), self.choices.once_in(2));
        let process = Process::open(self.machine.clone(), disk).unwrap();
        process.run(process.store.create_bucket(bucket_request("bucket"))).unwrap();
        process.store.core.meta.sync().wait().unwrap();
        let mut disk = process.close();
        for _ in 0..LIVES {
            disk = self.life(&disk.after_kill());
        }
        let process = Process::open(self.machine.clone(), disk.after_kill()).unwrap();
        self.resume(&process);
        for node in 0..NODES {
            self.send_again(&process, node);
        }
        self.model.check(&found(&process, &self.bucket), "at the end");
        self.nodes.iter_mut().for_each(Node::lose_store);
        drop(process.close());
    }

    /// One process of the store, to its death; the disk that it leaves.
    fn life(&mut self, disk: &SimulatedDisk) -> SimulatedDisk {
        let process = self.opened(disk);
        self.resume(&process);
        let done = *self.choices.of(&[Amount::None, Amount::Some, Amount::All]);
        let call = 1 + self.choices.below_u64(8 * ACTS as u64);
        process.disk.dies_at(Some(Death { call, done }));
        for _ in 0..ACTS {
            self.act(&process);
            if process.disk.is_dead() {
                break;
            }
        }
        let is_killed = self.choices.once_in(2);
        self.nodes.iter_mut().for_each(Node::lose_store);
        process.disk.dies();
        let disk = process.disk.clone();
        drop(process);
        self.done.push(if is_killed { "-- killed" } else { "-- power cut" }.to_owned());
        let left = if is_killed { disk.after_kill() } else { disk.after_power_cut(&mut self.choices) };
        self.model.crashed(is_killed, self.nodes.iter().filter_map(Node::unanswered));
        left
    }

    /// A process of the store on what the one before left; some die while they open.
    fn opened(&mut self, disk: &SimulatedDisk) -> Process {
        let mut disk = disk.clone();
        while self.choices.once_in(4) {
            let death = Death { call: 1 + self.choices.below_u64(30), done: Amount::Some };
            disk.dies_at(Some(death));
            drop(Process::open(self.machine.clone(), disk.clone()));
            disk.dies();
            disk = disk.after_kill();
            self.done.push("-- died while it opened".to_owned());
        }
        disk.dies_at(None);
        Process::open(self.machine.clone(), disk).unwrap()
    }

    /// The sessions go on with a process: what is found there is what was answered.
    fn resume(&mut self, process: &Process) {
        let found = found(process, &self.bucket);
        self.model.reopened(&found);
        for node in &mut self.nodes {
            node.resume(&process.store);
        }
    }

    fn act(&mut self, process: &Process) {
        let node = self.choices.below(NODES);
        match self.choices.below(16) {
            0 => self.end(process, node),
            1 | 2 => self.repeat(process, node),
            _ => self.call(process, node),
        }
    }

    /// Publishes the bucket to a node that has no session, and opens one.
    fn open(&mut self, process: &Process, node: usize) -> bool {
        if self.nodes[node].is_open() {
            return true;
        }
        if self.nodes[node].may_be_open() {
            // Its opening or its end was not answered.
            return self.nodes[node].open(process, &self.bucket);
        }
        self.last_session += 1;
        self.done.push(format!("node {node} opens session {}", self.last_session));
        let publication = Publication {
            bucket: self.bucket.clone(),
            node: self.nodes[node].name.clone(),
            read_only: false,
            capability: "mount".into(),
            ticket_suffices: true,
            fenced_by: None,
        };
        if process.run(process.store.publish(publication)).is_err() {
            return false;
        }
        self.nodes[node].begin(self.last_session);
        self.nodes[node].open(process, &self.bucket)
    }

    fn end(&mut self, process: &Process, node: usize) {
        self.done.push(format!("the bucket is unpublished from node {node}"));
        let name = self.nodes[node].name.clone();
        let ended = process.run(process.store.unpublish(&self.bucket, Some(&name)));
        let sent = self.nodes[node].ended(ended.is_ok());
        if ended.is_ok()
            && !process.disk.is_dead()
            && let Some(sent) = sent
        {
            assert!(sent.is_refused(process), "a call is executed after the end of its session");
            self.model.check(&found(process, &self.bucket), "after the end of a session");
        }
    }

    fn call(&mut self, process: &Process, node: usize) {
        if !self.open(process, node) {
            return;
        }
        self.send_again(process, node);
        if process.disk.is_dead() {
            return;
        }
        self.last_token += 1;
        let op = Op::any(&mut self.choices, &self.model, self.last_token);
        self.done.push(format!("node {node}: {op:?}"));
        let expected = self.model.after(&op);
        let slot = self.choices.below(2) as u32;
        let answered = self.nodes[node].send(slot, op);
        let Some(answer) = answered.filter(|_| !process.disk.is_dead()) else { return };
        self.model.answered(expected, &answer);
        self.nodes[node].answered();
    }

    /// A late copy of the last call, or one whose answer was lost: it is answered as before, and changes nothing.
    fn repeat(&mut self, process: &Process, node: usize) {
        if let Some((before, again)) = self.nodes[node].repeat()
            && !process.disk.is_dead()
        {
            assert_eq!(before, again, "a call that is sent again has the same answer");
            self.model.check(&found(process, &self.bucket), "after a repetition");
        }
    }

    /// The call that the process before did not answer.
    fn send_again(&mut self, process: &Process, node: usize) {
        let Some(op) = self.nodes[node].unanswered() else { return };
        if !self.nodes[node].is_open() {
            return;
        }
        self.done.push(format!("node {node}, again: {op:?}"));
        let Sent { answer, was_recorded } = self.nodes[node].send_again();
        if process.disk.is_dead() {
            return;
        }
        self.model.answered_again(&op, was_recorded, &answer, &found(process, &self.bucket));
        self.nodes[node].answered();
    }
}

/// What the files hold, as a mount of the store's machine sees it.
fn found(process: &Process, bucket: &BucketName) -> model::Files {
    let volume = process.store.open_volume(bucket, VolumeOptions::default()).unwrap();
    model::read(&volume)
}

#[test]
#[expect(clippy::print_stderr, reason = "the harness shows it with the failure")]
fn sessions_of_other_machines_survive_a_crash_at_any_call() {
    let count = given("AMPHORA_REMOTE_SCHEDULES").unwrap_or(400);
    let first = given("AMPHORA_SEED").unwrap_or_else(usual_seed);
    for seed in first..first + count {
        let mut run = Run::new(seed);
        let ran = catch_unwind(AssertUnwindSafe(|| run.all()));
        if let Err(panic) = ran {
            eprintln!("{}\nreplay with AMPHORA_REMOTE_SCHEDULES=1 AMPHORA_SEED={seed}", run.done.join("\n"));
            resume_unwind(panic);
        }
    }
}
