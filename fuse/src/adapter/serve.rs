//! The dispatch table: from each operation to the method of [`Fs`] that serves it, and to its reply.

use std::ffi::OsStr;

use rustix::io::Errno;

use super::answer::{Answer, Limits};
use super::convert::{caller, listed_kind, lock_call, wanted};
use crate::caller::Caller;
use crate::errno::Result;
use crate::fs::Fs;
use crate::handles::OpenFile;
use crate::ops::copies;
use crate::ops::directories::{Listed, Place};
use crate::ops::files::Write;
use crate::ops::flags::Ioctl;
use crate::ops::names::Special;
use crate::ops::xattrs::SetXattr;
use crate::passthrough::Asked;
use crate::view::New;
use crate::wire::{self, CopyRange, Listing, Name, Operation, ReadDir, Request};

/// Serves a request.
pub(super) fn answer(fs: &Fs<'_>, request: &Request<'_>) -> Result<Answer> {
    let (node, by) = (request.context.node, caller(&request.context, fs.sees_callers));
    let asked = Asked { request: request.context.unique, resent: request.context.resent };
    match request.operation {
        Operation::Lookup(name) => fs.lookup(node, name).map(Answer::Entry),
        Operation::Forget(lookups) => Ok(forget(fs, [(node, lookups)])),
        Operation::BatchForget(forgets) => Ok(forget(fs, forgets.iter())),
        Operation::GetAttr => fs.attr(node).map(Answer::Attr),
        Operation::StatX => fs.attr(node).map(Answer::Statx),
        Operation::SetAttr(set) => fs.set_attr(node, wanted(&set), by).map(Answer::Attr),
        Operation::ReadLink => fs.read_link(node).map(Answer::Text),
        Operation::SymLink { name, target } => fs.make_symlink(node, name, target, by).map(Answer::Made),
        Operation::MakeNode { new, rdev } => fs.make_node(node, new.name, special(new, rdev), by).map(Answer::Made),
        Operation::MakeDir(new) => fs.make_dir(node, new.name, how(new), by).map(Answer::Made),
        Operation::Unlink(name) => fs.unlink(node, name).map(done),
        Operation::RemoveDir(name) => fs.remove_dir(node, name).map(done),
        Operation::Rename { name, to, new_name, flags } => fs.rename((node, name), (to, new_name), flags, by).map(done),
        Operation::Link { node: old, name } => fs.link(old, node, name).map(Answer::Made),
        Operation::Open { flags } => fs.open(node, flags.cast_signed(), asked).map(Answer::Opened),
        Operation::Create { new, flags } => {
            fs.create(node, new.name, how(new), flags.cast_signed(), by, asked).map(Answer::Created)
        }
        Operation::TmpFile { new, flags } => {
            fs.tmpfile(node, how(new), flags.cast_signed(), by, asked).map(Answer::Created)
        }
        Operation::Read { offset, size } => fs.read(node, offset, size).map(Answer::Bytes),
        Operation::Write(write) => fs.write(place(node, &write), write.data).map(Answer::Written),
        Operation::Flush { handle, owner } => fs.flush(node, OpenFile::decode(handle), owner).map(done),
        Operation::Release { handle, flock_owner } => {
            fs.release(node, OpenFile::decode(handle), flock_owner, asked).map(done)
        }
        Operation::GetLock(lock) => fs.lock_in_the_way(lock_call(node, lock)?).map(Answer::Lock),
        Operation::SetLock { lock, .. } => fs.set_lock(lock_call(node, lock)?).map(done),
        Operation::Sync { data_only } => fs.sync(node, data_only).map(done),
        Operation::SyncDir => fs.sync(node, false).map(done),
        Operation::SyncFs => fs.sync_volume().map(done),
        Operation::OpenDir => Ok(Answer::OpenedDirectory(fs.directories.open())),
        Operation::ReadDir(part) => list(fs, node, part).map(Answer::Listing),
        Operation::ReadDirPlus(part) => list_entries(fs, node, part).map(Answer::Listing),
        Operation::ReleaseDir { handle } => {
            fs.directories.close(handle);
            Ok(Answer::Done)
        }
        Operation::StatFs => fs.space().map(Answer::Space),
        Operation::SetXattr { name, value, flags, kill_setgid } => {
            fs.set_xattr(node, name, value, SetXattr { flags: flags.cast_signed(), kill_setgid }).map(done)
        }
        Operation::GetXattr { name, room } => fs.xattr(node, name, room).map(Answer::Fitted),
        Operation::ListXattr { room } => fs.xattrs(node, room, by).map(Answer::Fitted),
        Operation::RemoveXattr(name) => fs.remove_xattr(node, name).map(done),
        Operation::Allocate { mode, offset, len } => fs.allocate(node, mode.cast_signed(), offset, len, by).map(done),
        Operation::Seek { offset, whence } => fs.seek(node, offset, whence.cast_signed()).map(Answer::Offset),
        Operation::CopyRange(copy) => copy_range(fs, node, copy, by),
        Operation::Ioctl { command, data, room } => {
            fs.ioctl(node, Ioctl { command, data, room: room as usize }).map(Answer::Ioctl)
        }
        Operation::Init
        | Operation::Interrupt(_)
        | Operation::Destroy
        | Operation::NotifyReply
        | Operation::Refused(_)
        | Operation::Unknown(_) => Err(Errno::NOSYS),
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}

fn forget(fs: &Fs<'_>, forgets: impl IntoIterator<Item = (u64, u64)>) -> Answer {
    forgets.into_iter().for_each(|(node, lookups)| fs.forget(node, lookups));
    Answer::Done
}

fn how(new: wire::New<'_>) -> New {
    New { mode: new.mode, umask: new.umask }
}

fn special(new: wire::New<'_>, rdev: u32) -> Special {
    Special { mode: new.mode, umask: new.umask, rdev }
}

fn place(node: u64, write: &wire::Write<'_>) -> Write {
    Write {
        node,
        offset: write.offset,
        flags: write.flags.cast_signed(),
        writeback: write.writeback,
        kill_privileges: write.kill_privileges,
    }
}

fn copy_range(fs: &Fs<'_>, node: u64, copy: CopyRange, by: Caller) -> Result<Answer> {
    let CopyRange { from_offset, to_node, to_offset, len, wide } = copy;
    // The older reply has a narrower length field than its request.
    let len = if wide { len } else { len.min(u64::from(u32::MAX)) };
    let bytes = fs.copy_range(copies::CopyRange { from_node: node, from_offset, to_node, to_offset, len }, by)?;
    Ok(Answer::Copied { bytes, wide })
}

fn list(fs: &Fs<'_>, node: u64, part: ReadDir) -> Result<Listing> {
    let mut listing = Listing::new(part.room as usize);
    fs.read_dir(from(node, part), |listed| listing.add(name(&listed)))?;
    Ok(listing)
}

/// Entries without attributes ("." and "..") do not count as lookups.
fn list_entries(fs: &Fs<'_>, node: u64, part: ReadDir) -> Result<Listing> {
    let mut listing = Listing::new(part.room as usize);
    fs.read_dir_plus(from(node, part), part.room as usize, |listed, attr| {
        attr.into_iter().for_each(|attr| fs.known.insert(attr.ino));
        listing.add_entry(name(&listed), &Limits::now(&fs.session, &fs.sharing).found(attr))
    })?;
    Ok(listing)
}

fn from(node: u64, part: ReadDir) -> Place {
    Place { node, handle: part.handle, offset: part.offset }
}

fn name<'a>(listed: &Listed<'a>) -> Name<'a> {
    Name { node: listed.node, next: listed.next, kind: listed_kind(listed.kind), name: OsStr::new(listed.name) }
}
