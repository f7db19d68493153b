//! What a listing reads of an inode: the same record as [`Inode`](super::inode::Inode), most of it passed over.
//!
//! - Field numbers and meanings are those of `Inode` and its `Object`; nothing is ever written from here.
//! - Content in the record, attributes and user metadata are not copied out: a page reads a thousand records.

use prost::Message;

use super::inode::StoredChecksum;

/// An inode, as a listing shows it.
#[derive(Clone, PartialEq, Message)]
pub struct ListedInode {
    /// Content last changed, nanoseconds since 1970.
    #[prost(sfixed64, tag = "8")]
    pub mtime: i64,
    /// Size of the content, in bytes.
    #[prost(uint64, tag = "11")]
    pub size: u64,
    /// Changes of the content, counted.
    #[prost(uint64, tag = "12")]
    pub generation: u64,
    /// Of a directory: set if only keys below it imply it.
    #[prost(bool, tag = "13")]
    pub implicit: bool,
    /// Of a directory: names in it that S3 sees.
    #[prost(uint64, tag = "15")]
    pub keys: u64,
    /// What S3 keeps with the content.
    #[prost(message, optional, tag = "20")]
    pub object: Option<ListedObject>,
}

/// What S3 keeps with an object, as a listing shows it.
#[derive(Clone, PartialEq, Message)]
pub struct ListedObject {
    /// The entity tag S3 gave the content; empty once a mount changed it.
    #[prost(string, tag = "1")]
    pub etag: String,
    /// Checksums of the content.
    #[prost(message, repeated, tag = "10")]
    pub checksums: Vec<StoredChecksum>,
}

impl ListedInode {
    /// Whether it, or something in it, is a key: an implicit directory is none, but holds one (the module `tree`).
    pub fn leads_to_a_key(&self) -> bool {
        !self.implicit || self.keys > 0
    }

    /// The entity tag, taken out: the one [`Inode::etag`](super::inode::Inode::etag) gives.
    pub fn take_etag(&mut self, ino: u64) -> String {
        let given = self.object.as_mut().map(|object| std::mem::take(&mut object.etag));
        let given = given.filter(|etag| !etag.is_empty());
        given.unwrap_or_else(|| format!("{ino:016x}{:016x}-1", self.generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::record::decode;
    use crate::record::inode::{Content, Inode, InodeKind, Object};

    #[test]
    fn a_listing_reads_what_the_inode_says() {
        let checksums = vec![StoredChecksum { algorithm: "CRC32".into(), value: "y/Q5Jg==".into() }];
        let object = Object { etag: "tag".into(), content_type: Some("text/plain".into()), ..Object::default() };
        let mut inode = Inode::new(InodeKind::File, Timestamp(7));
        (inode.mtime, inode.size, inode.generation, inode.implicit, inode.keys) = (-8, 9, 10, true, 11);
        inode.content = Some(Content::Inline(vec![1; 100]));
        inode.object = Some(Object { checksums: checksums.clone(), version: 3, ..object });
        inode.xattrs.insert("user.a".into(), vec![0, 255]);
        let mut listed: ListedInode = decode("an inode", &inode.encode_to_vec()).unwrap();
        let object = Some(ListedObject { etag: "tag".into(), checksums });
        assert_eq!(listed, ListedInode { mtime: -8, size: 9, generation: 10, implicit: true, keys: 11, object });
        assert_eq!(listed.take_etag(12), inode.etag(12));
        inode.changed_by_mount(Timestamp(9));
        let mut listed: ListedInode = decode("an inode", &inode.encode_to_vec()).unwrap();
        assert_eq!(listed.take_etag(12), inode.etag(12));
    }
}
