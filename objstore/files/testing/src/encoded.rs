//! A service that encodes and decodes every call and reply, as a node and a store do. The suite fails for a value that
//! the codec loses, and for state that both sides share without the codec.

use bytes::Bytes;
use node_codec::{
    CHANGES_PAGE_MAX, decode_about, decode_call, decode_changes, decode_reply, encode_about, encode_call,
    encode_changes, encode_reply, within_one_reply,
};
use objstore_base::error::{Error, Result};
use objstore_files::{About, Answer, Change, Changes, Context, DATA_BYTES_MAX, FileService, Op, Reply, RequestId};

/// A service behind the codec. It offers no [`LocalFiles`](objstore_files::LocalFiles), as none does whose files lie on
/// another machine.
pub struct Encoded<S>(pub S);

impl<S: FileService> FileService for Encoded<S> {
    fn about(&self) -> About {
        decode_about(&encode_about(&self.0.about())).expect("a session crosses")
    }

    fn call(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        if data.len() > DATA_BYTES_MAX {
            return Err(Error::invalid("bytes to write", data.len().to_string(), "they are more than a call carries"));
        }
        let (context, op) = decode_call(&encode_call(context, &op))?;
        let (head, data) = encode_reply(&self.0.call(&context, within_one_reply(op), data));
        decode_reply(&head, data)?
    }

    fn answered(&self, request: RequestId) {
        self.0.answered(request);
    }

    fn changes(&self) -> Box<dyn Changes> {
        Box::new(EncodedChanges(self.0.changes()))
    }

    fn close_changes(&self) {
        self.0.close_changes();
    }

    fn end(&self) {
        self.0.end();
    }

    fn keeps_locks(&self) -> bool {
        self.0.keeps_locks()
    }
}

/// The bytes of a reply without payload, as the outcome of a call is recorded.
pub fn write_reply(reply: &Reply) -> Vec<u8> {
    encode_reply(&Ok(Answer { reply: reply.clone(), recorded: true })).0
}

/// The reply of [`write_reply`], as a store reads it.
pub fn decoded(bytes: &[u8]) -> Option<Reply> {
    decode_reply(bytes, Bytes::new()).ok()?.ok().map(|answer| answer.reply)
}

/// The reply of [`write_reply`].
///
/// # Panics
/// For other bytes.
pub fn read_reply(bytes: &[u8]) -> Reply {
    decode_reply(bytes, Bytes::new()).expect("the bytes of a reply").expect("a success").reply
}

struct EncodedChanges(Box<dyn Changes>);

impl Changes for EncodedChanges {
    fn next(&mut self) -> Option<Vec<Change>> {
        let batch = self.0.next()?;
        let parts = batch.chunks(CHANGES_PAGE_MAX).map(|part| decode_changes(&encode_changes(part)));
        Some(parts.flat_map(|part| part.expect("changes cross")).collect())
    }

    fn acknowledge(&mut self) {
        self.0.acknowledge();
    }

    fn is_lost(&self) -> bool {
        self.0.is_lost()
    }
}
