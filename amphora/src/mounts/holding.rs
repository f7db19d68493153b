//! Persistent mounts: the description of each that is deposited with the fd holder, and those that an earlier process
//! left there.
//!
//! - A holder may keep mounts of several stores; each server takes its own, recognized by the data folder.
//! - A description of an unknown version stays with the holder, and its session goes on. If it belongs to this store,
//!   its programs get EIO meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuse::holder::{Deposit, FdHolder, Held, Holder};
use objstore::name::BucketName;
use objstore::volume::{SessionId, VolumeOptions};
use serde::{Deserialize, Serialize};

use super::remote::Remote;
use super::request::{Look, Origin, Request};
use crate::config::SocketPath;
use crate::failure::with_causes;
use crate::holder::{self, Missing};

/// What the next process needs to know about a mount. New fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    /// The data folder of the store.
    pub store: PathBuf,
    bucket: String,
    read_only: bool,
    prefix: String,
    account: Option<String>,
    pub origin: Origin,
    #[serde(default)]
    look: Look,
    /// Absent in descriptions of older versions, where `read_only` stands for both.
    #[serde(default)]
    fixed_read_only: Option<bool>,
    #[serde(default)]
    access_key_id: Option<String>,
    #[serde(default)]
    keep: bool,
    #[serde(default)]
    remote: Option<Remote>,
}

/// The deposits of this server.
pub struct Holding {
    /// The connection to the holder.
    pub(super) fd_holder: Arc<FdHolder>,
    store: PathBuf,
}

/// Mounts that an earlier process left.
#[derive(Default)]
pub struct Inheritance {
    mounts: Vec<Inherited>,
    /// Mounts of this store that this version cannot read.
    unreadable: Vec<Deposit>,
}

/// A mount that an earlier process left.
pub(super) struct Inherited {
    pub held: Held,
    pub request: Request,
}

impl Holding {
    /// Asks the holder at `socket`, if there is one, for the mounts of the store in `data_dir`. `missing` says what to do
    /// later where none answers. Blocking.
    ///
    /// # Errors
    /// If there is a holder without a common protocol version.
    pub fn find(socket: &SocketPath, missing: Missing, data_dir: &Path) -> Result<(Self, Inheritance), String> {
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
        let fd_holder = FdHolder::new(holder, Box::new(move || holder::require(&dial, &missing)))
            .map_err(|error| format!("no thread for the holder: {error}"))?;
        Ok((Self { fd_holder: Arc::new(fd_holder), store }, left))
    }

    /// Ends the mounts that the holder at `socket` keeps for the store in `data_dir`, for a server that runs without a
    /// holder: no one would serve them. Blocking.
    pub fn end_left(socket: &SocketPath, data_dir: &Path) {
        let store = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
        let Ok(Some(holder)) = holder::find(socket) else { return };
        let Ok(left) = inheritance(&holder, &store) else { return };
        for Inherited { held, .. } in left.mounts {
            tracing::warn!(dir = %held.path().display(), "a mount is ended because the server runs without its fd holder");
            let ended = held.abandon().map_err(|error| with_causes(&error));
            let ended = ended.and_then(|()| holder.withdraw(held.id()).map_err(|error| with_causes(&error)));
            if let Err(error) = ended {
                tracing::error!(dir = %held.path().display(), error, "a mount stays without a server; programs in it wait");
            }
        }
    }

    /// How to deposit a mount. `None` if the path of the store is not UTF-8: a description without it could not be
    /// recognized.
    pub(super) fn keep(&self, session: SessionId, request: &Request) -> Option<fuse::Keep> {
        let description = Description {
            store: self.store.clone(),
            bucket: request.bucket.to_string(),
            read_only: request.read_only,
            prefix: request.prefix.clone(),
            account: request.account.clone(),
            origin: request.origin,
            look: request.look.clone(),
            fixed_read_only: Some(request.fixed_read_only),
            access_key_id: request.access_key_id.clone(),
            keep: request.keep,
            remote: request.remote.clone(),
        };
        let description = serde_json::to_vec(&description).ok()?;
        Some(fuse::Keep { fd_holder: self.fd_holder.clone(), id: session.get(), description })
    }

    /// Withdraws the deposit of an ended mount.
    pub(super) fn withdraw(&self, id: u64) -> Result<(), fuse::holder::Error> {
        self.fd_holder.withdraw(id)
    }
}

