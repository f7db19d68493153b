//! What a peer may make the store hold for one session, and whose counts it may change.
//!
//! - A kernel on this machine is believed: it forgets what it looked up, and closes what it opened. A peer is not.
//! - The bounds are refused before anything is taken; the session goes on.
//! - Who may not write opens no file for writing: an open version would stay open for all.

use objstore_files::{NameOp, Op, OpenOp};

use super::super::session::Session;
use crate::error::{Error, Posix, Result};

/// The most inodes that a session refers to. Each takes some 100 bytes here.
pub(super) const INODES_MAX: usize = 1 << 20;
/// The most files that a session has open for writing, and the most handles of them that it says it is closing.
pub(super) const WRITERS_MAX: usize = 1 << 16;
/// The most handles of one file that are waited for when they close. Each other writer of the file looks at all of them.
const CLOSING_MAX: u64 = 1024;

/// Whether a call closes what the session does not have open: it is answered, and changes no count of others. A node also
/// closes what it opened before the store was opened, which is not counted any more.
pub(super) fn is_void(session: &Session, op: &Op<'_>) -> bool {
    match op {
        Op::Opens(OpenOp::CloseWriter { ino, inherited }) => {
            if *inherited {
                session.read_only
            } else {
                !session.writers.lock().contains_key(ino)
            }
        }
        Op::Opens(OpenOp::Closing { ino, .. }) => {
            let open = session.writers.lock().get(ino).copied().unwrap_or(0);
            let (of_file, all) = session.core.writers.closings.count(session.bucket, *ino, session.mount);
            of_file as u64 >= open.min(CLOSING_MAX) || all >= WRITERS_MAX
        }
        _ => false,
    }
}

/// Refuses a call that would hold too much.
///
/// # Errors
/// [`Error::TooMany`]. For a file that is opened for writing, those of a session that may not write.
pub(super) fn check(session: &Session, op: &Op<'_>) -> Result<()> {
    match op {
        Op::Names(name) if refers(name) => {
            let held = session.inode_refs.lock().len();
            let more = if let NameOp::LookupAll { entries, .. } = name { entries.len() } else { 1 };
            within(held + more, INODES_MAX, "inodes to which a mount on another machine refers")?;
            check_writers(session, matches!(name, NameOp::Create { .. } | NameOp::CreateNameless { .. }))
        }
        Op::Opens(OpenOp::OpenWriter { .. }) if session.read_only => Err(Posix::ReadOnly.into()),
        Op::Opens(OpenOp::OpenWriter { .. }) => session.check(true).and_then(|()| check_writers(session, true)),
        Op::Opens(OpenOp::OpenBefore { inos }) => {
            let known = session.open_before.lock().len();
            within(known + inos.len(), INODES_MAX, "inodes that a mount on another machine had open")
        }
        _ => Ok(()),
    }
}

fn refers(op: &NameOp<'_>) -> bool {
    match op {
        NameOp::Lookup { .. }
        | NameOp::LookupAll { .. }
        | NameOp::Pin { .. }
        | NameOp::Make { .. }
        | NameOp::Create { .. }
        | NameOp::CreateNameless { .. }
        | NameOp::Link { .. } => true,
        NameOp::Forget { .. }
        | NameOp::Parent { .. }
        | NameOp::Path { .. }
        | NameOp::ReadDir { .. }
        | NameOp::ReadLink { .. }
        | NameOp::Unlink { .. }
        | NameOp::RemoveDir { .. }
        | NameOp::Rename { .. } => false,
    }
}

fn check_writers(session: &Session, opens: bool) -> Result<()> {
    let open = if opens { session.writers.lock().len() + 1 } else { 0 };
    within(open, WRITERS_MAX, "files that a mount on another machine has open for writing")
}

fn within(held: usize, limit: usize, what: &'static str) -> Result<()> {
    if held <= limit { Ok(()) } else { Err(Error::TooMany { what, limit: limit as u64 }) }
}
