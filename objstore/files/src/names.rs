//! Names and inode numbers, and the changes of directories.

use std::borrow::Cow;

use crate::attributes::Kind;

/// The inode number of a volume's root directory.
pub const ROOT_INO: u64 = 1;
/// The longest name a mount can show, in bytes (NAME_MAX).
pub const NAME_BYTES_MAX: usize = 255;
/// The longest target of a symbolic link, in bytes (PATH_MAX without its NUL).
pub const TARGET_BYTES_MAX: usize = 4095;
/// The most names that one `read_dir` returns.
pub const NAMES_MAX: u32 = 4 << 20;
/// The most names that one `lookup_all` takes.
pub const LOOKUPS_MAX: usize = 1024;
/// The most inodes that one `open_before` names.
pub const INODES_MAX: usize = 16 << 10;

/// The inode to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Make {
    /// An empty regular file.
    File,
    /// An empty directory.
    Directory,
    /// A symbolic link to this.
    Symlink(String),
    /// A pipe, socket or device with its device number.
    Special(Kind, u32),
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// Its inode.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
}

/// Directory entries, as an argument of a call.
pub type Entries<'a> = Cow<'a, [DirEntry]>;

/// Names of a directory: all that follow the place where the listing was to begin, or as many as were wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The names in the order of keys, at one moment; at most [`NAMES_MAX`].
    pub entries: Vec<DirEntry>,
    /// Where the listing continues; `None` at its end. Only the service reads it: a name and a mark behind it.
    pub next: Option<String>,
}

/// Owner and permission bits of a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// Its owner.
    pub uid: u32,
    /// Its group; a setgid directory's group takes precedence.
    pub gid: u32,
    /// The requested permission bits.
    pub mode: u32,
    /// Permission bits to clear, unless the directory has a default ACL (umask(2), acl(5)).
    pub umask: u32,
}

/// What a rename does if the new name exists (renameat2(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Fails.
    NoReplace,
    /// Swaps the two.
    Exchange,
    /// Leaves a whiteout under the old name: a character device 0:0, which tells an overlay file system that the name
    /// is deleted.
    Whiteout {
        /// Owner and mode of the whiteout.
        owner: Ownership,
        /// Whether an existing new name is replaced, or the rename refused.
        replace: bool,
    },
}

/// A rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The old directory.
    pub from_parent: u64,
    /// The old name.
    pub from_name: String,
    /// The new directory.
    pub to_parent: u64,
    /// The new name.
    pub to_name: String,
    /// What to do if the new name exists.
    pub mode: RenameMode,
}
