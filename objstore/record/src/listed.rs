//! The partial records that a listing reads: names with a copy of their file's attributes, and otherwise inodes.
//!
//! - A name that S3 put carries the copy ([`ListingEntry`]), beside the fields of [`Dirent`]: a page reads a thousand names,
//!   whose inodes lie far apart and contain small contents. A copy that is present is always correct (`tree/shown.rs`).
//! - For an inode, a listing decodes only some fields of [`Inode`]. Field numbers and meanings are those of `Inode` and
//!   its `Object`; an inode is never written from here.

use prost::Message;

use super::inode::{Dirent, Inode, InodeKind, StoredChecksum};

/// A directory entry as a listing reads it: a [`Dirent`], and perhaps attributes of the file.
#[derive(Clone, PartialEq, Message)]
pub struct ListedDirent {
    /// The inode; never zero.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// The inode's type: an [`InodeKind`].
    #[prost(enumeration = "InodeKind", tag = "2")]
    pub kind: i32,
    /// What a listing shows of the file, if the entry has a copy of it.
    #[prost(message, optional, tag = "3")]
    pub shown: Option<ListingEntry>,
}

/// What a listing shows of a file.
#[derive(Clone, PartialEq, Message)]
pub struct ListingEntry {
    /// Size of the content, in bytes.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// When the content was last changed, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "2")]
    pub mtime: i64,
    /// The entity tag.
    #[prost(string, tag = "3")]
    pub etag: String,
    /// Checksums of the content.
    #[prost(message, repeated, tag = "4")]
    pub checksums: Vec<StoredChecksum>,
    /// The storage class that the request named; absent is STANDARD.
    #[prost(string, optional, tag = "5")]
    pub storage_class: Option<String>,
}

impl ListedDirent {
    /// A directory entry with what listings show of the file.
    pub fn new(dirent: Dirent, shown: ListingEntry) -> Self {
        Self { ino: dirent.ino, kind: dirent.kind, shown: Some(shown) }
    }

    /// The directory entry alone.
    pub fn dirent(&self) -> Dirent {
        Dirent { ino: self.ino, kind: self.kind }
    }
}

impl ListingEntry {
    /// What a listing shows of an inode.
    pub fn of(ino: u64, inode: &Inode) -> Self {
        let kept = inode.object.as_ref().map(|object| (object.checksums.clone(), object.storage_class.clone()));
        let (checksums, storage_class) = kept.unwrap_or_default();
        Self { size: inode.size, mtime: inode.mtime, etag: inode.etag(ino), checksums, storage_class }
    }
}

/// An inode, as a listing reads it.
#[derive(Clone, PartialEq, Message)]
pub struct ListedInode {
    /// When the content was last changed, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "8")]
    pub mtime: i64,
    /// Size of the content, in bytes.
    #[prost(uint64, tag = "11")]
    pub size: u64,
    /// The number of changes of the content.
    #[prost(uint64, tag = "12")]
    pub generation: u64,
    /// For a directory: set if it exists only because something lies in it.
    #[prost(bool, tag = "13")]
    pub implicit: bool,
    /// For a directory: the number of names in it that S3 sees.
    #[prost(uint64, tag = "15")]
    pub keys: u64,
    /// What S3 stores with the content.
    #[prost(message, optional, tag = "20")]
    pub object: Option<ListedObject>,
}

/// What S3 stores with an object, as far as a listing shows it.
#[derive(Clone, PartialEq, Message)]
pub struct ListedObject {
    /// The entity tag that S3 gave the content; empty after a mount changed it.
    #[prost(string, tag = "1")]
    pub etag: String,
    /// Checksums of the content.
    #[prost(message, repeated, tag = "10")]
    pub checksums: Vec<StoredChecksum>,
    /// The storage class that the request named; absent is STANDARD.
    #[prost(string, optional, tag = "17")]
    pub storage_class: Option<String>,
}

impl ListedInode {
    /// Whether the inode is a key or leads to one, as [`Inode::leads_to_a_key`] says.
    pub fn leads_to_a_key(&self) -> bool {
        !self.implicit || self.keys > 0
    }

    /// What a listing shows of the inode, equal to [`ListingEntry::of`].
    pub fn shown(self, ino: u64) -> ListingEntry {
        let ListedObject { etag, checksums, storage_class } = self.object.unwrap_or_default();
        let made = || format!("{ino:016x}{:016x}-1", self.generation);
        let etag = if etag.is_empty() { made() } else { etag };
        ListingEntry { size: self.size, mtime: self.mtime, etag, checksums, storage_class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use crate::inode::{Content, Object};
    use objstore_base::clock::Timestamp;

    #[test]
    fn a_listing_reads_what_the_inode_says() {
        let checksums = vec![StoredChecksum { algorithm: "CRC32".into(), value: "y/Q5Jg==".into() }];
        let object = Object { etag: "tag".into(), content_type: Some("text/plain".into()), ..Object::default() };
        let mut inode = Inode::new(InodeKind::File, Timestamp(7));
        (inode.mtime, inode.size, inode.generation, inode.implicit, inode.keys) = (-8, 9, 10, true, 11);
        inode.content = Some(Content::Inline(vec![1_u8; 100].into()));
        let storage_class = Some("STANDARD_IA".to_owned());
        let kept = (checksums.clone(), storage_class.clone());
        inode.object = Some(Object { checksums: kept.0, storage_class: kept.1, version: 3, ..object });
        inode.xattrs.insert("user.a".into(), vec![0, 255]);
        let listed: ListedInode = decode("an inode", &inode.encode_to_vec()).unwrap();
        let object = Some(ListedObject { etag: "tag".into(), checksums, storage_class });
        assert_eq!(listed, ListedInode { mtime: -8, size: 9, generation: 10, implicit: true, keys: 11, object });
        assert_eq!(listed.shown(12), ListingEntry::of(12, &inode));
        inode.changed_by_mount(Timestamp(9));
        let listed: ListedInode = decode("an inode", &inode.encode_to_vec()).unwrap();
        assert_eq!(listed.shown(12), ListingEntry::of(12, &inode));
    }

    #[test]
    fn a_name_reads_the_same_with_what_it_shows_and_without() {
        let (dirent, shown) = (Dirent::new(7, InodeKind::File), ListingEntry { size: 3, ..ListingEntry::default() });
        let listed = ListedDirent::new(dirent, shown);
        assert_eq!(decode::<Dirent>("a name", &listed.encode_to_vec()).unwrap(), dirent);
        assert_eq!(decode::<ListedDirent>("a name", &listed.encode_to_vec()).unwrap(), listed);
        let plain: ListedDirent = decode("a name", &dirent.encode_to_vec()).unwrap();
        assert_eq!((plain.dirent(), plain.shown), (dirent, None));
    }
}
