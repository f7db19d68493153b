//! The seam between a mount and the store that its files lie in.
//!
//! - [`FileService`] has everything that a mount asks of a store: [`FileService::call`] executes one [`Op`] for a
//!   [`Context`], and [`FileService::changes`] streams the changes by other clients. The store implements the trait for
//!   a session on one of its buckets; a client of a store on another machine can implement it too.
//! - An [`Op`] and a [`Reply`] are plain values: they refer to nothing of a store and can be sent over a network. The
//!   bytes of a file lie beside them and are not copied: a write borrows them, a read returns them.
//! - [`Op::class`] says whether a repeated call may be executed again, so that a network client knows which calls have
//!   to be executed exactly once.
//! - [`Files`] has a method for each operation. It acts for one request of the kernel, and remembers whether the store
//!   recorded an outcome for it.
//! - [`LocalFiles`] opens files for passthrough: only a store on this machine can hand descriptors to the kernel.

mod attributes;
mod calls;
mod changes;
mod content;
mod context;
mod local;
mod locks;
mod names;
mod xattrs;

pub use attributes::{Attr, Flags, Kind, SetAttr, Space, Traits};
pub use calls::{
    About, Answer, AttributeOp, Class, ContentOp, FileService, FileSession, Files, LinkStats, LockOp, NameOp, Op,
    OpenOp, Reply, SessionStanding, Trips,
};
pub use changes::{CHANGES_MAX, Change, Changes};
pub use content::{Allocate, DATA_BYTES_MAX, QUEUED_BYTES_MAX, Spot};
pub use context::{Caller, Context, RequestId, SessionId};
pub use local::{Backing, LocalFiles, Released, Unfit};
pub use locks::{
    HeldLock, LOCK_END, LOCKED_INODES_MAX, Lock, LockKind, LockMode, LockOwner, LockRange, LockRelease, Locked,
};
pub use names::{
    DirEntry, Entries, INODES_MAX, LOOKUPS_MAX, Make, NAME_BYTES_MAX, NAMES_MAX, Names, Ownership, ROOT_INO, Rename,
    RenameMode, TARGET_BYTES_MAX,
};
pub use xattrs::{SetAcl, WhichAcl, XATTR_BYTES_MAX, XATTR_NAME_BYTES_MAX, XattrMode};
