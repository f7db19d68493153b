//! Mounts that outlive this process: what is written down about each for the next one, and what the last one left.
//!
//! - A holder may keep mounts of several stores; each server takes those of its own, known by its data folder.
//! - What cannot be read, because another version wrote it, is left where it is, and its session goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuse::holder::{Custody, Held, Holder};
use objstore::name::BucketName;
use objstore::volume::{SessionId, VolumeOptions};
use serde::{Deserialize, Serialize};

use super::request::{Look, Origin, Request};
use crate::config::SocketPath;
use crate::failure::with_causes;
use crate::holder;

/// What the next process has to know. Fields that are added later need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    /// The data folder of the store.
    store: PathBuf,
    bucket: String,
    read_only: bool,
    prefix: String,
    account: Option<String>,
    origin: Origin,
    #[serde(default)]
    look: Look,
}

/// Where this server's mounts are kept.
pub struct Holding {
    /// The deposits.
    pub(super) custody: Arc<Custody>,
    store: PathBuf,
}

/// What a process before this one left.
#[derive(Default)]
pub struct Inheritance {
    mounts: Vec<Inherited>,
    /// Mounts of another version; perhaps this store's.
    unreadable: Vec<u64>,
}

/// A mount that a process before this one left.
pub(super) struct Inherited {
    pub held: Held,
    pub request: Request,
}

impl Holding {
    /// Asks the holder at `socket`, if there is one, for the mounts of the store in `data_dir`. Blocking.
    ///
    /// # Errors
    /// There is a holder, and it cannot be understood.
    pub fn find(socket: &SocketPath, data_dir: &Path) -> Result<(Self, Inheritance), String> {
        let text = |error: fuse::holder::Error| {
            let why = with_causes(&error);
            format!("{socket}: {why} (or do without its mounts, with --no-holder)")
        };
        let store = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
        let holder = holder::find(socket).map_err(text)?;
        let left = match &holder {
            Some(holder) => inheritance(holder, &store).map_err(text)?,
            None => Inheritance::default(),
        };
        let dial = socket.clone();
        let custody = Custody::new(holder, Box::new(move || holder::find_or_start(&dial)))
            .map_err(|error| format!("no thread for the holder: {error}"))?;
        Ok((Self { custody: Arc::new(custody), store }, left))
    }

    /// How to keep a mount.
    pub(super) fn keep(&self, session: SessionId, request: &Request) -> fuse::Keep {
        let description = Description {
            store: self.store.clone(),
            bucket: request.bucket.to_string(),
            read_only: request.read_only,
            prefix: request.prefix.clone(),
            account: request.account.clone(),
            origin: request.origin,
            look: request.look.clone(),
        };
        // A path that is no UTF-8 cannot be written down: then the mount is nobody's at the next start.
        let description = serde_json::to_vec(&description).unwrap_or_default();
        fuse::Keep { custody: self.custody.clone(), id: session.get(), description }
    }
}

/// What a holder keeps for a store. What is over already is withdrawn.
fn inheritance(holder: &Holder, store: &Path) -> Result<Inheritance, fuse::holder::Error> {
    let mut left = Inheritance::default();
    for deposit in holder.list()? {
        match read(deposit) {
            Ok((held, description)) if description.store == store => {
                if held.is_dead() {
                    tracing::info!(dir = %held.path().display(), "a mount was taken away while no server ran");
                    holder.withdraw(held.id())?;
                } else if let Some(request) = description.into_request() {
                    left.mounts.push(Inherited { held, request });
                }
            }
            Ok((held, description)) if !held.is_dead() && !description.store.exists() => {
                let (dir, was) = (held.path().display(), description.store.display());
                tracing::warn!(
                    %dir, %was,
                    "the holder keeps a mount of a store that is not where it was: programs inside wait. If it is this \
                     one, start the server with its data folder where that was; else end the mount with umount -f"
                );
            }
            Ok(_) => {}
            Err(id) => {
                tracing::error!(
                    id,
                    "the holder keeps a mount that this version cannot read: start the version it is of"
                );
                left.unreadable.push(id);
            }
        }
    }
    Ok(left)
}

/// A deposit as a mount; else its id.
fn read(deposit: fuse::holder::Deposit) -> Result<(Held, Description), u64> {
    let held = Held::read(deposit).map_err(|deposit| deposit.id)?;
    let description = serde_json::from_slice(held.description());
    match description {
        Ok(description) => Ok((held, description)),
        Err(_) => Err(held.id()),
    }
}

impl Description {
    fn into_request(self) -> Option<Request> {
        let bucket: BucketName = self.bucket.parse().ok()?;
        let Self { read_only, prefix, account, origin, look, .. } = self;
        Some(Request { bucket, read_only, prefix, look, account, origin })
    }
}

impl Inheritance {
    /// The sessions that go on.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionId> {
        let mounts = self.mounts.iter().map(|inherited| inherited.held.id());
        mounts.chain(self.unreadable.iter().copied()).filter_map(SessionId::new).collect()
    }

    pub(super) fn into_mounts(self) -> Vec<Inherited> {
        self.mounts
    }
}

impl Request {
    /// How its volume is opened; `session` with a holder, and whether another process began it.
    pub(super) fn volume(&self, session: Option<SessionId>, inherited: bool) -> VolumeOptions {
        let (prefix, account) = (self.prefix.clone(), self.account.clone());
        VolumeOptions { read_only: self.read_only, prefix, account, session, inherited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_older_and_newer_versions_are_read() {
        let text =
            r#"{"store":"/s","bucket":"b-1","read_only":true,"prefix":"p","account":null,"origin":"Csi","new":1}"#;
        let description: Description = serde_json::from_str(text).expect("fields may be missing or unknown");
        let again: Description =
            serde_json::from_slice(&serde_json::to_vec(&description).expect("written")).expect("read");
        assert_eq!(again, description);
        let request = description.into_request().expect("a bucket's name");
        assert_eq!((request.bucket.as_str(), request.read_only, request.origin), ("b-1", true, Origin::Csi));
        assert_eq!(request.look, Look::default());
    }
}
