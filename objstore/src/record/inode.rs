//! Records of inodes, of the names that lead to them, and of where their content lies.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use crate::clock::Timestamp;

/// What an inode is; zero is never written.
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

/// The parent of a file that was replaced or unlinked while a mount held it, and is kept as a version.
pub const RETIRED: u64 = u64::MAX;

/// A file, directory or other node of the tree, as one branch sees it.
#[derive(Clone, PartialEq, Message)]
pub struct Inode {
    /// What it is.
    #[prost(enumeration = "InodeKind", tag = "1")]
    pub kind: i32,
    /// Permission bits.
    #[prost(uint32, tag = "2")]
    pub mode: u32,
    /// Owner.
    #[prost(uint32, tag = "3")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, tag = "4")]
    pub gid: u32,
    /// Names that lead here; of a directory two and one for each directory in it.
    #[prost(uint32, tag = "5")]
    pub nlink: u32,
    /// Device number.
    #[prost(uint32, tag = "6")]
    pub rdev: u32,
    /// Last read, nanoseconds since 1970.
    #[prost(sfixed64, tag = "7")]
    pub atime: i64,
    /// Content last changed.
    #[prost(sfixed64, tag = "8")]
    pub mtime: i64,
    /// Attributes last changed.
    #[prost(sfixed64, tag = "9")]
    pub ctime: i64,
    /// Made.
    #[prost(sfixed64, tag = "10")]
    pub btime: i64,
    /// Size of the content, in bytes.
    #[prost(uint64, tag = "11")]
    pub size: u64,
    /// Changes of the content, counted.
    #[prost(uint64, tag = "12")]
    pub generation: u64,
    /// Of a directory: set if only what lies in it implies it; S3 does not list it and prunes it with its last name.
    #[prost(bool, tag = "13")]
    pub implicit: bool,
    /// Of a directory: names in it.
    #[prost(uint64, tag = "14")]
    pub entries: u64,
    /// Of a directory: names in it that S3 sees. These are files, and directories that lead to a key.
    #[prost(uint64, tag = "15")]
    pub keys: u64,
    /// The directory it lies in; of a file with several names, under one of them. Zero: not known. [`RETIRED`]: the file
    /// is a version that is no longer current.
    #[prost(uint64, tag = "16")]
    pub parent: u64,
    /// Its name there; of what is retired, its key.
    #[prost(string, tag = "22")]
    pub name: String,
    /// Where the content lies; none is empty or a hole.
    #[prost(oneof = "Content", tags = "17, 18, 19")]
    pub content: Option<Content>,
    /// What S3 keeps with the content; absent until S3 wrote it or it got metadata.
    #[prost(message, optional, tag = "20")]
    pub object: Option<Object>,
    /// Extended attributes.
    #[prost(btree_map = "string, bytes", tag = "21")]
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// When it was made, or its content last changed, whatever time a mount set; zero if an early build wrote it.
    #[prost(sfixed64, tag = "23")]
    pub changed: i64,
    /// Of a file in blobs: how much less space it takes there than [`Inode::charged`] asks for, in units of 512 bytes.
    #[prost(uint64, tag = "24")]
    pub holes: u64,
    /// Of a file: up to which byte space is reserved for it (fallocate(2), FALLOC_FL_KEEP_SIZE). Past the end of the file
    /// it counts against the quota; otherwise it says nothing.
    #[prost(uint64, tag = "25")]
    pub reserved: u64,
    /// Flags of chattr(1): bits of [`flag`].
    #[prost(uint32, tag = "26")]
    pub flags: u32,
    /// Of a directory with names in it: an upper bound of the length in bytes of all paths below it, each from the
    /// directory, with the `/` that ends a directory's. Deletions leave it as it is. Zero: not known, since an earlier
    /// version put the names there.
    #[prost(uint32, tag = "27")]
    pub reach: u32,
    /// Whether the name it is found under may carry a copy of what listings show ([`Shown`](super::listed::Shown)).
    #[prost(bool, tag = "30")]
    pub shown: bool,
}

