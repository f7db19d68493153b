//! What a process has used (Linux, `/proc`).

use std::fs::read_to_string;

/// Processor time and memory.
#[derive(Default)]
pub struct Usage {
    /// In user mode and in the kernel.
    pub cpu_ms: f64,
    /// The largest resident set so far.
    pub peak_mib: f64,
}

/// What process `pid` has used so far; nothing if it is gone.
pub fn usage(pid: u32) -> Usage {
    let ticks = || {
        let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything; fields are counted behind it.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut next = || fields.next()?.parse::<f64>().ok();
        Some(next()? + next()?)
    };
    let peak = || {
        let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse::<f64>().ok()
    };
    // USER_HZ is 100 wherever Linux runs today.
    Usage { cpu_ms: ticks().unwrap_or_default() * 10.0, peak_mib: peak().unwrap_or_default() / 1024.0 }
}
