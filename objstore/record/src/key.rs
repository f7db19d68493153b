//! The layout of the keys of all records. The table has the kind, the first byte, the further parts and the value.
//!
//! ```text
//! header     01
//! bucket     10 name                                  -> Bucket
//! bucket id  11 id:8                                  -> name
//! clone group 12 group:8                              -> CloneGroup
//! branch     13 group:8 branch:4                      -> Branch
//! usage      14 group:8 branch:4                      -> Usage
//! snapshot   15 name                                  -> Snapshot
//! settings   16 bucket-id:8                           -> Settings
//! group snapshot 18 name                              -> GroupSnapshot
//! content    1e                                       -> ContentPlace
//! placed     1f blob:8                                -> PlacedFile
//! placed chunk 1f blob:8 01 chunk:4                   -> PlacedChunk
//! placed patch 1f blob:8 02 chunk:4 number:4          -> PlacedPatch
//! inode      20 group:8 ino:8 branch:4                -> Inode
//! dirent     21 group:8 parent:8 sort-name 00 branch:4 -> Dirent
//! extent     22 group:8 ino:8 offset:8 branch:4       -> Extent
//! version    23 group:8 key 00 order:8 branch:4       -> Version
//! orphan     24 group:8 ino:8 branch:4                -> (one byte; a tombstone is empty)
//! dead branch 25 group:8 branch:4                     -> (one byte)
//! overridden 26 key of a tree record without its branch -> (one byte)
//! parts      27 group:8 ino:8 branch:4                -> ObjectParts
//! dirty file 28 bucket-id:8 ino:8                     -> DirtyFile
//! blob       30 blob:8                                -> Blob
//! sums       31 blob:8 index:4                        -> Sums
//! segment    32 segment:8                             -> Segment
//! trash      33 order:8                               -> Trash
//! mapped     34 bucket-id:8 ino:8                     -> WritableMapping
//! damaged    35 blob:8                                -> Damaged
//! account    40 name                                  -> Account
//! account id 41 id:8                                  -> name
//! key        42 access-key-id                         -> Key
//! grant      43 bucket-id:8 account-id:8              -> Grant
//! publication 44 bucket-id:8 node                     -> Publication
//! former account 45 name                              -> id:8 of the last deleted account of this name
//! role       46 account-id:8 name                     -> Role
//! volume authority 47                                 -> VolumeAuthority
//! upload     50 bucket-id:8 key 00 upload-id          -> Upload
//! part       51 upload-id 00 number:4                 -> Part
//! completed  52 bucket-id:8 key 00 upload-id          -> Completed
//! lifecycle  60                                       -> Lifecycle
//! scrub      61                                       -> Scrub
//! restore    62 group:8                               -> Restore
//! session    70 session:8                             -> Session
//! replay     71 session:8 request:8                   -> Replay (of another machine's session: the slot is the request)
//! undelivered 72 bucket-id:8 order:8                  -> Undelivered
//! ended      73 id:16, as the node chose it           -> Ended
//! ```
//! Lengths are in bytes, numbers big-endian. Names contain no NUL, so `name 00` keeps their order. Keys that begin with
//! the byte 00 belong to the engine.

/// The id of a clone group: a bucket with its clones and snapshots, which share inode numbers.
pub type CloneGroup = u64;
/// The id of a branch in its clone group. Ids fall, so an ancestor's is larger than its descendants'.
pub type Branch = u32;

