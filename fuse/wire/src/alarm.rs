//! An alarm that ends a system call of the calling thread which might otherwise wait for ever.

use std::io;
use std::time::Duration;

use super::idle::{handle_signal, signal};

/// A timer that interrupts the calls of the thread that made it, again and again until it is dropped: so it also ends a
/// call that begins just after a signal.
pub(super) struct Alarm(libc::timer_t);

impl Alarm {
    /// Interrupts the calling thread after each `period`.
    ///
    /// # Errors
    /// The system's error.
    pub fn every(period: Duration) -> io::Result<Self> {
        if !handle_signal() {
            return Err(io::Error::last_os_error());
        }
        let nanos = libc::c_long::try_from(period.as_nanos()).unwrap_or(NANOS_MAX).min(NANOS_MAX);
        let time = libc::timespec { tv_sec: 0, tv_nsec: nanos };
        let times = libc::itimerspec { it_interval: time, it_value: time };
        let mut timer = std::ptr::null_mut();
        // SAFETY: an event of zeros is valid and is filled in for a signal to this thread, whose handler does nothing. The
        // kernel reads the event and the times, and writes the timer's id; all live through the calls.
        let set = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = libc::gettid();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut())
        };
        let alarm = Self(timer);
        if set == 0 { Ok(alarm) } else { Err(io::Error::last_os_error()) }
    }
}

/// The longest period: less than a second.
const NANOS_MAX: libc::c_long = 999_999_999;

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer was created by `every` and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_call_that_waits_is_ended() {
        let (reader, _writer) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let begun = Instant::now();
        let alarm = Alarm::every(Duration::from_millis(5)).unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Err(rustix::io::Errno::INTR));
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Err(rustix::io::Errno::INTR), "and the next one");
        assert!(begun.elapsed() < Duration::from_secs(10));
        drop(alarm);
    }
}
