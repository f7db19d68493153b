//! Records of inodes, of the names that lead to them, and of where their content lies.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use objstore_base::clock::Timestamp;

use super::access_list::AccessList;

/// The type of an inode; zero is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum InodeKind {
    /// Not set: the record is damaged.
    None = 0,
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link; its target is the inline content.
    Symlink = 3,
    /// A named pipe.
    Fifo = 4,
    /// A Unix socket.
    Socket = 5,
    /// A character device.
    CharDevice = 6,
    /// A block device.
    BlockDevice = 7,
}

/// The parent number of a file that was replaced or unlinked while a mount had it open, and that is kept as a
/// noncurrent version.
pub const NONCURRENT: u64 = u64::MAX;

/// The record of a file, directory or other node of the tree, as one branch sees it.
#[derive(Clone, PartialEq, Message)]
pub struct Inode {
    /// Its type: an [`InodeKind`].
    #[prost(enumeration = "InodeKind", tag = "1")]
    pub kind: i32,
    /// Permission bits.
    #[prost(uint32, tag = "2")]
    pub mode: u32,
    /// The owner's user id.
    #[prost(uint32, tag = "3")]
    pub uid: u32,
    /// The group id.
    #[prost(uint32, tag = "4")]
    pub gid: u32,
    /// The number of names that lead to it; for a directory two, and one for each directory in it.
    #[prost(uint32, tag = "5")]
    pub nlink: u32,
    /// Device number.
    #[prost(uint32, tag = "6")]
    pub rdev: u32,
    /// When it was last read, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "7")]
    pub atime: i64,
    /// When its content was last changed, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "8")]
    pub mtime: i64,
    /// When its attributes were last changed, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "9")]
    pub ctime: i64,
    /// When it was created, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "10")]
    pub btime: i64,
    /// Size of the content, in bytes.
    #[prost(uint64, tag = "11")]
    pub size: u64,
    /// The number of changes of the content.
    #[prost(uint64, tag = "12")]
    pub generation: u64,
    /// For a directory: set if it exists only because something lies in it. S3 does not list such a directory, and
    /// removes it with the last name in it.
    #[prost(bool, tag = "13")]
    pub implicit: bool,
    /// For a directory: the number of names in it.
    #[prost(uint64, tag = "14")]
    pub entries: u64,
    /// For a directory: the number of names in it that S3 sees, which are files and directories that lead to a key.
    #[prost(uint64, tag = "15")]
    pub keys: u64,
    /// The inode of the directory that it is in; for a file with several names, of one of them. Zero: not known.
    /// [`NONCURRENT`]: the file is a noncurrent version.
    #[prost(uint64, tag = "16")]
    pub parent: u64,
    /// Its name in that directory; for a [`NONCURRENT`] file, its key.
    #[prost(string, tag = "22")]
    pub name: String,
    /// Where the content is stored; absent if it is empty or one hole.
    #[prost(oneof = "Content", tags = "17, 18, 19")]
    pub content: Option<Content>,
    /// What S3 stores with the content; absent until S3 writes the file or it gets metadata.
    #[prost(message, optional, tag = "20")]
    pub object: Option<Object>,
    /// Extended attributes.
    #[prost(btree_map = "string, bytes", tag = "21")]
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// When it was created or its content was last changed, in nanoseconds since 1970. Mounts cannot set this time.
    /// Zero if an early build wrote the record.
    #[prost(sfixed64, tag = "23")]
    pub changed: i64,
    /// For a file whose content is in blobs: how much less space it takes there than [`Inode::charged`] says, in units
    /// of 512 bytes.
    #[prost(uint64, tag = "24")]
    pub holes: u64,
    /// For a file: the end of the space reserved for it, in bytes (fallocate(2), FALLOC_FL_KEEP_SIZE). Beyond the end
    /// of the file it counts against the quota; otherwise it has no effect.
    #[prost(uint64, tag = "25")]
    pub reserved: u64,
    /// Flags of chattr(1): bits of [`flag`].
    #[prost(uint32, tag = "26")]
    pub flags: u32,
    /// For a directory with names in it: an upper bound of the length in bytes of all paths below it, relative to the
    /// directory and with the `/` that ends a directory's path. Deletions do not lower it. Zero: not known, since an
    /// earlier version put the names there.
    #[prost(uint32, tag = "27")]
    pub reach: u32,
    /// Whether the directory entry may contain a copy of what listings show
    /// ([`ListingEntry`](super::listed::ListingEntry)).
    #[prost(bool, tag = "30")]
    pub shown: bool,
}

