//! Calls in the shape in which they fit into frames, and how large their answers may be.

use node_wire::header::SMALL_PAYLOAD_BYTES;
use objstore_files::{AttributeOp, ContentOp, LockOp, NAME_BYTES_MAX, NameOp, Op};

/// What a name takes in a reply besides its bytes, at most.
const ENTRY_BYTES: usize = 24;
/// The most names in one reply on the connection for calls.
const NAMES_PER_CALL: usize = (SMALL_PAYLOAD_BYTES as usize - (8 << 10)) / (NAME_BYTES_MAX + ENTRY_BYTES);

/// The payload for names and values of all extended attributes of an inode.
const XATTRS_BYTES: u32 = 1 << 20;

/// The operation, asked for no more than one frame can carry.
pub(crate) fn within_one_frame(op: Op<'_>) -> Op<'_> {
    match op {
        Op::Names(NameOp::ReadDir { ino, after, limit }) => {
            let most = u32::try_from(NAMES_PER_CALL).unwrap_or(u32::MAX);
            NameOp::ReadDir { ino, after, limit: limit.clamp(1, most) }.into()
        }
        other => other,
    }
}

/// The most payload that the answer to an operation has: bytes of a file or of an attribute, or a reply that is too long
/// for a head.
pub(crate) fn reply_bytes(op: &Op<'_>) -> u32 {
    match op {
        Op::Content(ContentOp::Read { len, .. }) => *len,
        Op::Names(NameOp::ReadDir { .. } | NameOp::LookupAll { .. }) => SMALL_PAYLOAD_BYTES,
        Op::Attributes(AttributeOp::Xattr { .. }) => SMALL_PAYLOAD_BYTES,
        Op::Attributes(AttributeOp::Xattrs { .. }) => XATTRS_BYTES,
        Op::Locks(LockOp::Files { .. }) => SMALL_PAYLOAD_BYTES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use node_codec::encode_reply;
    use node_codec::session::LOOKUPS_PER_CALL;
    use objstore_base::clock::Timestamp;
    use objstore_files::{Answer, Attr, DirEntry, Kind, Names, Reply};

    use super::*;

    fn length(reply: Reply) -> usize {
        encode_reply(&Ok(Answer { reply, recorded: false })).0.len()
    }

    #[test]
    fn the_longest_replies_fit_into_what_their_calls_announce() {
        let entry = DirEntry { name: "x".repeat(NAME_BYTES_MAX), ino: u64::MAX, kind: Kind::File };
        let names = Reply::Names(Names { entries: vec![entry; NAMES_PER_CALL], next: Some("x".repeat(4096)) });
        let time = Timestamp::from_parts(i64::MIN, 999_999_999);
        let attr = Attr {
            ino: u64::MAX,
            kind: Kind::BlockDevice,
            mode: u32::MAX,
            uid: u32::MAX,
            gid: u32::MAX,
            nlink: u32::MAX,
            size: u64::MAX,
            blocks: u64::MAX,
            rdev: u32::MAX,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        };
        let attrs = Reply::Attrs((0..LOOKUPS_PER_CALL).map(|_| Ok(attr)).collect());
        for length in [length(names), length(attrs)] {
            assert!(length < SMALL_PAYLOAD_BYTES as usize, "{length}");
        }
    }
}
