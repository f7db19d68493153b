//! Child processes of the program before an upgrade: the new program in this process waits for their end, so that they
//! do not stay as zombies.

use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};

/// The interval of checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits for all existing children in the background. Must be called before this program starts any of its own.
pub(super) fn wait_for_children() {
    let mut children = children();
    if children.is_empty() {
        return;
    }
    let started = std::thread::Builder::new().name("amphora-left".into()).spawn(move || {
        while !children.is_empty() {
            children.retain(|child| matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None)));
            std::thread::sleep(PAUSE);
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "cannot wait for child processes of the previous server; they stay as zombies");
    }
}

/// The children of this process; empty if the kernel does not report them (CONFIG_PROC_CHILDREN).
fn children() -> Vec<Pid> {
    // After exec(2) there is a single thread, which has inherited the children of all threads. It is not looked up by
    // its number, which is another one in a /proc of an outer PID namespace.
    let numbers = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    numbers.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}
