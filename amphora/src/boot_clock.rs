//! The clock of sessions with other machines: `CLOCK_BOOTTIME`, which runs while the machine is suspended.

use std::sync::Arc;
use std::time::Duration;

use node_session::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The clock, as the session crates take it.
pub(crate) fn clock() -> Arc<dyn Fn() -> Moment + Send + Sync> {
    Arc::new(|| {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        Moment::after_start(Duration::new(seconds, nanos))
    })
}