/// Bits of [`Inode::flags`]; a bit is never reused.
pub mod flag {
    /// Content, attributes and names cannot be changed (FS_IMMUTABLE_FL).
    pub const IMMUTABLE: u32 = 1 << 0;
    /// The content can only grow at its end; in a directory, names can only be added (FS_APPEND_FL).
    pub const APPEND_ONLY: u32 = 1 << 1;
    /// dump(8) skips it (FS_NODUMP_FL).
    pub const NO_DUMP: u32 = 1 << 2;
}

/// Where an inode's content is stored.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Content {
    /// In the inode's record.
    #[prost(bytes = "bytes", tag = "17")]
    Inline(Bytes),
    /// In one blob; beyond the blob's end the content is zeros.
    #[prost(message, tag = "18")]
    Blob(BlobContent),
    /// In the inode's extent records; ranges without one are zeros.
    #[prost(message, tag = "19")]
    Extents(ExtentContent),
}

impl Content {
    /// Whether all of it is in the inode's in-place blob.
    pub fn is_in_place(&self) -> bool {
        matches!(self, Self::Blob(content) if content.in_place)
    }
}

/// Content in one blob, from its first byte.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BlobContent {
    /// The blob.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Whether this is the inode's in-place blob, which the branch that wrote this record may change.
    #[prost(bool, tag = "2")]
    pub in_place: bool,
}

/// Content in extents.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ExtentContent {
    /// The inode's in-place blob, in which a byte has the same offset as in the file; the branch that wrote this record
    /// may change it.
    #[prost(uint64, optional, tag = "1")]
    pub in_place: Option<u64>,
}

/// The record of an extent: a range of an inode's content in a blob.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Extent {
    /// The blob.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
    /// The offset in the blob at which it begins.
    #[prost(uint64, tag = "2")]
    pub blob_offset: u64,
    /// Its length, in bytes; never zero.
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

