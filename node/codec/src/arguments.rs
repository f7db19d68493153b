//! The arguments of each operation: which fields of the message it has, and its number.

use objstore_base::error::{Posix, Result};
use objstore_files::{
    AttributeOp, ContentOp, INODES_MAX, Make, NameOp, Op, OpenOp, Ownership, Rename, RenameMode, Spot, XATTR_BYTES_MAX,
};

use crate::bounds::{list, name, names_limit, read_len, refused, text};
use crate::locks::{lock_op, of_locks};
use crate::message::Arguments;
use crate::session::LOOKUPS_PER_CALL;
use crate::values::{
    acl, acl_number, allocate, allocate_number, entry, flag_bits, flags, kind, kind_number, set_acl, set_acl_bits,
    which_acl, xattr_mode, xattr_mode_number,
};

/// The numbers of operations, in blocks of 100, one for each group of operations; those of locks are in `locks.rs`. A
/// number is never reused.
mod number {
    pub const LOOKUP: u32 = 1;
    pub const LOOKUP_ALL: u32 = 2;
    pub const PIN: u32 = 3;
    pub const FORGET: u32 = 4;
    pub const PARENT: u32 = 5;
    pub const PATH: u32 = 6;
    pub const READ_DIR: u32 = 7;
    pub const READ_LINK: u32 = 8;
    pub const MAKE: u32 = 9;
    pub const CREATE: u32 = 10;
    pub const CREATE_NAMELESS: u32 = 11;
    pub const LINK: u32 = 12;
    pub const UNLINK: u32 = 13;
    pub const REMOVE_DIR: u32 = 14;
    pub const RENAME: u32 = 15;
    pub const ATTR: u32 = 101;
    pub const SET_ATTR: u32 = 102;
    pub const LOSE_PRIVILEGES: u32 = 103;
    pub const FLAGS: u32 = 104;
    pub const SET_FLAGS: u32 = 105;
    pub const XATTR: u32 = 106;
    pub const XATTRS: u32 = 107;
    pub const SET_XATTR: u32 = 108;
    pub const REMOVE_XATTR: u32 = 109;
    pub const ACL: u32 = 110;
    pub const SET_ACL: u32 = 111;
    pub const REMOVE_ACL: u32 = 112;
    pub const SPACE: u32 = 113;
    pub const READ: u32 = 201;
    pub const WRITE: u32 = 202;
    pub const WRITE_BACK: u32 = 203;
    pub const APPEND: u32 = 204;
    pub const RECALL: u32 = 205;
    pub const SEEK: u32 = 206;
    pub const ALLOCATE: u32 = 207;
    pub const COPY_RANGE: u32 = 208;
    pub const SYNC: u32 = 209;
    pub const SYNC_VOLUME: u32 = 210;
    pub const CHECK_OPEN: u32 = 301;
    pub const OPEN_WRITER: u32 = 302;
    pub const CLOSE_WRITER: u32 = 303;
    pub const CLOSING: u32 = 304;
    pub const CLOSED: u32 = 305;
    pub const KEEPS_VERSIONS: u32 = 306;
    pub const OPEN_BEFORE: u32 = 307;
    pub const PROBE_RESULT: u32 = 308;
}

/// The number and the arguments of an operation.
pub(crate) fn arguments(op: &Op<'_>) -> (u32, Arguments) {
    match op {
        Op::Names(op) => of_names(op),
        Op::Attributes(op) => of_attributes(op),
        Op::Content(op) => of_content(op),
        Op::Opens(op) => of_opens(op),
        Op::Locks(op) => {
            let (number, ino, lock) = of_locks(*op);
            (number, Arguments { lock: Some(lock), ..inode(ino) })
        }
    }
}

/// The operation that a number and arguments describe.
pub(crate) fn operation(number: u32, arguments: Arguments) -> Result<Op<'static>> {
    match number {
        ..100 => name_op(number, arguments).map(Op::Names),
        100..200 => attribute_op(number, arguments).map(Op::Attributes),
        200..300 => content_op(number, &arguments).map(Op::Content),
        600..700 => {
            let op = lock_op(number, arguments.ino, &arguments.lock.unwrap_or_default())?;
            op.map(Op::Locks).ok_or_else(|| unknown(number))
        }
        _ => open_op(number, arguments).map(Op::Opens),
    }
}

