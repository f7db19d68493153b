//! The node of a single mount, which `amphora mount --server` starts and which ends with that mount.
//!
//! - Each mount has a folder below [`FOLDER`], named by its directory and mount namespace. So two network namespaces, or
//!   two containers, do not share a process. From another mount namespace it is found by the device of its mount.
//! - A small process starts it again after a crash, and when a signal ended it before its mount. The holder keeps the mount meanwhile, and starts that process again if
//!   nothing has served the mount for some seconds.
//!
//! A crash of the small process leaves the node; a later crash of the node leaves the mount to the holder, which starts
//! both. A crash of the holder leaves the mount to the node, which starts the next holder. If node and holder die at the
//! same moment, no process has the mount's device any more: a dead mount and this folder are left, which `amphora umount`
//! removes.

use std::fs::{OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use objstore::disk::topmost_mount;

use crate::config::{SocketPath, default_socket};
use crate::failure::Failure;

/// The folder of all such nodes of a machine. It is emptied at a reboot, as mounts are.
const FOLDER: &str = "/run/amphora-mounts";
/// The running program, even if its file was replaced.
const THIS: &str = "/proc/self/exe";
/// The file with the device number and the path of the mount.
const DEVICE: &str = "device";
/// The file with the log of a node.
const LOG: &str = "log";
/// How long a node may take to answer after its start.
const START: Duration = Duration::from_secs(150);
/// How long a node may take to end after its mount has ended.
const END: Duration = Duration::from_secs(5);
/// The interval of looks at a socket.
const PAUSE: Duration = Duration::from_millis(20);
/// The first and the longest pause before a crashed node is started again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A node that ran this long is started again without a pause.
const CALM: Duration = Duration::from_secs(60);

/// The node of the mount at a directory, running or not.
#[derive(Debug)]
pub struct OwnNode {
    folder: PathBuf,
    /// Its admin socket.
    pub socket: SocketPath,
}

impl OwnNode {
    /// The node of the mount at this directory, whose path is absolute and has no links but the last.
    ///
    /// # Errors
    /// [`Failure::Failed`] if this process cannot see its mount namespace.
    pub fn of(dir: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("/proc/self/ns/mnt: {error}"));
        let namespace = std::fs::metadata("/proc/self/ns/mnt").map_err(failed)?.ino();
        let mut hash = 0xCBF2_9CE4_8422_2325_u64;
        for byte in namespace.to_le_bytes().iter().chain(dir.as_os_str().as_encoded_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        }
        Self::in_folder(Path::new(FOLDER).join(format!("{hash:016x}")))
    }

    fn in_folder(folder: PathBuf) -> Result<Self, Failure> {
        let socket = default_socket(&folder, "admin")?;
        Ok(Self { folder, socket })
    }

    /// The running node of the mount at this directory, which may have been made in another mount namespace.
    pub fn found(dir: &Path) -> Option<Self> {
        let of_dir = Self::of(dir).ok().filter(Self::is_running);
        of_dir.or_else(|| {
            let record = record_of(dir)?;
            let folders = std::fs::read_dir(FOLDER).ok()?.flatten().map(|entry| entry.path());
            let serves = |folder: &PathBuf| std::fs::read_to_string(folder.join(DEVICE)).is_ok_and(|own| own == record);
            folders.filter(serves).find_map(|folder| Self::in_folder(folder).ok().filter(Self::is_running))
        })
    }

    /// All such nodes of this machine that run.
    pub fn running() -> Vec<Self> {
        let folders = std::fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path());
        let folders = folders.filter(|folder| folder.is_dir());
        folders.filter_map(|folder| Self::in_folder(folder).ok().filter(Self::is_running)).collect()
    }

    /// Records which mount it serves, so that other mount namespaces find it.
    pub fn record(&self, dir: &Path) {
        // Without the record it is found from this mount namespace alone.
        if let Some(Err(error)) = record_of(dir).map(|record| std::fs::write(self.folder.join(DEVICE), record)) {
            tracing::debug!(%error, "the device of a mount is not recorded");
        }
    }

    /// Whether it answers.
    pub fn is_running(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket.path()).is_ok()
    }

    /// Whether it does not answer, and its folder is there: it was killed with the process that starts it again.
    pub fn is_left(&self) -> bool {
        self.folder.exists() && !self.is_running()
    }

    /// Starts it, unless it runs, and waits until it answers.
    ///
    /// # Errors
    /// [`Failure::Failed`] with the last lines of its log.
    pub fn start(&self) -> Result<(), Failure> {
        if self.is_running() {
            return Ok(());
        }
        let mut command = Command::new(THIS);
        command.arg0("amphora").args(["node", "--detached", "--state-dir"]).arg(&self.folder);
        // It needs nothing from the environment, which may contain keys.
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let ended =
            command.output().map_err(|error| Failure::failed(format!("the node cannot be started: {error}")))?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', " ");
            return Err(Failure::failed(format!("the node cannot be started: {said}")));
        }
        let started = Instant::now();
        while !self.is_running() {
            if started.elapsed() > START || self.has_failed() {
                return Err(Failure::failed(format!(
                    "the node does not start; its log ends with: {}",
                    self.last_lines()
                )));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Removes what it left, unless a process is starting it again: that one removes it.
    pub fn remove(&self) {
        let lock = OpenOptions::new().write(true).open(self.folder.with_extension("lock"));
        // Held until the folder is removed, so that no process starts with half of it.
        if lock.is_ok_and(|lock| lock.try_lock().is_ok() && std::fs::remove_dir_all(&self.folder).is_err()) {
            tracing::debug!(folder = %self.folder.display(), "the folder of an ended mount is not removed");
        }
    }

    /// Waits until it has ended, after its mount has. It ends in any case: no error is reported. Where the process that
    /// starts it again was killed, the folder is removed here.
    pub async fn wait_for_end(&self) {
        let started = Instant::now();
        while self.folder.exists() && started.elapsed() < END {
            tokio::time::sleep(PAUSE).await;
            if !self.is_running() {
                self.remove();
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.folder.join(FAILED).exists()
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" / ")
    }
}

/// What names the mount at a directory in each mount namespace: its device number, which is used again after its end, and
/// its path.
fn record_of(dir: &Path) -> Option<String> {
    let mount = topmost_mount(dir).ok()??;
    Some(format!("{} {}", mount.device, dir.display()))
}

/// A file that says that a node ended with an error.
const FAILED: &str = "failed";

/// Runs the node of a mount in the background, again after each crash, until it ends by itself.
///
/// # Errors
/// [`Failure::Failed`] if the folder cannot be used or the background cannot be entered.
pub(super) fn supervise(folder: &Path, again: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", folder.display()));
    if again {
        // The holder, which started this process, is never chosen by the OOM killer: a node may be.
        let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    }
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    // Held while this process lives, so that the node of a mount that is just ending has ended.
    let lock =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(folder.with_extension("lock"));
    let lock = lock.map_err(failed)?;
    match lock.try_lock() {
        // Another process starts the node again.
        Err(TryLockError::WouldBlock) if again => return Ok(()),
        Err(TryLockError::WouldBlock) => lock.lock().map_err(failed)?,
        locked => locked.map_err(|error| failed(error.into()))?,
    }
    if again && !folder.exists() {
        // The node has ended with its mount.
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(folder, private).map_err(failed)?;
    let _ = std::fs::remove_file(folder.join(FAILED));
    let log = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(folder.join(LOG));
    let log = log.map_err(failed)?;
    // SAFETY: daemon(3) forks and redirects. This process has a single thread, so the child misses none.
    if unsafe { libc::daemon(0, 0) } != 0 {
        return Err(failed(std::io::Error::last_os_error()));
    }
    let mut pause = AGAIN.0;
    loop {
        let mut command = Command::new(THIS);
        command.arg0("amphora").args(["node", "--while-needed", "--state-dir"]).arg(folder);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        let started = Instant::now();
        let ended = log.try_clone().and_then(|log| command.stderr(log).status());
        match ended {
            Ok(status) if status.success() => break,
            Ok(status) if is_to_be_continued(status) => {}
            _ => {
                let _ = std::fs::write(folder.join(FAILED), "");
                return Ok(());
            }
        }
        pause = if started.elapsed() > CALM { AGAIN.0 } else { (pause * 2).min(AGAIN.1) };
        std::thread::sleep(pause);
    }
    let _ = std::fs::remove_dir_all(folder);
    drop(lock);
    Ok(())
}

/// Whether a node was killed, panicked, or left its mount to the next process as a signal told it, rather than refusing to
/// run.
fn is_to_be_continued(status: std::process::ExitStatus) -> bool {
    const PANICKED: i32 = 101;
    let code = status.code();
    status.signal().is_some() || code == Some(PANICKED) || code == Some(Failure::LEFT.into())
}