/// What S3 stores with an object.
#[derive(Clone, PartialEq, Message)]
pub struct Object {
    /// The entity tag that S3 gave the content; empty after a mount changed it: then the tag is made of inode number
    /// and generation.
    #[prost(string, tag = "1")]
    pub etag: String,
    /// The header Content-Type.
    #[prost(string, optional, tag = "2")]
    pub content_type: Option<String>,
    /// The header Cache-Control.
    #[prost(string, optional, tag = "3")]
    pub cache_control: Option<String>,
    /// The header Content-Disposition.
    #[prost(string, optional, tag = "4")]
    pub content_disposition: Option<String>,
    /// The header Content-Encoding.
    #[prost(string, optional, tag = "5")]
    pub content_encoding: Option<String>,
    /// The header Content-Language.
    #[prost(string, optional, tag = "6")]
    pub content_language: Option<String>,
    /// The header Expires.
    #[prost(string, optional, tag = "7")]
    pub expires: Option<String>,
    /// User metadata.
    #[prost(btree_map = "string, string", tag = "8")]
    pub metadata: BTreeMap<String, String>,
    /// Tags.
    #[prost(btree_map = "string, string", tag = "9")]
    pub tags: BTreeMap<String, String>,
    /// Checksums of the content; removed when a mount changes it.
    #[prost(message, repeated, tag = "10")]
    pub checksums: Vec<StoredChecksum>,
    /// The number of parts it was uploaded in; zero if it was uploaded whole.
    #[prost(uint32, tag = "11")]
    pub parts: u32,
    /// The version's order in a bucket that keeps versions; zero for the version `null`.
    #[prost(uint64, tag = "12")]
    pub version: u64,
    /// Retention (S3 API, PutObjectRetention).
    #[prost(message, optional, tag = "13")]
    pub retention: Option<Retention>,
    /// Whether a legal hold is on (S3 API, PutObjectLegalHold).
    #[prost(bool, tag = "14")]
    pub legal_hold: bool,
    /// Whether there is a record of its parts, which stays when a mount changes the content, until the content is
    /// removed.
    #[prost(bool, tag = "15")]
    pub part_table: bool,
    /// Whether a legal hold was removed, or a request said that there is none.
    #[prost(bool, tag = "16")]
    pub hold_off: bool,
    /// The storage class that the request named; absent is STANDARD.
    #[prost(string, optional, tag = "17")]
    pub storage_class: Option<String>,
    /// The redirect of website requests for the object (x-amz-website-redirect-location).
    #[prost(string, optional, tag = "20")]
    pub website_redirect: Option<String>,
    /// The id of the account that owns the object; zero is the owner of its bucket.
    #[prost(uint64, tag = "21")]
    pub owner: u64,
    /// Its access control list; none is `private`.
    #[prost(message, optional, tag = "22")]
    pub acl: Option<AccessList>,
}

/// How long an object version has to be kept (S3 API, PutObjectRetention).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Retention {
    /// Its mode: a [`RetentionMode`].
    #[prost(enumeration = "RetentionMode", tag = "1")]
    pub mode: i32,
    /// The end of the retention, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "2")]
    pub until: i64,
}

/// Who may shorten a retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum RetentionMode {
    /// Not set: the record is damaged.
    None = 0,
    /// Accounts that may bypass governance.
    Governance = 1,
    /// Nobody.
    Compliance = 2,
}

/// A checksum.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StoredChecksum {
    /// The algorithm's name.
    #[prost(string, tag = "1")]
    pub algorithm: String,
    /// The value, as S3 encodes it.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// The record of a directory entry: what a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Dirent {
    /// The inode's number; never zero.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// The inode's type: an [`InodeKind`].
    #[prost(enumeration = "InodeKind", tag = "2")]
    pub kind: i32,
}

impl Object {
    /// Whether the record refers to accounts: its owner, or those in its access control list.
    pub fn names_accounts(&self) -> bool {
        self.owner != 0 || self.acl.is_some()
    }

    /// Adapts it to an object that is one part, such as a copy: it has no count of parts, and no checksum of the parts'
    /// checksums, whose form is `VALUE-COUNT`.
    pub fn become_whole(&mut self) {
        (self.parts, self.part_table) = (0, false);
        self.checksums.retain(|sum| !sum.value.contains('-'));
    }
}

impl Dirent {
    /// A directory entry for `ino`.
    pub fn new(ino: u64, kind: InodeKind) -> Self {
        Self { ino, kind: kind as i32 }
    }

    /// Whether it is of a type that S3 sees: a file or a directory.
    pub fn is_key(&self) -> bool {
        matches!(self.kind(), InodeKind::File | InodeKind::Directory)
    }
}

impl Inode {
    /// A new inode with one name and no content.
    pub fn new(kind: InodeKind, now: Timestamp) -> Self {
        let nlink = if kind == InodeKind::Directory { 2 } else { 1 };
        let Timestamp(now) = now;
        let times = Self { atime: now, mtime: now, ctime: now, btime: now, changed: now, ..Self::default() };
        Self { kind: kind as i32, nlink, ..times }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == InodeKind::Directory
    }

    /// For a directory: whether it is a key, or contains one at any depth.
    pub fn leads_to_a_key(&self) -> bool {
        !self.implicit || self.keys > 0
    }

