//! The directory tree of a bucket: one set of records that S3 reads as keys and a mount as files.
//!
//! - A dirent's *sort name* is `name/` for a directory and `name` for anything else. So a depth-first walk is in the
//!   byte order of full keys, and `a` and `a/b` can both exist.
//! - An *implicit* directory exists only because of its content: it has at least one name. S3 does not list it and
//!   removes it with its last name; a mount that empties it makes it explicit instead.
//! - Names that only mounts see (symbolic links and special files) do not affect S3: an implicit directory with nothing
//!   else in it leads to no key, so it is not a common prefix.
//! - A mount that looks up `a` finds the directory `a/` before the file `a`.
//! - Every change runs inside one transaction, through [`Tx`]: a crash leaves all of it or nothing.

mod content_refs;
mod cursor;
mod edit;
mod extents;
mod flags;
mod hidden;
mod in_place;
mod kept_blob;
mod length;
mod links;
mod list;
mod listed;
mod lock;
#[cfg(test)]
mod model;
mod nameless;
mod orphans;
mod parts;
mod path;
mod read;
mod rename;
mod s3;
mod share;
mod shown;
mod sweep;
mod tally;
mod tx;
mod types;
mod version_list;
mod versions;
mod written;

pub(crate) use flags::Touching;
pub(crate) use hidden::list_hidden;
pub(crate) use in_place::FlushMode;
pub(crate) use list::{common_prefix, list_keys};
pub(crate) use lock::protection;
pub(crate) use orphans::collect as collect_orphan;
pub(crate) use read::{Tree, counts_bytes};
pub(crate) use share::SharedContent;
pub(crate) use sweep::sweep;
pub(crate) use tally::{Tally, tally};
pub(crate) use tx::{Given, Tx, exceeded};
pub use types::{HiddenKey, HiddenPage, List, ListVersions};
pub(crate) use version_list::list_versions;
pub(crate) use versions::{Named, Noncurrent, missing as missing_version, order_of, version_id};

/// The sort name of a directory.
pub(crate) fn dir_name(name: &str) -> String {
    format!("{name}/")
}

/// The name a mount shows for a sort name.
pub(crate) fn shown_name(sort_name: &str) -> &str {
    sort_name.strip_suffix('/').unwrap_or(sort_name)
}
