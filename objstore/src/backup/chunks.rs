//! Content-defined chunking of messages, so that two backups with the same messages share chunks.

use prost::Message;

use super::folder::Folder;
use super::format::{Chunk, MESSAGE_MAX, MESSAGES_CUT, next_message};
use crate::error::{Error, Result};

/// The smallest chunk of messages, except the last.
const SMALLEST: usize = 32 << 10;
/// Beyond the smallest size, one message in this many ends a chunk.
const ENDS: u32 = 256;

/// A writer of messages.
#[derive(Default)]
pub(super) struct Writer {
    buffer: Vec<u8>,
    chunks: Vec<Chunk>,
    /// Bytes written to the folder.
    pub sent_bytes: u64,
}

impl Writer {
    /// Adds a message; `mark` identifies it, and is the same in each backup.
    pub(super) fn add(&mut self, folder: &Folder, message: &impl Message, mark: &[u8]) -> Result<()> {
        let length = message.encoded_len() as u64;
        if length > MESSAGE_MAX {
            let why = format!(
                "a record of {length} bytes is too long for a backup, which takes {MESSAGE_MAX}: a file with fewer holes has a shorter one"
            );
            return Err(Error::Unusable { why });
        }
        self.buffer.extend_from_slice(&message.encode_length_delimited_to_vec());
        let ends = self.buffer.len() >= SMALLEST && crc_fast::crc32_iscsi(mark).is_multiple_of(ENDS);
        if ends || self.buffer.len() as u64 >= MESSAGES_CUT { self.cut(folder) } else { Ok(()) }
    }

    fn cut(&mut self, folder: &Folder) -> Result<()> {
        let length = self.buffer.len() as u64;
        let (hash, sent) = folder.put_chunk(&self.buffer)?;
        self.sent_bytes += sent;
        self.chunks.push(Chunk { hash, length });
        self.buffer.clear();
        Ok(())
    }

    /// Finishes and returns the chunks.
    pub(super) fn finish(mut self, folder: &Folder) -> Result<(Vec<Chunk>, u64)> {
        if !self.buffer.is_empty() {
            self.cut(folder)?;
        }
        Ok((self.chunks, self.sent_bytes))
    }
}

/// A reader of messages in order.
pub(super) struct Reader<'a> {
    folder: &'a Folder,
    chunks: std::slice::Iter<'a, Chunk>,
    chunk: bytes::Bytes,
}

impl<'a> Reader<'a> {
    pub(super) fn new(folder: &'a Folder, chunks: &'a [Chunk]) -> Self {
        Self { folder, chunks: chunks.iter(), chunk: bytes::Bytes::new() }
    }

    pub(super) fn next<M: Message + Default>(&mut self) -> Result<Option<M>> {
        while self.chunk.is_empty() {
            let Some(next) = self.chunks.next() else { return Ok(None) };
            self.chunk = self.folder.messages(next)?.into();
        }
        next_message(&mut self.chunk).map(Some)
    }
}
