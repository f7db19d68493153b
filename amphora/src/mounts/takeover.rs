//! Takeover of mounts that an earlier process left.
//!
//! - Each mount is answered afterwards: it is served; or, if the store does not know it, ended; or, if neither is
//!   possible, its requests are answered with EIO, and `amphora status` reports why. No program waits for a server that
//!   is there.
//! - A revoked grant does not end a mount: its requests are refused until there is a grant again.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use fuse::Refusal;
use fuse::holder::Held;
use objstore::volume::SessionId;

use super::holding::Inherited;
use super::request::{Origin, Request};
use super::{Entry, Error, Holding, Inheritance, Slot, Table};

/// A mount whose programs get EIO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedMount {
    /// The bucket it shows, if known.
    pub bucket: Option<String>,
    /// Its mount point, if known.
    pub dir: Option<PathBuf>,
    /// Why it is not served.
    pub why: String,
}

pub(super) struct Unserved {
    told: UnservedMount,
    /// Dropped with the table, when the process ends.
    session: fuse::Unserved,
}

impl Unserved {
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }
}

impl Table {
    /// Takes over the mounts of an earlier process. Blocking.
    pub fn adopt(&self, inheritance: Inheritance) {
        let Some(holding) = &self.holding else { return };
        let (mounts, unreadable) = inheritance.into_parts();
        // At the same time: the store of one mount may be out of reach, and others are not to wait for it.
        std::thread::scope(|threads| {
            for inherited in mounts {
                threads.spawn(|| self.take_over_or_refuse(holding, inherited));
            }
        });
        for deposit in unreadable {
            let why = "this version cannot read its record: start the version that made it";
            self.refuse(holding, deposit.id, None, why.to_owned(), Refusal::of(&deposit));
        }
    }

    /// The mounts whose requests are answered with errors.
    #[must_use]
    pub fn unserved(&self) -> Vec<UnservedMount> {
        let mut state = self.state();
        state.drop_ended();
        state.unserved.iter().map(|unserved| unserved.told.clone()).collect()
    }

    fn take_over_or_refuse(&self, holding: &Holding, inherited: Inherited) {
        let Inherited { held, request } = inherited;
        let (id, bucket, dir) = (held.id(), request.bucket.to_string(), held.path().to_owned());
        // Prepared while the deposit is available: a takeover consumes it.
        let refusal = held.refusal();
        if let Err(error) = self.take_over(holding, held, request) {
            let why = crate::failure::with_causes(&error);
            tracing::error!(id, bucket, dir = %dir.display(), why, "cannot take over a mount");
            self.refuse(holding, id, Some(bucket), why, refusal);
        }
    }

    fn take_over(&self, holding: &Holding, held: Held, request: Request) -> Result<(), Error> {
        let session = SessionId::new(held.id());
        let files = match self.source.open(&request, session, true) {
            Err(Error::Store(objstore::Error::NotFound { .. } | objstore::Error::Invalid { .. })) => {
                return self.give_up(holding, &held);
            }
            opened => opened?,
        };
        let options = request.options(files.about().read_only);
        let mount = fuse::take_over(files, held, options, holding.fd_holder.clone())?;
        let dir = mount.path().to_owned();
        tracing::info!(bucket = %request.bucket, dir = %dir.display(), "taken over");
        // A process that ends with its mounts need not wait for a first one.
        self.is_used.store(true, Ordering::Release);
        if mount.is_attached() {
            if let Err(error) = self.record(&dir, &request, &mount) {
                let error = crate::failure::with_causes(&error);
                tracing::error!(dir = %dir.display(), error, "a mount with --keep has no record; it is not made again after a crash");
            }
            self.state().slots.insert(dir.clone(), Slot::Mounted(Box::new(Entry { dir, request, mount })));
        } else {
            if request.origin == Origin::Admin && !request.keep {
                self.records.remove(&dir);
            }
            self.state().linger(mount);
        }
        Ok(())
    }

    /// Ends a mount that the store does not know, perhaps because the store was restored from an older copy.
    fn give_up(&self, holding: &Holding, held: &Held) -> Result<(), Error> {
        let dir = held.path();
        tracing::warn!(dir = %dir.display(), "the store has no session for a mount that names it; the mount is ended");
        if let Some(session) = SessionId::new(held.id()) {
            self.source.end(session)?;
        }
        held.abandon()?;
        holding.withdraw(held.id()).map_err(|source| Error::Holder { source })?;
        if self.records.at(dir).is_some() {
            let why = "the store has no session for it: the store was restored to an earlier state, or too much changed meanwhile";
            self.state().lost.insert(dir.to_owned(), why.to_owned());
        }
        Ok(())
    }

    /// Answers the requests of a mount with errors from now on. If that is not possible either, the mount is ended.
    fn refuse(
        &self,
        holding: &Holding,
        id: u64,
        bucket: Option<String>,
        why: String,
        refusal: std::io::Result<Refusal>,
    ) {
        let fd_holder = holding.fd_holder.clone();
        let end = move || {
            if let Err(error) = fd_holder.withdraw(id) {
                tracing::debug!(%error, "the holder notices by itself that a mount is over");
            }
        };
        match refusal.and_then(|refusal| refusal.begin(end)) {
            Ok(session) => {
                let dir = session.path().map(Path::to_owned);
                let told = UnservedMount { bucket, dir, why };
                self.state().unserved.push(Unserved { told, session });
            }
            Err(error) => {
                // When no descriptor of its device is left, the kernel ends a mount (ENOTCONN).
                tracing::error!(id, %error, "a mount is ended because its requests could not be answered");
                if let Err(error) = holding.withdraw(id) {
                    let error = crate::failure::with_causes(&error);
                    tracing::error!(id, error, "cannot ask the fd holder to release a mount");
                }
            }
        }
    }

    /// Whether the mount at a directory is one whose requests are answered with errors.
    pub(super) fn is_unserved(&self, dir: &Path) -> bool {
        self.state().unserved.iter().any(|unserved| !unserved.is_over() && unserved.told.dir.as_deref() == Some(dir))
    }
}
