//! What a new name leaves that the node answers under a lease of the volume: the attributes of the inode and of its directory,
//! as the store will show them.
//!
//! A file, directory or symbolic link is made here only if nothing but its directory's attributes decides about it: the name is
//! known to be absent, the directory has no default ACL and no flag that forbids a new name, and its path is known to be
//! far from the longest key.

use objstore_base::clock::Timestamp;
use objstore_files::{Attr, Kind, Make, NameOp, Op, Ownership, ROOT_INO, Traits, WhichAcl};

use super::state::{Name, State};
use super::{Cache, is_name};

const SETGID: u32 = 0o2000;
const PERMISSIONS: u32 = 0o777;
const MODE: u32 = 0o7777;
/// The longest path that is made here, in bytes. A key may be longer.
const PATH_BYTES: usize = 700;
/// The longest target of a symbolic link that is made here.
const TARGET_BYTES: usize = 1024;
/// The most directories above a new name.
const DEPTH: usize = 64;
const BLOCK_BYTES: u64 = 512;

/// A new name.
struct New<'a> {
    parent: u64,
    name: &'a str,
    kind: Kind,
    size: u64,
    owner: Ownership,
}

impl Cache {
    /// The attributes of a new inode with this number, if the node may make it now. It may be made at the time `at`, which
    /// receives the directory's last one. If `keep` has kept the change, it is served from now on.
    pub(crate) fn make(
        &self,
        op: &Op<'_>,
        ino: u64,
        at: impl FnOnce(Timestamp) -> Timestamp,
        keep: impl FnOnce(&Attr) -> bool,
    ) -> Option<Attr> {
        let state = &mut *self.state.lock();
        let new = new(op)?;
        let above = state.attr(new.parent).filter(|above| state.follows && may_gain(state, above, &new))?;
        let at = at(above.ctime);
        let made = new.attr(ino, &above, at);
        if !keep(&made) {
            return None;
        }
        let is_directory = made.kind == Kind::Directory;
        let nlink = above.nlink + u32::from(is_directory);
        state.replace_attr(Attr { nlink, mtime: at, ctime: at, ..above });
        // What is on its way may be older.
        state.drop_name(new.parent, new.name);
        state.replace_attr(made);
        let none = Traits { no_capabilities: true, no_protection: true, no_access_acl: true, no_default_acl: true };
        state.set_traits(ino, none);
        state.set_name(new.parent, new.name, Name::Leads(ino));
        if is_directory {
            state.set_place(ino, new.parent, new.name);
            state.set_whole(ino, &[]);
        }
        self.give_back(state);
        Some(made)
    }

    /// A name that was made here is not at the store.
    pub(crate) fn unmade(&self, parent: u64, name: &str) {
        let state = &mut *self.state.lock();
        state.drop_name(parent, name);
        state.drop_attr(parent);
        self.give_back(state);
    }
}

fn new<'a>(op: &'a Op<'_>) -> Option<New<'a>> {
    match op {
        Op::Names(NameOp::Create { parent, name, owner }) => {
            Some(New { parent: *parent, name, kind: Kind::File, size: 0, owner: *owner })
        }
        Op::Names(NameOp::Make { parent, name, what, owner }) => {
            let (kind, size) = match what {
                Make::File => (Kind::File, 0),
                Make::Directory => (Kind::Directory, 0),
                Make::Symlink(target) if (1..=TARGET_BYTES).contains(&target.len()) => {
                    (Kind::Symlink, target.len() as u64)
                }
                Make::Symlink(_) | Make::Special(..) => return None,
            };
            Some(New { parent: *parent, name, kind, size, owner: *owner })
        }
        _ => None,
    }
}

fn may_gain(state: &State, above: &Attr, new: &New<'_>) -> bool {
    let is_directory = above.kind == Kind::Directory && above.nlink > 0;
    let is_plain = state.has_no_acl(above.ino, WhichAcl::Default) && state.is_unprotected(above.ino);
    let is_absent = is_name(new.name) && state.name(new.parent, new.name) == Name::Absent;
    is_directory && is_plain && is_absent && path_bytes(state, above.ino) + new.name.len() <= PATH_BYTES
}

/// The length of a directory's path, with a slash behind it; more than any if it is not known.
fn path_bytes(state: &State, directory: u64) -> usize {
    let (mut at, mut bytes) = (directory, 0);
    for _ in 0..DEPTH {
        if at == ROOT_INO {
            return bytes;
        }
        let Some((parent, length)) = state.above(at) else { break };
        (at, bytes) = (parent, bytes + length + 1);
    }
    usize::MAX - PATH_BYTES
}

impl New<'_> {
    fn attr(&self, ino: u64, above: &Attr, at: Timestamp) -> Attr {
        let Self { kind, size, owner: Ownership { uid, gid, mode, umask }, .. } = *self;
        let inherits = above.mode & SETGID != 0;
        let masked = if kind == Kind::Symlink { mode & MODE } else { mode & MODE & !(umask & PERMISSIONS) };
        let mode = if inherits && kind == Kind::Directory { masked | SETGID } else { masked };
        Attr {
            ino,
            kind,
            mode,
            uid,
            gid: if inherits { above.gid } else { gid },
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            size,
            blocks: size.div_ceil(BLOCK_BYTES),
            rdev: 0,
            atime: at,
            mtime: at,
            ctime: at,
            btime: at,
        }
    }
}