/// Bits of [`Inode::flags`]; a bit is never used again.
pub mod flag {
    /// Nobody changes content, attributes or names (FS_IMMUTABLE_FL).
    pub const IMMUTABLE: u32 = 1 << 0;
    /// Content only grows at its end; of a directory, names only come (FS_APPEND_FL).
    pub const APPEND_ONLY: u32 = 1 << 1;
    /// dump(8) leaves it out (FS_NODUMP_FL).
    pub const NO_DUMP: u32 = 1 << 2;
}

/// Where an inode's content lies.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Content {
    /// Here.
    #[prost(bytes = "bytes", tag = "17")]
    Inline(Bytes),
    /// In one blob; past the blob's end are zeros.
    #[prost(message, tag = "18")]
    Blob(BlobContent),
    /// In the inode's extent records; between them are zeros.
    #[prost(message, tag = "19")]
    Extents(ExtentContent),
}

impl Content {
    /// Whether all of it lies in the inode's own blob.
    pub fn is_home(&self) -> bool {
        matches!(self, Self::Blob(content) if content.home)
    }
}

/// Content in one blob, from its first byte.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BlobContent {
    /// The blob.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Whether the blob is this inode's own, to be written in place by the branch that wrote this record.
    #[prost(bool, tag = "2")]
    pub home: bool,
}

/// Content in extents.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ExtentContent {
    /// The inode's own blob, where a byte lies at its offset in the file; to be written in place by the branch that
    /// wrote this record.
    #[prost(uint64, optional, tag = "1")]
    pub home: Option<u64>,
}

/// A range of an inode's content in a blob.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Extent {
    /// The blob.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
    /// Where in the blob it begins.
    #[prost(uint64, tag = "2")]
    pub blob_offset: u64,
    /// Its length, in bytes; never zero.
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

/// What S3 keeps with an object.
#[derive(Clone, PartialEq, Message)]
pub struct Object {
    /// The entity tag S3 gave the content; empty once a mount changed it: then inode and generation make the tag.
    #[prost(string, tag = "1")]
    pub etag: String,
    /// Content-Type
    #[prost(string, optional, tag = "2")]
    pub content_type: Option<String>,
    /// Cache-Control
    #[prost(string, optional, tag = "3")]
    pub cache_control: Option<String>,
    /// Content-Disposition
    #[prost(string, optional, tag = "4")]
    pub content_disposition: Option<String>,
    /// Content-Encoding
    #[prost(string, optional, tag = "5")]
    pub content_encoding: Option<String>,
    /// Content-Language
    #[prost(string, optional, tag = "6")]
    pub content_language: Option<String>,
    /// Expires
    #[prost(string, optional, tag = "7")]
    pub expires: Option<String>,
    /// User metadata.
    #[prost(btree_map = "string, string", tag = "8")]
    pub metadata: BTreeMap<String, String>,
    /// Tags.
    #[prost(btree_map = "string, string", tag = "9")]
    pub tags: BTreeMap<String, String>,
    /// Checksums of the content; cleared when a mount changes it.
    #[prost(message, repeated, tag = "10")]
    pub checksums: Vec<StoredChecksum>,
    /// Parts it was uploaded in; zero if whole.
    #[prost(uint32, tag = "11")]
    pub parts: u32,
    /// The version's order, in a bucket that keeps versions; zero is the version `null`.
    #[prost(uint64, tag = "12")]
    pub version: u64,
    /// Retention (S3 API, PutObjectRetention).
    #[prost(message, optional, tag = "13")]
    pub retention: Option<Retention>,
    /// Whether a legal hold is on (S3 API, PutObjectLegalHold).
    #[prost(bool, tag = "14")]
    pub legal_hold: bool,
    /// Whether a record of its parts is kept: also after a mount changed the content, until the content goes.
    #[prost(bool, tag = "15")]
    pub part_table: bool,
    /// Whether a legal hold was taken off, or told not to be on.
    #[prost(bool, tag = "16")]
    pub hold_off: bool,
    /// The storage class S3 was told; none is STANDARD.
    #[prost(string, optional, tag = "17")]
    pub storage_class: Option<String>,
}

