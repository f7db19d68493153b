//! `mount -o remount`: makes a mount read-only or writable.
//!
//! - The kernel enforces it, so a remount takes effect at once, even one that bypasses this server
//!   (`mount -i -o remount,rw`). Changes that the store refuses, because of a read-only grant, a snapshot or CSI's
//!   request, stay refused even if the kernel allows them.
//! - All other options stay; repeating them unchanged, as fstab does, is allowed.

use std::path::Path;

use super::directory::mounted;
use super::{Error, Look, Origin, Table};

/// The requested change; unset fields stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct Remount {
    /// Whether changes are refused.
    pub read_only: bool,
    /// The user that the mount is expected to show.
    pub uid: Option<u32>,
    /// The group that the mount is expected to show.
    pub gid: Option<u32>,
    /// The expected permission bits to hide.
    pub umask: Option<u32>,
    /// The expected readahead.
    pub readahead_bytes: Option<u32>,
    /// The expected page cache setting.
    pub uncached: Option<bool>,
    /// The expected setting for programs.
    pub no_exec: Option<bool>,
    /// The expected keeper of file locks.
    pub node_locks: Option<bool>,
    /// The expected folder that is shown.
    pub prefix: Option<String>,
}

impl Table {
    /// Makes a mount of the administrator's read-only or writable. Blocking.
    ///
    /// # Errors
    /// If it is not such a mount, cannot accept changes, has files open for writing, or was mounted with other options.
    pub fn remount(&self, dir: &Path, remount: &Remount) -> Result<(), Error> {
        let dir = mounted(dir)?;
        let (slot, mut entry) = self.take(&dir)?;
        let done = match entry.request.origin {
            Origin::Csi => Err(Error::NotMounted { dir: dir.clone() }),
            Origin::Admin => remount.check(&entry.request.look, &entry.request.prefix, &dir).and_then(|()| {
                if !remount.read_only && entry.mount.is_fixed_read_only() {
                    return Err(Error::FixedReadOnly { dir: dir.clone() });
                }
                Ok(entry.mount.remount(remount.read_only)?)
            }),
        };
        if done.is_ok() {
            entry.request.read_only = remount.read_only;
            tracing::info!(dir = %dir.display(), read_only = remount.read_only, "remounted");
        }
        let recorded = done.and_then(|()| self.record(&dir, &entry.request, &entry.mount));
        slot.fill(entry);
        recorded
    }
}

impl Remount {
    /// Refuses options that differ from those of the mount.
    fn check(&self, look: &Look, prefix: &str, dir: &Path) -> Result<(), Error> {
        let Self { uid, gid, umask, readahead_bytes, uncached, no_exec, node_locks, prefix: folder, read_only: _ } =
            self;
        let differs = [
            ("uid", uid.is_some_and(|uid| look.uid != Some(uid))),
            ("gid", gid.is_some_and(|gid| look.gid != Some(gid))),
            ("umask", umask.is_some_and(|umask| look.umask != umask)),
            ("readahead", readahead_bytes.is_some_and(|bytes| look.readahead_bytes != Some(bytes))),
            ("cache", uncached.is_some_and(|uncached| look.uncached != uncached)),
            ("exec or noexec", no_exec.is_some_and(|no_exec| look.no_exec != no_exec)),
            ("locks", node_locks.is_some_and(|node_locks| look.node_locks != node_locks)),
            ("prefix", folder.as_ref().is_some_and(|folder| folder != prefix)),
        ];
        match differs.into_iter().find(|(_, differs)| *differs) {
            Some((option, _)) => Err(Error::Fixed { dir: dir.to_owned(), option }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_stay_may_be_named_again_and_others_are_refused_by_name() {
        let look = Look { uid: Some(5), umask: 0o27, ..Look::default() };
        let same = Remount { uid: Some(5), umask: Some(0o27), prefix: Some("p".into()), ..Remount::default() };
        same.check(&look, "p", Path::new("/m")).expect("as it is");
        Remount::default().check(&look, "p", Path::new("/m")).expect("nothing is named");
        let other = Remount { uid: Some(6), ..same.clone() };
        let text = other.check(&look, "p", Path::new("/m")).expect_err("another").to_string();
        assert!(text.contains("uid") && text.contains("/m"), "{text}");
        assert!(same.check(&look, "", Path::new("/m")).is_err());
        let locks = Remount { node_locks: Some(true), ..same.clone() };
        let text = locks.check(&look, "p", Path::new("/m")).expect_err("it is agreed with the kernel").to_string();
        assert!(text.contains("locks"), "{text}");
    }
}
