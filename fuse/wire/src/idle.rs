//! Memory of idle mounts: a thread that waits long for a request releases its buffer.
//!
//! - A request is read into a buffer of the largest request's size, all of it resident (see `session`). A thread that
//!   waits in read(2) holds its buffer. Waiting elsewhere first would cost a second system call for each request, so
//!   the thread waits in read(2), and a signal wakes it after [`REST`]. All but the last thread of a mount then end,
//!   and the last one waits without a buffer.
//! - The signal only ends the system call. It goes to a thread by its number: a thread that has ended meanwhile, or has
//!   just taken a request, at most repeats one call.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a thread waits before it has to release its buffer.
pub(super) const REST: Duration = Duration::from_secs(3);
/// The interval at which the waiting threads are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A thread that waits for requests.
#[derive(Debug)]
pub(super) struct Waiter {
    /// The kernel's thread id.
    thread: AtomicI32,
    /// When the thread began to wait, in milliseconds since the first waiter was created; 0 while it does not wait.
    since: AtomicU64,
    asked: AtomicBool,
}

impl Waiter {
    /// Registers the calling thread. Where the system does not support the signal, the thread is never asked to release
    /// its buffer.
    pub fn new() -> Arc<Self> {
        // SAFETY: the call takes no argument and returns a number.
        let thread = unsafe { libc::gettid() };
        let waiter = Self { thread: AtomicI32::new(thread), since: AtomicU64::new(0), asked: AtomicBool::new(false) };
        let waiter = Arc::new(waiter);
        if let Some(waiters) = waiters() {
            waiters.lock().push(Arc::downgrade(&waiter));
        }
        waiter
    }

    /// Records that the thread begins to wait.
    pub fn begin(&self) {
        self.asked.store(false, Ordering::SeqCst);
        self.since.store(now().max(1), Ordering::SeqCst);
    }

    /// Records that the thread no longer waits.
    pub fn end(&self) {
        self.since.store(0, Ordering::SeqCst);
    }

    /// Whether the thread waited long and has to release its buffer.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Signals the thread if it has waited long.
    fn look(&self, now: u64) {
        let since = self.since.load(Ordering::SeqCst);
        let rest = u64::try_from(REST.as_millis()).unwrap_or(u64::MAX);
        if since == 0 || now.saturating_sub(since) < rest {
            return;
        }
        self.asked.store(true, Ordering::SeqCst);
        let thread = self.thread.load(Ordering::SeqCst);
        // SAFETY: the calls take numbers. The signal has a handler that does nothing. It reaches a thread of this
        // process only: if no thread has this number any more, the call fails.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.end();
    }
}

/// A real-time signal that no other part of the program uses.
pub(super) fn signal() -> i32 {
    libc::SIGRTMIN() + 7
}

fn now() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// All waiting threads of this process, looked at by one background thread; `None` if that thread could not be started.
fn waiters() -> Option<&'static Mutex<Vec<Weak<Waiter>>>> {
    static WAITERS: OnceLock<Option<Mutex<Vec<Weak<Waiter>>>>> = OnceLock::new();
    static WATCHED: OnceLock<bool> = OnceLock::new();
    let waiters = WAITERS.get_or_init(|| handle_signal().then(Mutex::default)).as_ref()?;
    let watch = || {
        let started = std::thread::Builder::new().name("fuse-idle".into()).spawn(move || {
            loop {
                std::thread::sleep(LOOK);
                look(&mut waiters.lock());
            }
        });
        started.is_ok()
    };
    WATCHED.get_or_init(watch).then_some(waiters)
}

fn look(waiters: &mut Vec<Weak<Waiter>>) {
    let now = now();
    waiters.retain(|waiter| waiter.upgrade().inspect(|waiter| waiter.look(now)).is_some());
}

/// Installs a handler that does nothing, so that the signal only interrupts system calls.
pub(super) fn handle_signal() -> bool {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an action of zeros has no flags and no mask; without SA_RESTART the interrupted call returns. The handler
    // does nothing, which is safe in any thread at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) == 0
    }
}
