//! The processes that use a mount, found in /proc.
//!
//! - Nothing here asks the mount's server: attributes come from the kernel's memory. A look at a hung process may still
//!   block, so the search runs on a separate thread with a time limit.
//! - A mount can be busy though no process is found: another mount lies in it, or its user is in a mount or PID
//!   namespace that this process does not see.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// The longest duration of the search.
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The process id.
    pub pid: u32,
    /// The program's name (proc_pid_comm(5)).
    pub command: String,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.pid, self.command)
    }
}

/// The processes, by id, that have their working directory, root, program, an open file or mapped memory on `device`, a
/// number as `/proc/self/mountinfo` writes it.
pub(crate) fn users_of(device: &str) -> Vec<User> {
    let Some(device) = device.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?))) else {
        return Vec::new();
    };
    let (found, all) = channel();
    let searching = std::thread::Builder::new().name("mount-users".into()).spawn(move || search(device, &found));
    let until = Instant::now() + SEARCH_MAX;
    let mut users = Vec::new();
    while searching.is_ok()
        && let Ok(user) = all.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        users.push(user);
    }
    users.sort_by_key(|user: &User| user.pid);
    users
}

fn search(device: (u32, u32), found: &Sender<User>) {
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let process = entry.path();
        if uses(&process, device) {
            let command = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
            if found.send(User { pid, command: command.trim_end().to_owned() }).is_err() {
                return;
            }
        }
    }
}

fn uses(process: &Path, device: (u32, u32)) -> bool {
    let on = |link: &Path| {
        let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let found = statx(CWD, link, flags, StatxFlags::TYPE);
        found.is_ok_and(|found| (found.stx_dev_major, found.stx_dev_minor) == device)
    };
    let files = || std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    ["cwd", "root", "exe"].iter().any(|link| on(&process.join(link)))
        || files().any(|file| on(&file.path()))
        || maps(&std::fs::read_to_string(process.join("maps")).unwrap_or_default(), device)
}

/// Whether a line of proc_pid_maps(5) refers to the device.
fn maps(text: &str, (major, minor): (u32, u32)) -> bool {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let devices = text.lines().filter_map(|line| line.split(' ').nth(3)?.split_once(':'));
    devices.filter_map(|(a, b)| Some((number(a)?, number(b)?))).any(|device| device == (major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_found_by_its_device() {
        let text = "55d0-55d1 r--p 00000000 00:2c 42   /mnt/f\n7ffc-7ffd rw-p 00000000 00:00 0   [stack]\n";
        assert!(maps(text, (0, 0x2c)) && !maps(text, (0, 0x2d)) && !maps("", (0, 0)));
    }

    #[test]
    fn who_has_a_file_open_is_found_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let found = statx(CWD, folder.path(), AtFlags::empty(), StatxFlags::TYPE).unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("30").current_dir(folder.path()).spawn().unwrap();
        let users = users_of(&format!("{}:{}", found.stx_dev_major, found.stx_dev_minor));
        sleeper.kill().and_then(|()| sleeper.wait()).unwrap();
        assert!(users.contains(&User { pid: sleeper.id(), command: "sleep".into() }), "{users:?}");
        assert!(users_of("nothing").is_empty());
    }
}
