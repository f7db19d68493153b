//! Keeping idle processors awake while a mount is very busy, if the operator enabled that.
//!
//! A virtual machine hands an idle processor back to its host. Waking it takes longer than serving a request, and each
//! request wakes two processors: one for the serving thread and one for the caller. While a process holds
//! `/dev/cpu_dma_latency` open with the value 0, Linux lets idle processors wait awake (PM QoS).
//!
//! - A separate thread holds the device. It ends, and closes the device, soon after requests become rare. If the
//!   process dies, the kernel closes the device.
//! - The setting affects the whole machine, so it is off until an operator enables it: [`keep_processors_awake`].
//! - Even then it applies only in a virtual machine with few processors, where it saves most and costs little more than
//!   the one thread that polls for requests. Without the device, or without the right to open it, nothing happens.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const DEVICE: &str = "/dev/cpu_dma_latency";
/// The most processors that are kept awake for one mount.
const PROCESSORS_MAX: usize = 4;

/// Whether an operator enabled it.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Whether the first use was logged.
static TOLD: AtomicBool = AtomicBool::new(false);

const STEP: Duration = Duration::from_millis(4);
/// The fewest requests in one step that justify staying awake.
const REQUESTS_MIN: u32 = 20;
/// The number of consecutive steps below [`REQUESTS_MIN`] after which the device is closed.
const CALM_STEPS: u32 = 3;

/// Sets whether mounts that this process begins to serve from now on may keep idle processors awake while they are very
/// busy. The default is `false`.
pub fn keep_processors_awake(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

/// The share of one session in keeping processors awake.
#[derive(Debug)]
pub(super) struct Awake(Arc<State>);

#[derive(Debug)]
struct State {
    device: PathBuf,
    possible: AtomicBool,
    held: AtomicBool,
    /// Requests since the last step.
    requests: AtomicU32,
}

impl Awake {
    pub fn new() -> Self {
        Self::through(Path::new(DEVICE), WANTED.load(Ordering::Relaxed) && is_small() && is_virtual())
    }

    fn through(device: &Path, possible: bool) -> Self {
        let (possible, held, requests) = (AtomicBool::new(possible), AtomicBool::new(false), AtomicU32::new(0));
        Self(Arc::new(State { device: device.to_owned(), possible, held, requests }))
    }

    /// Counts one more request that followed the one before it quickly.
    pub fn request(&self) {
        if self.0.possible.load(Ordering::Relaxed) {
            self.0.requests.fetch_add(1, Ordering::Relaxed);
            if !self.0.held.load(Ordering::Relaxed) {
                self.hold();
            }
        }
    }

    #[cold]
    fn hold(&self) {
        if self.0.held.swap(true, Ordering::AcqRel) {
            return;
        }
        let state = self.0.clone();
        if std::thread::Builder::new().name("fuse-awake".into()).spawn(move || state.keep()).is_err() {
            self.0.held.store(false, Ordering::Release);
        }
    }
}

impl State {
    fn keep(&self) {
        match self.open() {
            Ok(device) => {
                tell();
                self.wait_for_calm();
                drop(device);
            }
            Err(error) => {
                self.possible.store(false, Ordering::Relaxed);
                tracing::debug!(%error, "idle processors sleep between the requests of a mount");
            }
        }
        self.held.store(false, Ordering::Release);
    }

    fn open(&self) -> io::Result<File> {
        let mut device = OpenOptions::new().write(true).open(&self.device)?;
        device.write_all(&0_i32.to_ne_bytes())?;
        Ok(device)
    }

    fn wait_for_calm(&self) {
        let mut calm = 0;
        while calm < CALM_STEPS {
            std::thread::sleep(STEP);
            let is_calm = self.requests.swap(0, Ordering::Relaxed) < REQUESTS_MIN;
            calm = if is_calm { calm + 1 } else { 0 };
        }
    }
}

fn tell() {
    if !TOLD.swap(true, Ordering::Relaxed) {
        tracing::info!("a mount is very busy: idle processors are kept awake meanwhile (--keep-awake)");
    }
}

fn is_small() -> bool {
    std::thread::available_parallelism().is_ok_and(|processors| processors.get() <= PROCESSORS_MAX)
}

/// Whether this machine runs under a hypervisor.
fn is_virtual() -> bool {
    let shown = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = shown.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_until(what: impl Fn() -> bool) {
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(std::time::Instant::now() < end, "it takes too long");
            std::thread::sleep(STEP);
        }
    }

    #[test]
    fn the_machine_is_left_alone_unless_an_operator_asks() {
        let awake = Awake::new();
        (0..REQUESTS_MIN).for_each(|_| awake.request());
        assert!(!awake.0.held.load(Ordering::Relaxed) && !awake.0.possible.load(Ordering::Relaxed));
    }

    #[test]
    fn processors_stay_awake_until_requests_stop() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let written = || std::fs::read(device.path()).unwrap();
        let awake = Awake::through(device.path(), true);
        let is_held = || awake.0.held.load(Ordering::Relaxed);
        assert!(!is_held() && written().is_empty());
        for _ in 0..2 * CALM_STEPS {
            (0..REQUESTS_MIN).for_each(|_| awake.request());
            assert!(is_held());
            std::thread::sleep(STEP / 2);
        }
        wait_until(|| written() == [0; 4]);
        wait_until(|| !is_held());
    }

    #[test]
    fn nothing_is_done_where_it_cannot_or_should_not_be() {
        let missing = Awake::through(Path::new("/nowhere/latency"), true);
        missing.request();
        wait_until(|| !missing.0.held.load(Ordering::Relaxed));
        missing.request();
        assert!(!missing.0.held.load(Ordering::Relaxed), "it is not tried again");
        let unwanted = Awake::through(Path::new(DEVICE), false);
        unwanted.request();
        assert!(!unwanted.0.held.load(Ordering::Relaxed));
    }
}
