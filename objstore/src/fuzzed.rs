//! The bodies of the fuzz targets (`fuzz/`): decoders of untrusted bytes, called with arbitrary bytes.
//!
//! - Each function accepts any bytes and panics only where a guarantee is broken.
//! - The corpora run as ordinary tests, below.

use std::collections::BTreeMap;

use prost::Message;

pub use crate::backup::fuzzed::Restoring;
use crate::name::{BucketName, KEY_BYTES_MAX, Key};
use crate::record::acl::Acl;
use crate::record::{
    Header, account, blob, bucket, damage, decode, dirty, inode, key, lifecycle, listed, restore, scrub, session,
    settings, upload, version,
};

/// Object keys and names of buckets.
pub fn key(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(key) = text.parse::<Key>() {
        assert!((1..=KEY_BYTES_MAX).contains(&key.as_str().len()) && !key.as_str().contains('\0'));
        let (mut parts, last) = key.split();
        parts.push(last.unwrap_or_default());
        assert_eq!(parts.join("/"), key.as_str(), "a key is its components");
        assert!(parts.iter().all(|part| !part.contains('/')));
    }
    if let Ok(name) = text.parse::<BucketName>() {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
        assert!(name.as_str().bytes().all(plain) && !name.as_str().contains(".."), "a name is one folder or host");
    }
}

/// Values of records: the first byte selects the kind, the rest is the value. What decodes must encode to bytes that
/// decode to the same value.
pub fn record(bytes: &[u8]) {
    let Some((clone_group, value)) = bytes.split_first() else { return };
    let clone_groups: [fn(&[u8]); 36] = [
        again::<Header>,
        again::<account::Account>,
        again::<account::Key>,
        again::<account::Grant>,
        again::<account::Publication>,
        again::<blob::Blob>,
        again::<blob::Sums>,
        again::<blob::Segment>,
        again::<blob::WritableMapping>,
        again::<blob::Trash>,
        again::<bucket::Bucket>,
        again::<bucket::CloneGroup>,
        again::<bucket::Branch>,
        again::<bucket::Snapshot>,
        again::<bucket::Usage>,
        again::<inode::Inode>,
        again::<inode::Extent>,
        again::<inode::Dirent>,
        again::<lifecycle::Lifecycle>,
        again::<listed::ListedDirent>,
        again::<listed::ListedInode>,
        again::<dirty::DirtyFile>,
        again::<session::Session>,
        again::<session::Replay>,
        again::<session::Undelivered>,
        again::<settings::Settings>,
        again::<upload::Upload>,
        again::<upload::Part>,
        again::<upload::Completed>,
        again::<upload::ObjectParts>,
        again::<version::Version>,
        again::<damage::Damaged>,
        again::<restore::Restore>,
        again::<scrub::Scrub>,
        again::<session::Ended>,
        again::<bucket::GroupSnapshot>,
    ];
    clone_groups[usize::from(*clone_group) % clone_groups.len()](value);
    asked(value);
}

fn again<M: Message + Default + PartialEq>(value: &[u8]) {
    let Ok(read) = decode::<M>("a record", value) else { return };
    let written = read.encode_to_vec();
    assert!(decode::<M>("a record", &written).is_ok_and(|again| again == read), "it is read as it was written");
}

/// The operations that the store performs on decoded records.
fn asked(value: &[u8]) {
    if let Ok(blob) = decode::<blob::Blob>("a blob", value) {
        let _ = blob.place();
    }
    if let Ok(inode) = decode::<inode::Inode>("an inode", value) {
        let _ = (inode.etag(7), inode.is_dir(), inode.in_place(), inode.written());
    }
    if let Ok(listed) = decode::<listed::ListedDirent>("a name", value) {
        let _ = listed.dirent();
    }
}

/// Keys of records, and access control lists as a mount sets them.
pub fn layout(bytes: &[u8]) {
    let _ = (key::unbranched(bytes), key::u64_at(bytes, 1), key::u64_at(bytes, 9), key::text_at(bytes, 9));
    let end = key::after_prefix(bytes);
    assert!(end.is_empty() || end.as_slice() > bytes, "the end lies behind the prefix");
    if let Ok(Some(acl)) = Acl::parse(bytes) {
        assert_eq!(Acl::parse(&acl.bytes()).ok().flatten().as_ref(), Some(&acl), "it is read as it was written");
        let _ = (acl.fits(), acl.is_mode(), acl.mode(), acl.group(), acl.entries().len());
    }
}

/// The targets by name, except those that need a [`Restoring`].
pub fn targets() -> BTreeMap<&'static str, fn(&[u8])> {
    BTreeMap::from([("key", key as fn(&[u8])), ("record", record), ("layout", layout)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpora_break_no_promise() {
        for (name, target) in targets() {
            corpora::run(name, target);
        }
    }

    #[test]
    fn no_folder_of_the_corpus_breaks_the_store_that_restores_it() {
        let restoring = Restoring::start();
        corpora::run("backup", |bytes| restoring.restore(bytes));
    }
}
