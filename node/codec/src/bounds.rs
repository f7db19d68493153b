//! Bounds on the size of heads, and on the lists and texts in them.

use objstore_base::error::{Error, Posix, Result};
use objstore_files::{DATA_BYTES_MAX, NAME_BYTES_MAX, NAMES_MAX, NameOp, Op};

/// The longest head of a call, in bytes: the most inodes of an `open_before`, with room. It is less than a frame's head, which
/// has the number of the call besides.
pub const CALL_BYTES_MAX: usize = 240 << 10;
/// The longest head of a reply, in bytes: a page of the longest names, or all names of extended attributes.
pub const REPLY_BYTES_MAX: usize = 2 << 20;
/// The most names of a directory in one reply.
pub const NAMES_PAGE_MAX: u32 = 4096;
/// The most changes in one message; longer batches are sent in several.
pub const CHANGES_PAGE_MAX: usize = 4096;
/// The longest text in a head besides names: a symbolic link's target, a path, a text of an error.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

/// The operation, asked for no more than one reply can carry. Its caller asks for the rest.
#[must_use]
pub fn within_one_reply(op: Op<'_>) -> Op<'_> {
    match op {
        Op::Names(NameOp::ReadDir { ino, after, limit }) => {
            NameOp::ReadDir { ino, after, limit: limit.clamp(1, NAMES_PAGE_MAX) }.into()
        }
        other => other,
    }
}

/// The error for bytes that are no head.
pub(crate) fn refused(what: &'static str, value: &(impl ToString + ?Sized), why: impl Into<String>) -> Error {
    Error::invalid(what, value.to_string(), why)
}

/// Refuses a list that is too long.
pub(crate) fn list<T>(what: &'static str, list: Vec<T>, most: usize) -> Result<Vec<T>> {
    if list.len() > most {
        return Err(refused(what, &list.len(), format!("a message has at most {most}")));
    }
    Ok(list)
}

/// Refuses a name that is too long, as the store does.
pub(crate) fn name(name: String) -> Result<String> {
    if name.len() > NAME_BYTES_MAX { Err(Posix::NameTooLong.into()) } else { Ok(name) }
}

/// Refuses a text that is too long, as the store does.
pub(crate) fn text(text: String) -> Result<String> {
    if text.len() > TEXT_BYTES_MAX { Err(Posix::NameTooLong.into()) } else { Ok(text) }
}

/// Refuses a read that is too long.
pub(crate) fn read_len(len: u64) -> Result<u32> {
    let fits = u32::try_from(len).ok().filter(|len| *len as usize <= DATA_BYTES_MAX);
    fits.ok_or_else(|| refused("length of a read", &len, format!("a call reads at most {DATA_BYTES_MAX} bytes")))
}

/// Refuses a page of names that is too long.
pub(crate) fn names_limit(limit: u64) -> Result<u32> {
    let fits = u32::try_from(limit).ok().filter(|limit| (1..=NAMES_MAX).contains(limit));
    fits.ok_or_else(|| refused("number of names", &limit, format!("a call asks for 1 to {NAMES_MAX} names")))
}
