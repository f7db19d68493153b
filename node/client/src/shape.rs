//! Calls in the shape in which they fit into frames, and how large their answers may be.

use node_wire::header::{HEAD_BYTES, SMALL_PAYLOAD_BYTES};
use objstore_files::{AttributeOp, ContentOp, NAME_BYTES_MAX, NameOp, Op};

/// What a name takes in a head besides its bytes, at most.
const ENTRY_BYTES: usize = 24;
/// The most names in one head.
const NAMES_PER_CALL: usize = (HEAD_BYTES as usize - (8 << 10)) / (NAME_BYTES_MAX + ENTRY_BYTES);

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
        Op::Attributes(AttributeOp::Xattr { .. }) => SMALL_PAYLOAD_BYTES,
        Op::Attributes(AttributeOp::Xattrs { .. }) => XATTRS_BYTES,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use node_codec::{encode_call, encode_reply};
    use objstore_files::{Answer, Context, DirEntry, Kind, Names, Reply};

    use super::*;

    #[test]
    fn the_most_names_fit_into_the_head_of_a_call_and_of_a_reply() {
        let entry = DirEntry { name: "x".repeat(NAME_BYTES_MAX), ino: u64::MAX, kind: Kind::File };
        let entries = vec![entry; NAMES_PER_CALL];
        let context = Context { session: u64::MAX, caller: None, request: None };
        let lookup = NameOp::LookupAll { parent: u64::MAX, entries: entries.clone().into(), listed: true };
        let call = encode_call(&context, &lookup.into());
        let names = Reply::Names(Names { entries, next: Some("x".repeat(4096)) });
        let (reply, _) = encode_reply(&Ok(Answer { reply: names, recorded: false }));
        for length in [call.len(), reply.len()] {
            assert!(length < HEAD_BYTES as usize - 1024, "{length}");
        }
    }
}
