//! Faults, each shorter than a lease.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Remote, volume_address};
use crate::support::*;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// All connections of a mount are cut.
    Cut,
    /// Nothing of the node arrives.
    NodeIsSilent,
    /// Nothing of the store arrives.
    StoreIsSilent,
    /// Nothing arrives.
    Partition,
    /// Everything arrives late.
    Delay,
    /// The node's process is killed with -9, and started again.
    NodeIsKilled,
    /// The node's process is stopped for a while.
    NodeIsStopped,
    /// The holder is killed with -9.
    HolderIsKilled,
    /// The holder is stopped for a while.
    HolderIsStopped,
    /// The node's process is killed with -9 while the holder is stopped: the next process waits for the holder.
    NodeIsKilledBesideAStoppedHolder,
    /// The server is killed with -9, and started again.
    ServerIsKilled,
    /// The server is stopped for a while.
    ServerIsStopped,
}

impl Fault {
    const ALL: [Self; 12] = [
        Self::Cut,
        Self::NodeIsSilent,
        Self::StoreIsSilent,
        Self::Partition,
        Self::Delay,
        Self::NodeIsKilled,
        Self::NodeIsStopped,
        Self::HolderIsKilled,
        Self::HolderIsStopped,
        Self::NodeIsKilledBesideAStoppedHolder,
        Self::ServerIsKilled,
        Self::ServerIsStopped,
    ];

    pub fn any(rng: &mut Rng) -> Self {
        *rng.pick(&Self::ALL)
    }

    /// Makes it happen to a mount, or to the server of all.
    pub fn happens(self, server: &mut Server, mount: &Remote, all: &[Remote], rng: &mut Rng) {
        let pause = Duration::from_millis(300 + rng.below(2700) as u64);
        let silent = |client, from_server| {
            mount.proxy.silence(client, from_server);
            std::thread::sleep(pause);
            mount.proxy.silence(false, false);
        };
        match self {
            Self::Cut => mount.proxy.cut(),
            Self::NodeIsSilent => silent(true, false),
            Self::StoreIsSilent => silent(false, true),
            Self::Partition => silent(true, true),
            Self::Delay => {
                mount.proxy.delay(Duration::from_millis(20));
                std::thread::sleep(pause);
                mount.proxy.delay(Duration::ZERO);
            }
            Self::NodeIsKilled => {
                await_holder(mount);
                mount.processes("node").into_iter().for_each(|pid| send(pid, Signal::KILL));
            }
            Self::NodeIsStopped => stop(&mount.processes("node"), pause),
            Self::HolderIsKilled => mount.processes("holder").into_iter().for_each(|pid| send(pid, Signal::KILL)),
            Self::HolderIsStopped => stop(&mount.processes("holder"), pause),
            Self::NodeIsKilledBesideAStoppedHolder => {
                await_holder(mount);
                let holder = mount.processes("holder");
                holder.iter().for_each(|pid| send(*pid, Signal::STOP));
                mount.processes("node").into_iter().for_each(|pid| send(pid, Signal::KILL));
                std::thread::sleep(pause);
                holder.iter().for_each(|pid| send(*pid, Signal::CONT));
            }
            Self::ServerIsKilled => {
                server.kill9();
                std::thread::sleep(pause / 2);
                server.restart();
                let address = volume_address(server);
                all.iter().for_each(|mount| mount.proxy.lead_to(address));
            }
            Self::ServerIsStopped => stop(&server.pid().into_iter().collect::<Vec<_>>(), pause),
        }
    }
}

/// Waits until a holder has the mount, after the death of the last one: if both die, no process has its device.
fn await_holder(mount: &Remote) {
    let has_come = || (!mount.processes("holder").is_empty()).then_some(());
    wait_until(Duration::from_secs(30), has_come).expect("the next holder");
    std::thread::sleep(Duration::from_millis(500));
}

fn stop(pids: &[u32], pause: Duration) {
    pids.iter().for_each(|pid| send(*pid, Signal::STOP));
    std::thread::sleep(pause);
    pids.iter().for_each(|pid| send(*pid, Signal::CONT));
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
}
