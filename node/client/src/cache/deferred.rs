//! What a change leaves that the node answers under a lease of the volume: the attributes that the store will show.
//!
//! A change is answered here only if all of that is known: a plain file whose attributes are here, without capabilities,
//! setuid, setgid, flags, and for a new mode without an ACL. Of a directory other than the root only the attributes are
//! changed. Everything else is for the store to decide.

use objstore_base::clock::Timestamp;
use objstore_files::{Attr, AttributeOp, ContentOp, Kind, Op, ROOT_INO, SetAttr, WhichAcl};

use super::Cache;
use super::state::State;

/// The bits of a mode that a change of content may clear.
const PRIVILEGES: u32 = 0o6000;
/// The content of a smaller file lies in its record.
const INLINE_BYTES: u64 = 4096;
/// What is allocated at once to a larger one, and the unit of `blocks`.
const PAGE_BYTES: u64 = 4096;
const BLOCK_BYTES: u64 = 512;
/// Files beyond this are written by the store alone.
const SIZE_MAX: u64 = 1 << 40;

impl Cache {
    /// The attributes of a file after a change, if the node may answer it now. It may be made at the time `at`, which
    /// receives the file's last one. If `keep` has kept the change, the attributes are served from now on.
    pub(crate) fn defer(
        &self,
        op: &Op<'_>,
        len: usize,
        at: impl FnOnce(Timestamp) -> Timestamp,
        keep: impl FnOnce(&Attr) -> bool,
    ) -> Option<Attr> {
        let state = &mut *self.state.lock();
        let ino = target(op)?;
        let writes = matches!(op, Op::Content(_));
        let before = state.attr(ino).filter(|attr| state.follows && is_plain(state, attr, writes))?;
        let after = match op {
            Op::Content(ContentOp::Write { offset, .. }) => written(&before, *offset, len, at(before.ctime))?,
            Op::Attributes(AttributeOp::SetAttr { set, .. }) => {
                let keeps_acl = set.mode.is_none() || state.has_no_acl(ino, WhichAcl::Access);
                changed(&before, set, at).filter(|_| keeps_acl)?
            }
            _ => return None,
        };
        if !keep(&after) {
            return None;
        }
        state.replace_attr(after);
        Some(after)
    }

    /// The store has made the last change of a file that the node had answered, and these are its attributes. Whether the
    /// kernel was told others: those of the space that the file takes are not counted.
    pub(crate) fn made(&self, attr: Attr) -> bool {
        let state = &mut *self.state.lock();
        let Some(known) = state.attr(attr.ino) else { return false };
        if known == attr {
            return false;
        }
        state.replace_attr(attr);
        Attr { blocks: known.blocks, ..attr } != known
    }

    /// A change of a file failed that the node had answered.
    pub(crate) fn failed(&self, ino: u64) {
        let state = &mut *self.state.lock();
        state.drop_node(ino);
        self.give_back(state);
    }
}

/// The file that such a change concerns.
fn target(op: &Op<'_>) -> Option<u64> {
    match op {
        Op::Content(ContentOp::Write { ino, .. }) | Op::Attributes(AttributeOp::SetAttr { ino, .. }) => Some(*ino),
        _ => None,
    }
}

fn is_plain(state: &State, attr: &Attr, writes: bool) -> bool {
    let is_directory = attr.kind == Kind::Directory && attr.ino != ROOT_INO && attr.nlink > 0 && !writes;
    let is_simple = (attr.kind == Kind::File || is_directory) && attr.mode & PRIVILEGES == 0;
    is_simple && state.is_incapable(attr.ino) && state.is_unprotected(attr.ino)
}

fn written(before: &Attr, offset: u64, len: usize, at: Timestamp) -> Option<Attr> {
    let end = offset.checked_add(len as u64).filter(|end| len > 0 && *end <= SIZE_MAX)?;
    let size = before.size.max(end);
    let blocks = if size == before.size { before.blocks } else { blocks(size) };
    Some(Attr { size, blocks, mtime: at, ctime: at, ..*before })
}

fn blocks(size: u64) -> u64 {
    if size <= INLINE_BYTES {
        size.div_ceil(BLOCK_BYTES)
    } else {
        size.div_ceil(PAGE_BYTES) * (PAGE_BYTES / BLOCK_BYTES)
    }
}

fn changed(before: &Attr, set: &SetAttr, at: impl FnOnce(Timestamp) -> Timestamp) -> Option<Attr> {
    let SetAttr { mode, uid, gid, size, atime, mtime, .. } = *set;
    let is_empty = mode.is_none() && uid.is_none() && gid.is_none() && atime.is_none() && mtime.is_none();
    if is_empty || size.is_some() || mode.is_some_and(|mode| mode & PRIVILEGES != 0) {
        return None;
    }
    Some(Attr {
        mode: mode.unwrap_or(before.mode),
        uid: uid.unwrap_or(before.uid),
        gid: gid.unwrap_or(before.gid),
        atime: atime.unwrap_or(before.atime),
        mtime: mtime.unwrap_or(before.mtime),
        ctime: at(before.ctime),
        ..*before
    })
}