    /// The inode's in-place blob, if it has one.
    pub fn in_place(&self) -> Option<u64> {
        match &self.content {
            Some(Content::Blob(content)) if content.in_place => Some(content.id),
            Some(Content::Extents(content)) => content.in_place,
            _ => None,
        }
    }

    /// Whether a flag of chattr(1) forbids every change.
    pub fn is_immutable(&self) -> bool {
        self.flags & flag::IMMUTABLE != 0
    }

    /// Whether a flag of chattr(1) forbids every change except growth at the end.
    pub fn is_append_only(&self) -> bool {
        self.flags & flag::APPEND_ONLY != 0
    }

    /// Whether a flag of chattr(1) protects names, attributes and existing content.
    pub fn is_fixed(&self) -> bool {
        self.is_immutable() || self.is_append_only()
    }

    /// The bytes that count against the quota: the size, and the space reserved beyond it.
    pub fn charged(&self) -> u64 {
        self.size.max(self.reserved)
    }

    /// The space that its content takes in blobs, in units of 512 bytes.
    pub fn taken(&self) -> u64 {
        self.charged().div_ceil(512).saturating_sub(self.holes)
    }

    /// Sets the space that its content takes in blobs, in units of 512 bytes.
    pub fn take(&mut self, taken: u64) {
        self.holes = self.charged().div_ceil(512).saturating_sub(taken);
    }

    /// When it was created or its content was last changed; mounts cannot set this time.
    pub fn written(&self) -> Timestamp {
        Timestamp(if self.changed == 0 { self.mtime.max(self.btime) } else { self.changed })
    }

    /// Records a change of content and attributes.
    pub fn touch_content(&mut self, now: Timestamp) {
        (self.mtime, self.ctime, self.changed) = (now.0, now.0, now.0);
    }

    /// Records that a mount changed the content: entity tag and checksums from S3 are no longer valid.
    pub fn changed_by_mount(&mut self, now: Timestamp) {
        self.touch_content(now);
        self.generation += 1;
        if let Some(object) = &mut self.object {
            object.etag.clear();
            object.checksums.clear();
            object.parts = 0;
            // As after a PUT without an ACL: content written by a mount does not get the ACL of other content.
            (object.owner, object.acl) = (0, None);
        }
    }

    /// The entity tag: the one that S3 gave, or else one with the form of a multipart upload's, so that no client takes
    /// it for an MD5.
    pub fn etag(&self, ino: u64) -> String {
        match &self.object {
            Some(object) if !object.etag.is_empty() => object.etag.clone(),
            _ => format!("{ino:016x}{:016x}-1", self.generation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    fn sample() -> Inode {
        let mut inode = Inode::new(InodeKind::File, Timestamp(-5));
        inode.size = 3;
        inode.content = Some(Content::Inline(Bytes::from_static(b"abc")));
        inode.object = Some(Object { etag: "x".into(), version: 9, ..Object::default() });
        inode.xattrs.insert("user.a".into(), vec![0, 255]);
        inode
    }

    #[test]
    fn inodes_round_trip() {
        let bytes = sample().encode_to_vec();
        assert_eq!(decode::<Inode>("an inode", &bytes).unwrap(), sample());
    }

    #[test]
    fn a_changed_byte_never_panics_and_never_reads_as_the_same() {
        let bytes = sample().encode_to_vec();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            if let Ok(read) = decode::<Inode>("an inode", &damaged) {
                assert_ne!(read, sample(), "byte {at}");
            }
        }
    }

    #[test]
    fn a_mount_change_makes_another_entity_tag_each_time() {
        let mut inode = sample();
        let first = inode.etag(1);
        inode.changed_by_mount(Timestamp(1));
        let second = inode.etag(1);
        inode.changed_by_mount(Timestamp(1));
        assert!(first != second && second != inode.etag(1));
        assert!(second.ends_with("-1"));
    }
}