fn unknown(number: u32) -> objstore_base::error::Error {
    refused("operation", &number, "this version does not know it; upgrade the older side")
}

/// Arguments of an inode alone.
fn inode(ino: u64) -> Arguments {
    Arguments { ino, ..Arguments::default() }
}

/// Arguments of a name in a directory.
fn named(ino: u64, name: &str) -> Arguments {
    Arguments { ino, name: name.to_owned(), ..Arguments::default() }
}

fn owned(ino: u64, name: &str, owner: Ownership) -> Arguments {
    Arguments { owner: Some(owner.into()), ..named(ino, name) }
}

fn of_names(op: &NameOp<'_>) -> (u32, Arguments) {
    match op {
        NameOp::Lookup { parent, name } => (number::LOOKUP, named(*parent, name)),
        NameOp::LookupAll { parent, entries, listed } => {
            let entries = entries.iter().map(Into::into).collect();
            (number::LOOKUP_ALL, Arguments { flag: *listed, entries, ..inode(*parent) })
        }
        NameOp::Pin { ino } => (number::PIN, inode(*ino)),
        NameOp::Forget { ino, count } => (number::FORGET, Arguments { len: *count, ..inode(*ino) }),
        NameOp::Parent { ino } => (number::PARENT, inode(*ino)),
        NameOp::Path { ino } => (number::PATH, inode(*ino)),
        NameOp::ReadDir { ino, after, limit } => {
            let (text, len) = (after.clone(), u64::from(*limit));
            (number::READ_DIR, Arguments { text, len, ..inode(*ino) })
        }
        NameOp::ReadLink { ino } => (number::READ_LINK, inode(*ino)),
        NameOp::Make { parent, name, what, owner } => (number::MAKE, with_make(owned(*parent, name, *owner), what)),
        NameOp::Create { parent, name, owner } => (number::CREATE, owned(*parent, name, *owner)),
        NameOp::CreateNameless { parent, owner, linkable } => {
            (number::CREATE_NAMELESS, Arguments { flag: *linkable, ..owned(*parent, "", *owner) })
        }
        NameOp::Link { ino, parent, name } => {
            (number::LINK, Arguments { to_ino: *parent, to_name: name.to_string(), ..inode(*ino) })
        }
        NameOp::Unlink { parent, name } => (number::UNLINK, named(*parent, name)),
        NameOp::RemoveDir { parent, name } => (number::REMOVE_DIR, named(*parent, name)),
        NameOp::Rename { rename } => (number::RENAME, of_rename(rename)),
    }
}

fn name_op(number: u32, arguments: Arguments) -> Result<NameOp<'static>> {
    let Arguments { ino, flag, len, .. } = arguments;
    let owner = || arguments.owner.map(Ownership::from).ok_or_else(|| refused("owner", "", "a new inode has one"));
    let with_name = || name(arguments.name.clone()).map(Into::into);
    Ok(match number {
        number::LOOKUP => NameOp::Lookup { parent: ino, name: with_name()? },
        number::LOOKUP_ALL => {
            let entries = list("names to look up", arguments.entries, LOOKUPS_PER_CALL)?;
            let entries = entries.into_iter().map(entry).collect::<Result<Vec<_>>>()?.into();
            NameOp::LookupAll { parent: ino, entries, listed: flag }
        }
        number::PIN => NameOp::Pin { ino },
        number::FORGET => NameOp::Forget { ino, count: len },
        number::PARENT => NameOp::Parent { ino },
        number::PATH => NameOp::Path { ino },
        number::READ_DIR => {
            NameOp::ReadDir { ino, after: arguments.text.map(text).transpose()?, limit: names_limit(len)? }
        }
        number::READ_LINK => NameOp::ReadLink { ino },
        number::MAKE => NameOp::Make { parent: ino, name: with_name()?, what: make(&arguments)?, owner: owner()? },
        number::CREATE => NameOp::Create { parent: ino, name: with_name()?, owner: owner()? },
        number::CREATE_NAMELESS => NameOp::CreateNameless { parent: ino, owner: owner()?, linkable: flag },
        number::LINK => NameOp::Link { ino, parent: arguments.to_ino, name: name(arguments.to_name)?.into() },
        number::UNLINK => NameOp::Unlink { parent: ino, name: with_name()? },
        number::REMOVE_DIR => NameOp::RemoveDir { parent: ino, name: with_name()? },
        number::RENAME => NameOp::Rename { rename: rename(arguments)? },
        unknown_number => return Err(unknown(unknown_number)),
    })
}

