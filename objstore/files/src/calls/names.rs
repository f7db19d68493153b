//! Operations of names, and of the references that the kernel holds to inodes.

use std::borrow::Cow;

use objstore_base::error::Result;

use super::operations::operations;
use crate::attributes::Attr;
use crate::names::{Entries, Make, Names, Ownership, Rename};

operations! {
    /// Operations of names and inode references. A name has at most [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes.
    NameOp<'a> {
        /// Looks up a name and takes a reference on its inode: it stays readable, though unlinked or replaced, until
        /// [`forget`](crate::Files::forget).
        [Count] lookup: Lookup {
            /// The directory.
            parent: u64,
            /// The name.
            name: Cow<'a, str>,
        } -> Attr;

        /// Looks up names of one directory, in the order of its listing: at most [`LOOKUPS_MAX`](crate::LOOKUPS_MAX). Each
        /// result equals that of [`lookup`](crate::Files::lookup), and takes one reference.
        [Count] lookup_all: LookupAll {
            /// The directory.
            parent: u64,
            /// The names.
            entries: Entries<'a>,
            /// Whether the request itself read these entries from the directory: then their inode numbers hold, and the
            /// names are not searched again.
            listed: bool,
        } -> Vec<Result<Attr>>;

        /// Takes one more reference on an inode; ESTALE if it is gone.
        [Count] pin: Pin {
            /// The inode.
            ino: u64,
        } -> Attr;

        /// Returns references. An unlinked inode without references is collected later.
        [Count] forget: Forget {
            /// The inode.
            ino: u64,
            /// How many.
            count: u64,
        } -> ();

        /// The parent of a directory; the root is its own parent.
        [Read] parent: Parent {
            /// The directory.
            ino: u64,
        } -> u64;

        /// A path of an inode from the bucket's root, without a leading slash; `None` if it has no name, or the path is
        /// longer than a key.
        [Read] path: Path {
            /// The inode.
            ino: u64,
        } -> Option<String>;

        /// Names of a directory at one moment, in key order, without `.` and `..` and without hidden keys. Where a file
        /// and a directory share a name, the directory is shown.
        [Read] read_dir: ReadDir {
            /// The directory.
            ino: u64,
            /// Where to continue: the [`Names::next`] of the call before; `None` for the beginning.
            after: Option<String>,
            /// The most names wanted, from 1 to [`NAMES_MAX`](crate::NAMES_MAX). A service may return fewer and say
            /// where the listing continues.
            limit: u32,
        } -> Names;

        /// The target of a symbolic link: at most [`TARGET_BYTES_MAX`](crate::TARGET_BYTES_MAX) bytes.
        [Read] read_link: ReadLink {
            /// The link.
            ino: u64,
        } -> String;

        /// Creates an inode with one reference.
        [Once] make: Make {
            /// The directory.
            parent: u64,
            /// The name.
            name: Cow<'a, str>,
            /// What to create.
            what: Make,
            /// Owner and mode.
            owner: Ownership,
        } -> Attr;

        /// Creates a file with one reference, and opens it for writing: [`close_writer`](crate::Files::close_writer) has to
        /// follow. In a bucket with versioning, everything written until then belongs to the version as which it was
        /// created.
        [Once] create: Create {
            /// The directory.
            parent: u64,
            /// The name.
            name: Cow<'a, str>,
            /// Owner and mode.
            owner: Ownership,
        } -> Attr;

        /// Creates a file without a name with one reference, and opens it for writing:
        /// [`close_writer`](crate::Files::close_writer) has to follow. It has the attributes that a file created in the
        /// directory would have, and is deleted with its last reference, unless it got a name.
        [Once] create_nameless: CreateNameless {
            /// The directory.
            parent: u64,
            /// Owner and mode.
            owner: Ownership,
            /// Whether [`link`](crate::Files::link) may give it a name.
            linkable: bool,
        } -> Attr;

        /// Adds a name to anything but a directory, and takes one more reference.
        [Once] link: Link {
            /// The inode.
            ino: u64,
            /// The directory of the new name.
            parent: u64,
            /// The new name.
            name: Cow<'a, str>,
        } -> Attr;

        /// Removes a name that is not a directory.
        [Once] unlink: Unlink {
            /// The directory.
            parent: u64,
            /// The name.
            name: Cow<'a, str>,
        } -> ();

        /// Removes an empty directory.
        [Once] remove_dir: RemoveDir {
            /// The directory above.
            parent: u64,
            /// The name.
            name: Cow<'a, str>,
        } -> ();

        /// Renames (renameat2(2)).
        [Once] rename: Rename {
            /// From where to where, and how.
            rename: Rename,
        } -> ();
    }
}
