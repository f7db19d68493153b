//! Processor time and memory of a process, from `/proc`.

use std::fs::read_to_string;

/// Processor time and memory.
#[derive(Default)]
pub struct Usage {
    /// Processor time in user mode and in the kernel.
    pub cpu_ms: f64,
    /// The largest resident set size so far.
    pub peak_mib: f64,
}

/// The usage of process `pid` so far; zero if it has ended.
pub fn usage(pid: u32) -> Usage {
    let ticks = || {
        let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain any character, so fields are counted after it.
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