const MAKE_FILE: u32 = 1;
const MAKE_DIRECTORY: u32 = 2;
const MAKE_SYMLINK: u32 = 3;
const MAKE_SPECIAL: u32 = 4;

fn with_make(arguments: Arguments, what: &Make) -> Arguments {
    match what {
        Make::File => Arguments { choice: MAKE_FILE, ..arguments },
        Make::Directory => Arguments { choice: MAKE_DIRECTORY, ..arguments },
        Make::Symlink(target) => Arguments { choice: MAKE_SYMLINK, text: Some(target.clone()), ..arguments },
        Make::Special(kind, device) => {
            Arguments { choice: MAKE_SPECIAL, number: kind_number(*kind), len: u64::from(*device), ..arguments }
        }
    }
}

fn make(arguments: &Arguments) -> Result<Make> {
    Ok(match arguments.choice {
        MAKE_FILE => Make::File,
        MAKE_DIRECTORY => Make::Directory,
        MAKE_SYMLINK => Make::Symlink(text(arguments.text.clone().unwrap_or_default())?),
        MAKE_SPECIAL => {
            let device = u32::try_from(arguments.len);
            let device = device.map_err(|_| refused("device", &arguments.len, "its number has 32 bits"))?;
            Make::Special(kind(arguments.number)?, device)
        }
        other => return Err(refused("kind to create", &other, "its number is from 1 to 4")),
    })
}

const REPLACE: u32 = 1;
const NO_REPLACE: u32 = 2;
const EXCHANGE: u32 = 3;
const WHITEOUT: u32 = 4;

fn of_rename(rename: &Rename) -> Arguments {
    let Rename { from_parent, from_name, to_parent, to_name, mode } = rename;
    let (choice, owner, flag) = match mode {
        RenameMode::Replace => (REPLACE, None, false),
        RenameMode::NoReplace => (NO_REPLACE, None, false),
        RenameMode::Exchange => (EXCHANGE, None, false),
        RenameMode::Whiteout { owner, replace } => (WHITEOUT, Some((*owner).into()), *replace),
    };
    Arguments { to_ino: *to_parent, to_name: to_name.clone(), choice, owner, flag, ..named(*from_parent, from_name) }
}

fn rename(arguments: Arguments) -> Result<Rename> {
    let mode = match (arguments.choice, arguments.owner) {
        (REPLACE, _) => RenameMode::Replace,
        (NO_REPLACE, _) => RenameMode::NoReplace,
        (EXCHANGE, _) => RenameMode::Exchange,
        (WHITEOUT, Some(owner)) => RenameMode::Whiteout { owner: owner.into(), replace: arguments.flag },
        (other, _) => {
            return Err(refused("mode of a rename", &other, "it is from 1 to 4, and a whiteout has an owner"));
        }
    };
    Ok(Rename {
        from_parent: arguments.ino,
        from_name: name(arguments.name)?,
        to_parent: arguments.to_ino,
        to_name: name(arguments.to_name)?,
        mode,
    })
}

