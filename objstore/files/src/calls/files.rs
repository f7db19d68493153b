//! A session's files, with a method for each operation.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use objstore_base::error::{Error, Result};

use super::link::LinkStats;
use super::op::Op;
use super::reply::{Answer, Reply};
use super::service::{About, FileService, SessionStanding, Trips};
use crate::changes::Changes;
use crate::context::{Caller, Context, RequestId};
use crate::local::LocalFiles;

/// A session of a mount. Cheap to clone; dropping the last clone drops the service.
#[derive(Clone)]
pub struct FileSession {
    service: Arc<dyn FileService>,
    about: About,
}

impl FileSession {
    /// The session that `service` serves.
    pub fn new(service: impl FileService + 'static) -> Self {
        Self { about: service.about(), service: Arc::new(service) }
    }

    /// What stays the same while the session is open.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The number of this process among those that served the session: see [`FileService::process`].
    pub fn process(&self) -> u32 {
        self.service.process()
    }

    /// The calls and trips of each operation: see [`FileService::trips`].
    pub fn trips(&self) -> Vec<Trips> {
        self.service.trips()
    }

    /// How the session stands: see [`FileService::standing`].
    pub fn standing(&self) -> SessionStanding {
        self.service.standing()
    }

    /// The connection to the store, if that is on another machine: see [`FileService::link`].
    pub fn link(&self) -> Option<LinkStats> {
        self.service.link()
    }

    /// The files for one request of the kernel.
    pub fn serving(&self, caller: Caller, request: RequestId) -> Files<'_> {
        self.files(Some(caller), Some(request))
    }

    /// The files for the mount itself, which acts for no request.
    pub fn own(&self) -> Files<'_> {
        self.files(None, None)
    }

    fn files(&self, caller: Option<Caller>, request: Option<RequestId>) -> Files<'_> {
        let context = Context { session: self.about.number, caller, request };
        Files { service: &*self.service, context, recorded: Cell::new(false) }
    }

    /// Executes an operation that is given as a value, as a network server does: see [`FileService::call`].
    ///
    /// # Errors
    /// Those of the operation.
    pub fn execute(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        self.service.call(context, op, data)
    }

    /// The kernel has the reply to a request for which an outcome was recorded: see [`FileService::answered`].
    pub fn answered(&self, request: RequestId) {
        self.service.answered(request);
    }

    /// The error of a change that was answered before it failed: see [`FileService::unreported`].
    ///
    /// # Errors
    /// That error.
    pub fn unreported(&self, ino: u64) -> Result<()> {
        self.service.unreported(ino)
    }

    /// The changes by other clients: see [`FileService::changes`].
    pub fn changes(&self) -> Box<dyn Changes> {
        self.service.changes()
    }

    /// Ends the changes.
    pub fn close_changes(&self) {
        self.service.close_changes();
    }

    /// Ends the session because the kernel mount is gone.
    pub fn end(&self) {
        self.service.end();
    }

    /// How long what is answered now may be served from caches: see [`FileService::cacheable`].
    pub fn cacheable(&self) -> Option<Duration> {
        self.service.cacheable()
    }

    /// Whether the store keeps file locks: see [`FileService::keeps_locks`].
    pub fn keeps_locks(&self) -> bool {
        self.service.keeps_locks()
    }

    /// The files as this machine has them; `None` if they lie elsewhere.
    pub fn local(&self) -> Option<&dyn LocalFiles> {
        self.service.local()
    }
}

impl fmt::Debug for FileSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSession").field("about", &self.about).finish_non_exhaustive()
    }
}

/// The files of a session for one request: a method for each operation.
pub struct Files<'a> {
    service: &'a dyn FileService,
    context: Context,
    recorded: Cell<bool>,
}

impl Files<'_> {
    /// The request, if the service recorded an outcome for it: [`FileSession::answered`] has to follow the reply.
    pub fn recorded(&self) -> Option<RequestId> {
        self.context.request.filter(|_| self.recorded.get())
    }

    /// Executes an operation that returns a `T`.
    pub(crate) fn call<T: TryFrom<Reply, Error = Reply>>(&self, op: Op<'_>, data: &[u8]) -> Result<T> {
        let name = op.name();
        let answer = self.service.call(&self.context, op, data)?;
        self.recorded.set(self.recorded.get() || answer.recorded);
        T::try_from(answer.reply).map_err(|_| {
            let why = format!("the service answered {name} with the value of another operation");
            Error::Indeterminate { why }
        })
    }
}
