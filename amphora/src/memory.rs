//! Tuning of glibc's allocator for a server with many threads and large buffers on a small machine.
//!
//! - By default each thread may get its own arena, and each freed buffer raises the size up to which later ones are
//!   kept. Measured here: mounting and unmounting twelve times grew the process from 23 to 156 MiB, and 64 writers of 4
//!   KiB grew it to 87 MiB instead of 50.
//! - Freed memory between buffers in use stays with the process, for example after 10,000 connections. So free pages
//!   are returned to the system when the process becomes idle, and rarely where that returns little.

use std::time::Duration;

/// Freed buffers of at least this size are returned to the system: blocks of S3 bodies, of which the store keeps a
/// pool, and responses of long listings. Smaller ones share memory that the process keeps.
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Number of arenas: enough that threads rarely wait for each other, few enough that their unused ends do not add up.
const ARENAS_MAX: usize = 8;

/// Configures the allocator. Must be called before threads exist.
#[cfg(target_env = "gnu")]
pub(crate) fn set_up() {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let arenas = libc::c_int::try_from(cores.clamp(2, ARENAS_MAX)).unwrap_or(2);
    for (parameter, value) in
        [(libc::M_ARENA_MAX, arenas), (libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, LARGE_BYTES)]
    {
        // SAFETY: mallopt(3) takes two integers and changes the allocator's own parameters. A refused value changes
        // nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Other allocators have no such parameters.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn set_up() {}

/// The interval at which the process is examined.
const LOOK: Duration = Duration::from_secs(5);
/// Processor time in one interval below which the process counts as idle: a tenth of one processor.
const CALM: Duration = Duration::from_millis(500);
/// Processor time since the last trim below which too little was done to leave memory behind.
const WORK: Duration = Duration::from_millis(100);
/// Resident memory below which a trim is not worth it: an idle server holds some 30 MiB.
const RESIDENT_BYTES_MIN: u64 = 40 << 20;
/// The least memory that a worthwhile trim returns.
const WORTH_BYTES: u64 = 4 << 20;
/// The most intervals between two trims of which the first was not worthwhile: one minute.
const LOOKS_MAX: u32 = 12;
/// Intervals after which a process that is never idle is trimmed too: five minutes.
const LOOKS_BUSY: u32 = 60;

/// The schedule of trims.
struct Trims {
    /// Processor time at the last look, and at the last trim.
    seen: Duration,
    trimmed: Duration,
    /// Intervals since the last trim, and how many there have to be.
    looks: u32,
    wait: u32,
}

impl Trims {
    /// A schedule before the first trim.
    fn new() -> Self {
        Self { seen: Duration::ZERO, trimmed: Duration::ZERO, looks: 0, wait: 1 }
    }

    /// Whether a trim is due. `cpu` is the processor time of the process, `resident_bytes` its resident memory.
    fn is_due(&mut self, cpu: Duration, resident_bytes: u64) -> bool {
        let calm = cpu.saturating_sub(self.seen) < CALM;
        self.seen = cpu;
        self.looks += 1;
        let worked = cpu.saturating_sub(self.trimmed) >= WORK;
        let time = calm && self.looks >= self.wait || self.looks >= LOOKS_BUSY;
        time && worked && resident_bytes >= RESIDENT_BYTES_MIN
    }

    /// Records a trim and how many bytes it returned.
    fn gave_back(&mut self, cpu: Duration, bytes: u64) {
        self.trimmed = cpu;
        self.looks = 0;
        self.wait = if bytes < WORTH_BYTES { (self.wait * 2).min(LOOKS_MAX) } else { 1 };
    }
}

/// Returns free memory to the system whenever the process becomes idle. Never ends.
#[cfg(target_env = "gnu")]
pub(crate) async fn give_back_when_calm() {
    let mut trims = Trims::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let (cpu, before) = (processor_time(), resident_bytes());
        if !trims.is_due(cpu, before) {
            continue;
        }
        // A trim walks through all free memory, so it runs on a blocking thread.
        if tokio::task::spawn_blocking(trim).await.is_err() {
            return;
        }
        let bytes = before.saturating_sub(resident_bytes());
        trims.gave_back(cpu, bytes);
        tracing::debug!(bytes, "free memory was returned to the system");
    }
}

/// Other allocators have their own ways.
#[cfg(not(target_env = "gnu"))]
pub(crate) async fn give_back_when_calm() {}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: malloc_trim(3) gives back pages of free chunks only, under the locks of their arenas.
    unsafe { libc::malloc_trim(0) };
}

/// The processor time of all threads.
#[cfg(target_env = "gnu")]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) writes the one structure it is given. A clock that is not there leaves it at zero.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// The resident memory that belongs to no file.
#[cfg(target_env = "gnu")]
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    let kib = line.trim().trim_end_matches("kB").trim().parse::<u64>();
    kib.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u64 = 300 << 20;

    #[test]
    fn a_process_is_trimmed_when_it_turns_calm_after_work() {
        let at = Duration::from_millis;
        let mut trims = Trims::new();
        assert!(!trims.is_due(at(50), LARGE), "the process has done nothing yet");
        assert!(!trims.is_due(at(3_000), LARGE), "the process is busy");
        assert!(!trims.is_due(at(3_010), 30 << 20), "the process holds little memory");
        assert!(trims.is_due(at(3_020), LARGE));
        trims.gave_back(at(3_020), 200 << 20);
        assert!(!trims.is_due(at(3_030), LARGE), "the process has done nothing since the last trim");
        assert!(trims.is_due(at(3_200), LARGE));
    }

    #[test]
    fn what_gives_back_little_is_done_seldom_and_the_busy_are_trimmed_too() {
        let mut trims = Trims::new();
        let mut cpu = Duration::ZERO;
        let mut count = |looks: u32, step: Duration, gives: u64| {
            let mut made = 0;
            for _ in 0..looks {
                cpu += step;
                if trims.is_due(cpu, LARGE) {
                    trims.gave_back(cpu, gives);
                    made += 1;
                }
            }
            made
        };
        let (calm, busy) = (Duration::from_millis(200), Duration::from_secs(8));
        assert!((10..=14).contains(&count(120, calm, 0)), "ten minutes");
        assert!(count(24, calm, WORTH_BYTES) >= 11);
        assert_eq!(count(120, busy, WORTH_BYTES), 2);
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn a_trim_gives_back_what_lies_between_buffers_in_use() {
        const COUNT: usize = 64 << 10;
        let buffers: Vec<Vec<u8>> = (0..COUNT).map(|_| vec![7; 1024]).collect();
        let held = resident_bytes();
        // Every hundredth buffer stays, so the heap cannot shrink by itself.
        let kept: Vec<Vec<u8>> = buffers.into_iter().step_by(100).collect();
        trim();
        let left = resident_bytes();
        assert!(left + (40 << 20) < held, "{left} of {held} bytes are left with {} buffers", kept.len());
    }
}