/// How long an object version has to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Retention {
    /// Its mode.
    #[prost(enumeration = "RetentionMode", tag = "1")]
    pub mode: i32,
    /// Until when, nanoseconds since 1970.
    #[prost(sfixed64, tag = "2")]
    pub until: i64,
}

/// Who may shorten a retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum RetentionMode {
    /// Not set: the record is damaged.
    None = 0,
    /// Who may bypass governance.
    Governance = 1,
    /// Nobody.
    Compliance = 2,
}

/// A checksum.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StoredChecksum {
    /// Its algorithm.
    #[prost(string, tag = "1")]
    pub algorithm: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// What a name in a directory leads to.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Dirent {
    /// The inode; never zero.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// What it is.
    #[prost(enumeration = "InodeKind", tag = "2")]
    pub kind: i32,
}

impl Object {
    /// A copy is one part: it keeps no count of parts, and no checksum of parts' checksums, which are `VALUE-COUNT`.
    pub fn become_whole(&mut self) {
        (self.parts, self.part_table) = (0, false);
        self.checksums.retain(|sum| !sum.value.contains('-'));
    }
}

impl Dirent {
    /// A name for `ino`.
    pub fn new(ino: u64, kind: InodeKind) -> Self {
        Self { ino, kind: kind as i32 }
    }

    /// Whether the name is of a kind that S3 sees: files and directories.
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

    /// Of a directory: whether it is a key, or holds one at any depth.
    pub fn leads_to_a_key(&self) -> bool {
        !self.implicit || self.keys > 0
    }

    /// The blob of its own that it may be changing in place.
    pub fn home(&self) -> Option<u64> {
        match &self.content {
            Some(Content::Blob(content)) if content.home => Some(content.id),
            Some(Content::Extents(content)) => content.home,
            _ => None,
        }
    }

    /// Whether chattr(1) forbids every change.
    pub fn is_immutable(&self) -> bool {
        self.flags & flag::IMMUTABLE != 0
    }

    /// Whether chattr(1) forbids every change but growth at the end.
    pub fn is_append_only(&self) -> bool {
        self.flags & flag::APPEND_ONLY != 0
    }

    /// Whether chattr(1) keeps its names, attributes and what is written.
    pub fn is_fixed(&self) -> bool {
        self.is_immutable() || self.is_append_only()
    }

    /// The bytes that count against the quota: the size, and what is reserved past it.
    pub fn charged(&self) -> u64 {
        self.size.max(self.reserved)
    }

    /// The space that content in blobs takes, in units of 512 bytes.
    pub fn taken(&self) -> u64 {
        self.charged().div_ceil(512).saturating_sub(self.holes)
    }

    /// Notes the space that content in blobs takes, in units of 512 bytes.
    pub fn take(&mut self, taken: u64) {
        self.holes = self.charged().div_ceil(512).saturating_sub(taken);
    }

    /// When it was made or its content last changed, whatever time a mount set.
    pub fn written(&self) -> Timestamp {
        Timestamp(if self.changed == 0 { self.mtime.max(self.btime) } else { self.changed })
    }

    /// Content and attributes changed.
    pub fn touch_content(&mut self, now: Timestamp) {
        (self.mtime, self.ctime, self.changed) = (now.0, now.0, now.0);
    }

    /// A mount changed the content: what S3 said of it no longer holds.
    pub fn changed_by_mount(&mut self, now: Timestamp) {
        self.touch_content(now);
        self.generation += 1;
        if let Some(object) = &mut self.object {
            object.etag.clear();
            object.checksums.clear();
            object.parts = 0;
        }
    }

    /// The entity tag: the one S3 gave, or one shaped like a multipart upload's, so that no client takes it for an
    /// MD5.
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
    use crate::record::decode;

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
