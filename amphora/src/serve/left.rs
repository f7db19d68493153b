//! Children of the program that this process was before an upgrade: the new program knows nothing of them, but they are
//! its to wait for, or they stay behind as zombies.

use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};

/// How often they are looked at: nobody waits for the outcome.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits for all that are there, beside what this process does. To be called before it starts any of its own.
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

/// This process's; none where the kernel does not tell (CONFIG_PROC_CHILDREN).
fn children() -> Vec<Pid> {
    // After exec(2) there is one thread, and it has the children of all that were there.
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    let numbers = text.unwrap_or_default();
    numbers.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}
