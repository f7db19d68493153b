//! Memory of mounts at rest: a thread that waits long for a request gives its buffer back.
//!
//! - A request is read into a buffer as large as the largest one, all of it in memory (see `session`). A thread that waits
//!   in read(2) holds its buffer. So that it need not wait in two calls for each request, it waits there, and is woken by a
//!   signal once it waited [`REST`]: all but the last of a mount's threads then leave, and the last waits without a buffer.
//! - The signal does nothing but end the call. It is sent to the thread by its number; one that has ended meanwhile, or
//!   has just taken a request, finds at most a call that it has to make again.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a thread waits with a buffer.
pub(super) const REST: Duration = Duration::from_secs(3);
/// From one look at the waiting threads to the next.
const LOOK: Duration = Duration::from_secs(1);

/// A thread that waits for requests.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Its number to the kernel.
    thread: AtomicI32,
    /// Since when it waits, in milliseconds since the first did; 0 while it does not.
    since: AtomicU64,
    asked: AtomicBool,
}

impl Waiter {
    /// This thread. It is not asked for anything if that cannot be done on this system.
    pub fn new() -> Arc<Self> {
        // SAFETY: the call takes nothing and gives a number.
        let thread = unsafe { libc::gettid() };
        let waiter = Self { thread: AtomicI32::new(thread), since: AtomicU64::new(0), asked: AtomicBool::new(false) };
        let waiter = Arc::new(waiter);
        if let Some(waiters) = waiters() {
            waiters.lock().push(Arc::downgrade(&waiter));
        }
        waiter
    }

    /// It begins to wait.
    pub fn begin(&self) {
        self.asked.store(false, Ordering::SeqCst);
        self.since.store(now().max(1), Ordering::SeqCst);
    }

    /// It waits no longer.
    pub fn end(&self) {
        self.since.store(0, Ordering::SeqCst);
    }

    /// Whether it waited long, and is to give its buffer back.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Asks it, if it waits long.
    fn look(&self, now: u64) {
        let since = self.since.load(Ordering::SeqCst);
        let rest = u64::try_from(REST.as_millis()).unwrap_or(u64::MAX);
        if since == 0 || now.saturating_sub(since) < rest {
            return;
        }
        self.asked.store(true, Ordering::SeqCst);
        let thread = self.thread.load(Ordering::SeqCst);
        // SAFETY: the calls take numbers. The signal has a handler that does nothing, and goes to a thread of this
        // process or, if there is none of this number any more, to nobody.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.end();
    }
}

/// One that nothing else uses.
fn signal() -> i32 {
    libc::SIGRTMIN() + 7
}

fn now() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// All waiting threads of this process, and one that looks at them; `None` if that could not be started.
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

/// Lets the signal end calls, and do nothing else.
fn handle_signal() -> bool {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an action of zeros is one without flags and mask; without SA_RESTART the call it meets ends. The handler
    // does nothing, which is safe in any thread at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) == 0
    }
}
