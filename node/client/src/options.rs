//! Which session is opened, and for how long its opening is waited for.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use node_session::{Incarnation, SessionId};
use objstore_files::SessionId as KeptId;

use crate::Clock;

/// The usual [`Options::patience`]: a store may be upgraded, and its machine restarted, meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Which session is opened.
#[derive(Clone)]
pub struct Options {
    /// The session's id, chosen at random; the same again after a restart of this process.
    pub session: SessionId,
    /// The process: higher after each restart.
    pub incarnation: Incarnation,
    /// Whether an earlier process opened the session.
    pub resumes: bool,
    /// The bucket; empty if a ticket names it.
    pub bucket: String,
    /// The directory of the bucket that becomes the root; empty for the whole bucket.
    pub prefix: String,
    /// Whether nothing will be changed.
    pub read_only: bool,
    /// The id under which this machine keeps the mount for a next process; `None`: the store's own id.
    pub kept: Option<KeptId>,
    /// The file for changes that are answered before the store has made them, which a next process of this machine hands in.
    /// `None`: each change is made by the store before it is answered.
    pub journal: Option<PathBuf>,
    /// How long the store may take to answer the opening.
    pub limit: Duration,
    /// How long the store may not be reached before the session is lost on this machine too: it may only be restarting.
    pub patience: Duration,
    /// The clock of this machine.
    pub clock: Clock,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &mut f.debug_struct("Options");
        shown.field("session", &self.session).field("incarnation", &self.incarnation).field("bucket", &self.bucket);
        shown.field("resumes", &self.resumes).field("read_only", &self.read_only).finish_non_exhaustive()
    }
}