/// The directories of the mounts that the holder at `socket`, if there is one, keeps for the store in `data_dir`. Blocking.
///
/// # Errors
/// If there is a holder that cannot be asked.
pub fn kept(socket: &SocketPath, data_dir: &Path) -> Result<Vec<PathBuf>, String> {
    let text = |error: fuse::holder::Error| format!("{socket}: {}", with_causes(&error));
    let Some(holder) = holder::find(socket).map_err(text)? else { return Ok(Vec::new()) };
    let store = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let left = inheritance(&holder, &store).map_err(text)?;
    let mounts = left.mounts.iter().map(|inherited| inherited.held.path().to_owned());
    let unreadable = left.unreadable.iter().map(|deposit| PathBuf::from(format!("(number {})", deposit.id)));
    Ok(mounts.chain(unreadable).collect())
}

/// The mounts that a holder keeps for a store. Deposits of ended mounts are withdrawn.
fn inheritance(holder: &Holder, store: &Path) -> Result<Inheritance, fuse::holder::Error> {
    let mut left = Inheritance::default();
    for deposit in holder.list()? {
        match read(deposit) {
            Ok((held, description)) if description.store == store => {
                if held.is_dead() {
                    tracing::info!(dir = %held.path().display(), "a mount was unmounted while no server ran");
                    holder.withdraw(held.id())?;
                } else {
                    match description.into_request() {
                        Some(request) => left.mounts.push(Inherited { held, request }),
                        None => left.unreadable.push(held.into_deposit()),
                    }
                }
            }
            Ok((held, description)) if !held.is_dead() && !description.store.exists() => {
                let (dir, was) = (held.path().display(), description.store.display());
                tracing::warn!(
                    %dir, %was,
                    "the holder keeps a mount of a store whose data folder has moved: programs inside wait. If it is this \
                    store, start the server with the data folder at its old path; otherwise end the mount with umount -f"
                );
            }
            Ok(_) => {}
            Err(deposit) if deposit.is_dead() => {}
            Err(deposit) if mentions(&deposit.record, store) => {
                let id = deposit.id;
                tracing::error!(
                    id,
                    "the holder keeps a mount of this store with a record that this version cannot read: its programs get \
                    EIO until the version that made it is started"
                );
                left.unreadable.push(deposit);
            }
            Err(deposit) => {
                tracing::error!(
                    id = deposit.id,
                    "the fd holder keeps a mount with a record that this version cannot read, perhaps of another store: start the version that made it"
                );
            }
        }
    }
    Ok(left)
}

/// Reads a deposit as a mount, or returns the deposit.
fn read(deposit: Deposit) -> Result<(Held, Description), Deposit> {
    let held = Held::read(deposit)?;
    match serde_json::from_slice(held.description()) {
        Ok(description) => Ok((held, description)),
        Err(_) => Err(held.into_deposit()),
    }
}

/// Whether a record of any version belongs to this store: only then may its requests be refused here, because another
/// server may serve it. Every version writes the store's path as JSON.
fn mentions(record: &[u8], store: &Path) -> bool {
    let Ok(path) = serde_json::to_string(store) else { return false };
    let written = format!("\"store\":{path}").into_bytes();
    record.windows(written.len()).any(|window| window == written)
}

impl Description {
    fn into_request(self) -> Option<Request> {
        let bucket: BucketName = self.bucket.parse().ok()?;
        let Self { read_only, prefix, look, account, access_key_id, origin, keep, remote, .. } = self;
        let fixed_read_only = self.fixed_read_only.unwrap_or(read_only);
        Some(Request { bucket, read_only, fixed_read_only, prefix, look, account, access_key_id, origin, keep, remote })
    }
}

impl Inheritance {
    /// The sessions of the mounts.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionId> {
        let mounts = self.mounts.iter().map(|inherited| inherited.held.id());
        let unreadable = self.unreadable.iter().map(|deposit| deposit.id);
        mounts.chain(unreadable).filter_map(SessionId::new).collect()
    }

    /// The mounts to take over, and those that cannot be read.
    pub(super) fn into_parts(self) -> (Vec<Inherited>, Vec<Deposit>) {
        (self.mounts, self.unreadable)
    }
}

impl Request {
    /// How to open the mount's volume: `session` if a holder keeps it, and whether an earlier process began it.
    pub(super) fn volume(&self, session: Option<SessionId>, inherited: bool) -> VolumeOptions {
        let (prefix, account) = (self.prefix.clone(), self.account.clone());
        VolumeOptions { read_only: self.fixed_read_only, prefix, account, session, inherited }
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
        assert!(request.fixed_read_only && !request.keep, "what older versions mounted read-only stays so");
    }

    #[test]
    fn an_unreadable_record_is_known_by_the_path_of_its_store() {
        let record = [&[9, 9, 0xff][..], br#"{"version":9,"store":"/data/a \"b\"","more":1}"#, &[0]].concat();
        assert!(mentions(&record, Path::new(r#"/data/a "b""#)));
        for other in ["/data/a", "/data", r#"/data/a "b"/c"#, "/other"] {
            assert!(!mentions(&record, Path::new(other)), "{other}");
        }
    }
}