fn of_attributes(op: &AttributeOp<'_>) -> (u32, Arguments) {
    match op {
        AttributeOp::Attr { ino } => (number::ATTR, inode(*ino)),
        AttributeOp::SetAttr { ino, set } => (number::SET_ATTR, Arguments { set: Some((*set).into()), ..inode(*ino) }),
        AttributeOp::LosePrivileges { ino, kill } => {
            (number::LOSE_PRIVILEGES, Arguments { flag: *kill, ..inode(*ino) })
        }
        AttributeOp::Flags { ino } => (number::FLAGS, inode(*ino)),
        AttributeOp::SetFlags { ino, flags } => {
            (number::SET_FLAGS, Arguments { choice: flag_bits(*flags), ..inode(*ino) })
        }
        AttributeOp::Xattr { ino, name } => (number::XATTR, named(*ino, name)),
        AttributeOp::Xattrs { ino } => (number::XATTRS, inode(*ino)),
        AttributeOp::SetXattr { ino, name, value, mode } => {
            let (choice, value) = (xattr_mode_number(*mode), value.to_vec());
            (number::SET_XATTR, Arguments { choice, value, ..named(*ino, name) })
        }
        AttributeOp::RemoveXattr { ino, name } => (number::REMOVE_XATTR, named(*ino, name)),
        AttributeOp::Acl { ino, which } => (number::ACL, Arguments { choice: acl_number(*which), ..inode(*ino) }),
        AttributeOp::SetAcl { ino, which, acl, how } => {
            let (choice, number) = (acl_number(*which), set_acl_bits(*how));
            (number::SET_ACL, Arguments { choice, number, value: acl.bytes(), ..inode(*ino) })
        }
        AttributeOp::RemoveAcl { ino, which } => {
            (number::REMOVE_ACL, Arguments { choice: acl_number(*which), ..inode(*ino) })
        }
        AttributeOp::Space {} => (number::SPACE, Arguments::default()),
    }
}

fn attribute_op(number: u32, arguments: Arguments) -> Result<AttributeOp<'static>> {
    let Arguments { ino, flag, choice, .. } = arguments;
    let with_name = || name(arguments.name.clone()).map(Into::into);
    Ok(match number {
        number::ATTR => AttributeOp::Attr { ino },
        number::SET_ATTR => AttributeOp::SetAttr { ino, set: arguments.set.unwrap_or_default().into() },
        number::LOSE_PRIVILEGES => AttributeOp::LosePrivileges { ino, kill: flag },
        number::FLAGS => AttributeOp::Flags { ino },
        number::SET_FLAGS => AttributeOp::SetFlags { ino, flags: flags(u64::from(choice))? },
        number::XATTR => AttributeOp::Xattr { ino, name: with_name()? },
        number::XATTRS => AttributeOp::Xattrs { ino },
        number::SET_XATTR => {
            let (name, mode) = (with_name()?, xattr_mode(choice)?);
            if arguments.value.len() > XATTR_BYTES_MAX {
                return Err(Posix::NoSpace.into());
            }
            AttributeOp::SetXattr { ino, name, value: arguments.value.into(), mode }
        }
        number::REMOVE_XATTR => AttributeOp::RemoveXattr { ino, name: with_name()? },
        number::ACL => AttributeOp::Acl { ino, which: which_acl(choice)? },
        number::SET_ACL => {
            let (which, acl) = (which_acl(choice)?, acl(&arguments.value)?);
            AttributeOp::SetAcl { ino, which, acl, how: set_acl(arguments.number) }
        }
        number::REMOVE_ACL => AttributeOp::RemoveAcl { ino, which: which_acl(choice)? },
        number::SPACE => AttributeOp::Space {},
        unknown_number => return Err(unknown(unknown_number)),
    })
}

