//! Files that are being closed: the next writer waits until they are.
//!
//! - close(2) returns before the kernel reports that a file was finally closed (RELEASE), and the program's next action
//!   can overtake that report. FLUSH, which reports the close of one descriptor, comes in time, and that is usually the
//!   last. So while a version is being written, a new writer waits until the handles that sent FLUSH are released.
//! - A handle that is not released within [`PATIENCE`] has another descriptor (dup(2), fork(2)) or a mapping: the
//!   version continues, and no writer waits for that handle again.
//! - All of it is in memory: the death of the process ends every open version (`writers`).

use super::session::{Session, Volume};

impl Volume {
    /// Records that a descriptor of a file open for writing is being closed, perhaps the last of `handle`. Called
    /// before close(2) returns; [`Volume::closed`] follows later.
    pub fn closing(&self, ino: u64, handle: u64) {
        let Session { core, bucket, mount, .. } = &*self.0;
        core.writers.closings.begin(*bucket, ino, *mount, handle);
    }

    /// Records that the handle was released, and [`Volume::close_writer`] called for it.
    pub fn closed(&self, ino: u64, handle: u64) {
        let Session { core, bucket, mount, .. } = &*self.0;
        core.writers.closings.end(*bucket, ino, *mount, handle);
    }

    /// Waits before another writer begins, so that a version whose writers have closed is complete.
    pub(super) fn wait_for_closing(&self, ino: u64) {
        let Session { core, bucket, .. } = &*self.0;
        if core.writers.is_begun(*bucket, ino) {
            core.writers.closings.wait(*bucket, ino);
        }
    }
}
