//! Unmounting without a running server: mounts that a holder keeps, and dead mounts.

use std::path::Path;

use fuse::MountpointState;
use fuse::holder::{Held, Holder};

use super::directory::{clear_lost, mounted};
use super::holding::Description;
use super::records::Records;
use super::{Error, Origin, Unmounting};

/// Ends a mount that no server serves, and its record. `holders` are the holders that may keep it. Blocking.
///
/// # Errors
/// If it is not such a mount, a server serves it, Kubernetes staged it, programs use it, or the system refuses.
pub fn unmount_without_server(holders: &[Holder], dir: &Path, how: Unmounting) -> Result<(), Error> {
    let dir = &mounted(dir)?;
    let failed = |source| Error::Holder { source };
    for holder in holders {
        for deposit in holder.list().map_err(failed)? {
            let Ok(held) = Held::read(deposit) else { continue };
            if held.path() == dir && !held.is_dead() {
                end(&held, dir, how)?;
                return holder.withdraw(held.id()).map_err(failed);
            }
        }
    }
    if clear_lost(dir, how)? { Ok(()) } else { Err(Error::NotMounted { dir: dir.clone() }) }
}

fn end(held: &Held, dir: &Path, how: Unmounting) -> Result<(), Error> {
    // A holder may keep mounts of several stores, and another store's server may be running.
    if fuse::mountpoint_state(dir) == MountpointState::Amphora {
        return Err(Error::Served { dir: dir.to_owned() });
    }
    let description: Option<Description> = serde_json::from_slice(held.description()).ok();
    if description.as_ref().is_some_and(|description| description.origin == Origin::Csi) {
        return Err(Error::Staged { dir: dir.to_owned() });
    }
    match how {
        Unmounting::IfIdle => held.abandon_idle()?,
        Unmounting::Lazily => held.abandon()?,
    }
    if let Some(store) = description.map(|description| description.store).filter(|store| store.is_dir()) {
        Records::open(&store)?.remove(dir);
    }
    Ok(())
}