fn of_content(op: &ContentOp) -> (u32, Arguments) {
    let at = |ino: u64, offset: u64, flag: bool| Arguments { offset, flag, ..inode(ino) };
    match *op {
        ContentOp::Read { ino, offset, len } => {
            (number::READ, Arguments { len: u64::from(len), ..at(ino, offset, false) })
        }
        ContentOp::Write { ino, offset, kill_privileges } => (number::WRITE, at(ino, offset, kill_privileges)),
        ContentOp::WriteBack { ino, offset, kill_privileges } => (number::WRITE_BACK, at(ino, offset, kill_privileges)),
        ContentOp::Append { ino } => (number::APPEND, inode(ino)),
        ContentOp::Recall { ino } => (number::RECALL, inode(ino)),
        ContentOp::Seek { ino, offset, data } => (number::SEEK, at(ino, offset, data)),
        ContentOp::Allocate { ino, how, offset, len } => {
            (number::ALLOCATE, Arguments { len, choice: allocate_number(how), ..at(ino, offset, false) })
        }
        ContentOp::CopyRange { from, to, len } => {
            let source = at(from.ino, from.offset, false);
            (number::COPY_RANGE, Arguments { to_ino: to.ino, to_offset: to.offset, len, ..source })
        }
        ContentOp::Sync { ino, data_only } => (number::SYNC, at(ino, 0, data_only)),
        ContentOp::SyncVolume {} => (number::SYNC_VOLUME, Arguments::default()),
    }
}

fn content_op(number: u32, arguments: &Arguments) -> Result<ContentOp> {
    let Arguments { ino, offset, len, flag, .. } = *arguments;
    Ok(match number {
        number::READ => ContentOp::Read { ino, offset, len: read_len(len)? },
        number::WRITE => ContentOp::Write { ino, offset, kill_privileges: flag },
        number::WRITE_BACK => ContentOp::WriteBack { ino, offset, kill_privileges: flag },
        number::APPEND => ContentOp::Append { ino },
        number::RECALL => ContentOp::Recall { ino },
        number::SEEK => ContentOp::Seek { ino, offset, data: flag },
        number::ALLOCATE => ContentOp::Allocate { ino, how: allocate(arguments.choice)?, offset, len },
        number::COPY_RANGE => {
            let to = Spot { ino: arguments.to_ino, offset: arguments.to_offset };
            ContentOp::CopyRange { from: Spot { ino, offset }, to, len }
        }
        number::SYNC => ContentOp::Sync { ino, data_only: flag },
        number::SYNC_VOLUME => ContentOp::SyncVolume {},
        unknown_number => return Err(unknown(unknown_number)),
    })
}

fn of_opens(op: &OpenOp<'_>) -> (u32, Arguments) {
    let with = |ino: u64, flag: bool| Arguments { flag, ..inode(ino) };
    match op {
        OpenOp::CheckOpen { ino, appends } => (number::CHECK_OPEN, with(*ino, *appends)),
        OpenOp::OpenWriter { ino } => (number::OPEN_WRITER, inode(*ino)),
        OpenOp::CloseWriter { ino, inherited } => (number::CLOSE_WRITER, with(*ino, *inherited)),
        OpenOp::Closing { ino, handle } => (number::CLOSING, Arguments { len: *handle, ..inode(*ino) }),
        OpenOp::Closed { ino, handle } => (number::CLOSED, Arguments { len: *handle, ..inode(*ino) }),
        OpenOp::KeepsVersions {} => (number::KEEPS_VERSIONS, Arguments::default()),
        OpenOp::OpenBefore { inos } => (number::OPEN_BEFORE, Arguments { inos: inos.to_vec(), ..Arguments::default() }),
        OpenOp::ProbeResult { ino, held } => (number::PROBE_RESULT, with(*ino, *held)),
    }
}

fn open_op(number: u32, arguments: Arguments) -> Result<OpenOp<'static>> {
    let Arguments { ino, flag, len, .. } = arguments;
    Ok(match number {
        number::CHECK_OPEN => OpenOp::CheckOpen { ino, appends: flag },
        number::OPEN_WRITER => OpenOp::OpenWriter { ino },
        number::CLOSE_WRITER => OpenOp::CloseWriter { ino, inherited: flag },
        number::CLOSING => OpenOp::Closing { ino, handle: len },
        number::CLOSED => OpenOp::Closed { ino, handle: len },
        number::KEEPS_VERSIONS => OpenOp::KeepsVersions {},
        number::OPEN_BEFORE => OpenOp::OpenBefore { inos: list("open inodes", arguments.inos, INODES_MAX)?.into() },
        number::PROBE_RESULT => OpenOp::ProbeResult { ino, held: flag },
        unknown_number => return Err(unknown(unknown_number)),
    })
}
