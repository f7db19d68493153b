//! Memory and descriptors of a process, as the kernel counts them.

use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tests::prelude::*;

/// The resources of a server at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUse {
    /// Resident memory, in bytes.
    pub memory: u64,
    /// Open files.
    pub files: usize,
}

/// The present resources of the server.
pub fn process_use(server: &Server) -> ProcessUse {
    let pid = server.pid().expect("a running server");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kilobytes = resident.trim().trim_end_matches("kB").trim();
    let memory = kilobytes.parse::<u64>().expect("a number") * 1024;
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files").count();
    ProcessUse { memory, files }
}

/// Waits until the server has no more open files than `base` had, except a few of its own.
#[track_caller]
pub fn wait_for_closed_files(server: &Server, base: ProcessUse, limit: Duration) {
    let room = base.files + 24;
    let back = wait_until(limit, || (process_use(server).files <= room).then_some(()));
    assert!(back.is_some(), "{} files are open, {} were before", process_use(server).files, base.files);
}

/// Raises the limit of open files of this process to `count`; the server inherits it.
///
/// # Errors
/// The system does not allow it.
pub fn open_files(count: u64) -> Result<(), String> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < count) {
        return Err(format!("this needs {count} open files: raise the hard limit (ulimit -Hn)"));
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).map_err(|errno| format!("the limit of open files cannot be raised: {errno}"))
}