/// The first byte of the keys of each kind.
pub mod tag {
    #![expect(missing_docs, reason = "the table at the top of the file describes each")]
    pub const HEADER: u8 = 0x01;
    pub const BUCKET: u8 = 0x10;
    pub const BUCKET_ID: u8 = 0x11;
    pub const CLONE_GROUP: u8 = 0x12;
    pub const BRANCH: u8 = 0x13;
    pub const USAGE: u8 = 0x14;
    pub const SNAPSHOT: u8 = 0x15;
    pub const SETTINGS: u8 = 0x16;
    pub const GROUP_SNAPSHOT: u8 = 0x18;
    pub const CONTENT: u8 = 0x1E;
    pub const PLACED: u8 = 0x1F;
    pub const INODE: u8 = 0x20;
    pub const DIRENT: u8 = 0x21;
    pub const EXTENT: u8 = 0x22;
    pub const VERSION: u8 = 0x23;
    pub const ORPHAN: u8 = 0x24;
    pub const DEAD: u8 = 0x25;
    pub const OVERRIDDEN: u8 = 0x26;
    pub const OBJECT_PARTS: u8 = 0x27;
    pub const DIRTY: u8 = 0x28;
    pub const BLOB: u8 = 0x30;
    pub const SUMS: u8 = 0x31;
    pub const SEGMENT: u8 = 0x32;
    pub const TRASH: u8 = 0x33;
    pub const MAPPED_WRITABLE: u8 = 0x34;
    pub const DAMAGED: u8 = 0x35;
    pub const ACCOUNT: u8 = 0x40;
    pub const ACCOUNT_ID: u8 = 0x41;
    pub const KEY: u8 = 0x42;
    pub const GRANT: u8 = 0x43;
    pub const PUBLICATION: u8 = 0x44;
    pub const FORMER: u8 = 0x45;
    pub const ROLE: u8 = 0x46;
    pub const VOLUME_AUTHORITY: u8 = 0x47;
    pub const UPLOAD: u8 = 0x50;
    pub const PART: u8 = 0x51;
    pub const COMPLETED: u8 = 0x52;
    pub const LIFECYCLE: u8 = 0x60;
    pub const SCRUB: u8 = 0x61;
    pub const RESTORE: u8 = 0x62;
    pub const SESSION: u8 = 0x70;
    pub const REPLAY: u8 = 0x71;
    pub const OWED: u8 = 0x72;
    pub const ENDED: u8 = 0x73;
}

/// The length of the branch id at the end of a tree record's key, in bytes.
pub const BRANCH_BYTES: usize = 4;

/// A key that is built piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBuf(Vec<u8>);

impl KeyBuf {
    /// Begins a key of the given kind.
    pub fn new(tag: u8) -> Self {
        let mut bytes = Vec::with_capacity(48);
        bytes.push(tag);
        Self(bytes)
    }

