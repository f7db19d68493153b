//! Where the files of mounts come from: the store of this process, or stores on other machines.

use objstore::Store;
use objstore::volume::SessionId;
use objstore_files::FileSession;

use super::Error;
use super::remote::Node;
use super::request::Request;

/// What opens the sessions of mounts.
pub enum Source {
    /// The store of this process.
    Store(Store),
    /// Stores on other machines: this process has none.
    Node(Node),
}

impl Source {
    /// The id under which a new mount is deposited with the holder.
    pub(super) fn new_session(&self, request: &Request) -> Option<SessionId> {
        match (self, &request.remote) {
            (_, Some(remote)) => remote.id(),
            (Self::Store(store), None) => Some(store.new_session()),
            (Self::Node(_), None) => None,
        }
    }

    /// Opens the session of a mount. `session` is its id, if it outlives this process; `inherited`: another process had it.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn open(
        &self,
        request: &Request,
        session: Option<SessionId>,
        inherited: bool,
    ) -> Result<FileSession, Error> {
        match (self, &request.remote) {
            (Self::Store(store), None) => {
                Ok(store.open_volume(&request.bucket, request.volume(session, inherited))?.into())
            }
            (Self::Node(node), Some(remote)) => Ok(node.open(request, remote, inherited)?),
            (Self::Store(_), Some(_)) => Err(unusable(
                "this server mounts the buckets of its own store: `amphora mount --server` starts a process of its own",
            )),
            (Self::Node(_), None) => {
                Err(unusable("this process has no store: name one with --server HOST:PORT and --credentials FILE"))
            }
        }
    }

    /// Ends a session that an earlier process left and that is not served any more.
    pub(super) fn end(&self, session: SessionId) -> Result<(), Error> {
        match self {
            Self::Store(store) => Ok(store.end_session(session)?),
            // It ends with its lease.
            Self::Node(_) => Ok(()),
        }
    }

    /// The store of this process.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn store(&self) -> Result<&Store, Error> {
        match self {
            Self::Store(store) => Ok(store),
            Self::Node(_) => Err(unusable("this process has no store")),
        }
    }
}

fn unusable(why: &str) -> Error {
    Error::Store(objstore::Error::Unusable { why: why.to_owned() })
}
