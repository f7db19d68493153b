//! The plain values that operations on a tree take and give.

use crate::name::Hidden;

/// The inode number of a volume's root directory.
pub const ROOT_INO: u64 = 1;

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
#[derive(Clone, Debug)]
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

/// A request for a page of keys, in byte order.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Keys with the same text up to the next delimiter form one common prefix.
    pub delimiter: Option<String>,
    /// Only keys after this, and common prefixes that contain such a key; a returned common prefix is skipped as a
    /// whole.
    pub after: Option<String>,
    /// The most keys and common prefixes together.
    pub limit: usize,
}

/// A request for a page of versions, by key and then newest first.
#[derive(Clone, Debug, Default)]
pub struct ListVersions {
    /// Prefix, delimiter and limit; `after` is the key marker.
    pub list: List,
    /// Continue after this version of the key `after`.
    pub after_version: Option<String>,
}

/// A hidden key, which a mount cannot show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenKey {
    /// The key.
    pub key: String,
    /// The reason.
    pub why: Hidden,
}

/// A page of hidden keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenPage {
    /// The keys.
    pub keys: Vec<HiddenKey>,
    /// The key after which to continue; `None` at the end.
    pub next: Option<String>,
}