    /// Adds a number as eight bytes.
    pub fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Adds a number as four bytes.
    pub fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Adds a string at the end of the key, or of a prefix of it.
    pub fn tail(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Adds a string that another piece follows.
    pub fn text(self, text: &str) -> Self {
        let mut key = self.tail(text);
        key.0.push(0);
        key
    }

    /// The finished key.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

/// The smallest key larger than all keys that begin with `prefix`.
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // No key begins with these bytes, since tags are smaller.
    vec![u8::MAX; prefix.len() + 64]
}

/// The key of the store's header.
pub fn header() -> Vec<u8> {
    vec![tag::HEADER]
}

/// The key of the lifecycle worker's position.
pub fn lifecycle() -> Vec<u8> {
    vec![tag::LIFECYCLE]
}

/// The key of the scrub's position.
pub fn scrub() -> Vec<u8> {
    vec![tag::SCRUB]
}

/// The key of the authority of the volume listener.
pub fn volume_authority() -> Vec<u8> {
    vec![tag::VOLUME_AUTHORITY]
}

/// The key of a record that one number identifies.
pub fn by_id(tag: u8, id: u64) -> Vec<u8> {
    KeyBuf::new(tag).u64(id).done()
}

/// The key of a record that one name identifies.
pub fn by_name(tag: u8, name: &str) -> Vec<u8> {
    KeyBuf::new(tag).tail(name).done()
}

/// The key of a record about a branch of a clone group.
pub fn of_branch(tag: u8, clone_group: CloneGroup, branch: Branch) -> Vec<u8> {
    KeyBuf::new(tag).u64(clone_group).u32(branch).done()
}

/// The key of an inode, without the branch.
pub fn inode(clone_group: CloneGroup, ino: u64) -> Vec<u8> {
    KeyBuf::new(tag::INODE).u64(clone_group).u64(ino).done()
}

/// The offset of the number in an inode's key.
pub const INODE_AT: usize = 9;

/// The prefix of all entries of a directory.
pub fn dirents(clone_group: CloneGroup, parent: u64) -> Vec<u8> {
    KeyBuf::new(tag::DIRENT).u64(clone_group).u64(parent).done()
}

/// The key of a directory entry, without the branch.
pub fn dirent(clone_group: CloneGroup, parent: u64, sort_name: &str) -> Vec<u8> {
    KeyBuf::new(tag::DIRENT).u64(clone_group).u64(parent).text(sort_name).done()
}

/// The offset of the sort name in a directory entry's key.
pub const DIRENT_NAME_AT: usize = 17;

/// The key of an extent, without the branch.
pub fn extent(clone_group: CloneGroup, ino: u64, offset: u64) -> Vec<u8> {
    KeyBuf::new(tag::EXTENT).u64(clone_group).u64(ino).u64(offset).done()
}

/// The prefix of all extents of an inode.
pub fn extents(clone_group: CloneGroup, ino: u64) -> Vec<u8> {
    KeyBuf::new(tag::EXTENT).u64(clone_group).u64(ino).done()
}

/// The offset of the extent's offset in its key.
pub const EXTENT_OFFSET_AT: usize = 17;

/// The prefix of all versions of a key.
pub fn versions(clone_group: CloneGroup, key: &str) -> Vec<u8> {
    KeyBuf::new(tag::VERSION).u64(clone_group).text(key).done()
}

/// The prefix of all versions of keys that begin with `prefix`.
pub fn versions_below(clone_group: CloneGroup, prefix: &str) -> Vec<u8> {
    [&KeyBuf::new(tag::VERSION).u64(clone_group).done()[..], prefix.as_bytes()].concat()
}

/// The key of a version, without the branch; `order` falls, so the newest sorts first.
pub fn version(clone_group: CloneGroup, key: &str, order: u64) -> Vec<u8> {
    KeyBuf::new(tag::VERSION).u64(clone_group).text(key).u64(order).done()
}

/// The offset of the object's key in a version's key.
pub const VERSION_KEY_AT: usize = 9;

/// The key that marks an unlinked inode as still in use, without the branch.
pub fn orphan(clone_group: CloneGroup, ino: u64) -> Vec<u8> {
    KeyBuf::new(tag::ORPHAN).u64(clone_group).u64(ino).done()
}

/// The prefix of all marks of unlinked inodes of a clone group.
pub fn orphans(clone_group: CloneGroup) -> Vec<u8> {
    KeyBuf::new(tag::ORPHAN).u64(clone_group).done()
}

/// The key of the parts that an object was uploaded in, without the branch.
pub fn object_parts(clone_group: CloneGroup, ino: u64) -> Vec<u8> {
    KeyBuf::new(tag::OBJECT_PARTS).u64(clone_group).u64(ino).done()
}

/// The key that marks a file of a bucket's writable branch as dirty.
pub fn dirty(bucket: u64, ino: u64) -> Vec<u8> {
    KeyBuf::new(tag::DIRTY).u64(bucket).u64(ino).done()
}

/// The offset of the inode's number in a dirty file's key.
pub const DIRTY_INODE_AT: usize = 9;

/// The key that marks an overridden record: a branch wrote its own in place of an ancestor's, which perhaps no branch
/// reads any more.
pub fn overridden(base: &[u8]) -> Vec<u8> {
    [&[tag::OVERRIDDEN], base].concat()
}

/// The key of one record of a blob's checksums.
pub fn sums(blob: u64, index: u32) -> Vec<u8> {
    KeyBuf::new(tag::SUMS).u64(blob).u32(index).done()
}

/// The prefix of all checksum records of a blob.
pub fn sums_of(blob: u64) -> Vec<u8> {
    KeyBuf::new(tag::SUMS).u64(blob).done()
}

/// The key that marks a file as writable through a memory mapping.
pub fn mapped_writable(bucket: u64, ino: u64) -> Vec<u8> {
    KeyBuf::new(tag::MAPPED_WRITABLE).u64(bucket).u64(ino).done()
}

/// The key of a grant.
pub fn grant(bucket: u64, account: u64) -> Vec<u8> {
    KeyBuf::new(tag::GRANT).u64(bucket).u64(account).done()
}

/// The key of a publication.
pub fn publication(bucket: u64, node: &str) -> Vec<u8> {
    KeyBuf::new(tag::PUBLICATION).u64(bucket).tail(node).done()
}

/// The key of a role of an account.
pub fn role(account: u64, name: &str) -> Vec<u8> {
    KeyBuf::new(tag::ROLE).u64(account).tail(name).done()
}

/// The offset of the role's name in its key.
pub const ROLE_NAME_AT: usize = 9;

/// The key of an upload in progress.
pub fn upload(bucket: u64, key: &str, id: &str) -> Vec<u8> {
    KeyBuf::new(tag::UPLOAD).u64(bucket).text(key).tail(id).done()
}

/// The prefix of all uploads of a bucket to keys that begin with `prefix`.
pub fn uploads(bucket: u64, prefix: &str) -> Vec<u8> {
    KeyBuf::new(tag::UPLOAD).u64(bucket).tail(prefix).done()
}

/// The offset of the object's key in an upload's key.
pub const UPLOAD_KEY_AT: usize = 9;

/// The key of a completed upload.
pub fn completed(bucket: u64, key: &str, id: &str) -> Vec<u8> {
    KeyBuf::new(tag::COMPLETED).u64(bucket).text(key).tail(id).done()
}

/// The prefix of all parts of an upload.
pub fn parts(upload: &str) -> Vec<u8> {
    KeyBuf::new(tag::PART).text(upload).done()
}

/// The key of a part.
pub fn part(upload: &str, number: u32) -> Vec<u8> {
    KeyBuf::new(tag::PART).text(upload).u32(number).done()
}

/// The key of what a session's request did.
pub fn replay(session: u64, request: u64) -> Vec<u8> {
    KeyBuf::new(tag::REPLAY).u64(session).u64(request).done()
}

/// The key of invalidations that mounts of a bucket may not have received.
pub fn undelivered(bucket: u64, order: u64) -> Vec<u8> {
    KeyBuf::new(tag::OWED).u64(bucket).u64(order).done()
}

/// The key of a session of another machine that ended, by the id that its node chose.
pub fn ended(id: u128) -> Vec<u8> {
    [&[tag::ENDED][..], &id.to_be_bytes()].concat()
}

/// The key of the record `base` as written by `branch`.
pub fn branched(base: &[u8], branch: Branch) -> Vec<u8> {
    let mut key = Vec::with_capacity(base.len() + BRANCH_BYTES);
    key.extend_from_slice(base);
    key.extend_from_slice(&branch.to_be_bytes());
    key
}

/// Splits a tree record's key into the key without its branch and the branch; `None` if it is too short.
pub fn unbranched(key: &[u8]) -> Option<(&[u8], Branch)> {
    let (base, branch) = key.split_last_chunk::<BRANCH_BYTES>()?;
    Some((base, Branch::from_be_bytes(*branch)))
}

/// The number at the offset `at`; `None` if the key is too short.
pub fn u64_at(key: &[u8], at: usize) -> Option<u64> {
    key.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// The text from the offset `at` to the NUL that ends it; `None` if there is no NUL or the text is not UTF-8.
pub fn text_at(key: &[u8], at: usize) -> Option<&str> {
    let rest = key.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The key of the record that says where the content of the store is.
pub fn content() -> Vec<u8> {
    vec![tag::CONTENT]
}

/// The beginning of the keys of all chunks of a placed file.
pub fn placed_chunks(blob: u64) -> Vec<u8> {
    [by_id(tag::PLACED, blob), vec![1]].concat()
}

/// The key of a chunk of a placed file.
pub fn placed_chunk(blob: u64, chunk: u32) -> Vec<u8> {
    [&placed_chunks(blob)[..], &chunk.to_be_bytes()].concat()
}

/// The beginning of the keys of all patches of a placed file.
pub fn placed_patches(blob: u64) -> Vec<u8> {
    [by_id(tag::PLACED, blob), vec![2]].concat()
}

/// The beginning of the keys of the patches of a chunk.
pub fn placed_patches_of(blob: u64, chunk: u32) -> Vec<u8> {
    [&placed_patches(blob)[..], &chunk.to_be_bytes()].concat()
}

/// The key of a patch.
pub fn placed_patch(blob: u64, chunk: u32, number: u32) -> Vec<u8> {
    [&placed_patches_of(blob, chunk)[..], &number.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn dirent_keys_sort_as_their_names_do(a in "[a-c/.-]{0,6}", b in "[a-c/.-]{0,6}", x: u32, y: u32) {
            let key = |name: &str, branch| branched(&dirent(7, 9, name), branch);
            let order = a.as_bytes().cmp(b.as_bytes()).then(x.cmp(&y));
            prop_assert_eq!(key(&a, x).cmp(&key(&b, y)), order);
        }

        #[test]
        fn dirent_keys_read_back(name in "[^\0]{0,300}", branch: u32) {
            let key = branched(&dirent(7, 9, &name), branch);
            let (base, read) = unbranched(&key).unwrap();
            prop_assert_eq!(read, branch);
            prop_assert_eq!(text_at(base, DIRENT_NAME_AT), Some(name.as_str()));
        }

        #[test]
        fn after_prefix_is_above_all_and_below_the_next(prefix in proptest::collection::vec(any::<u8>(), 1..6), rest in proptest::collection::vec(any::<u8>(), 0..6)) {
            let mut key = prefix.clone();
            key.extend(rest);
            prop_assert!(key < after_prefix(&prefix));
        }
    }

    #[test]
    fn extent_keys_hold_their_offset() {
        let key = extent(1, 2, 77);
        assert_eq!(u64_at(&key, EXTENT_OFFSET_AT), Some(77));
    }
}
