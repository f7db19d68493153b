//! A frame: its header, its head and its payload, in memory.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::header::{Bounds, HEADER_BYTES, Header, Invalid, Kind, Role};

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is for.
    pub kind: Kind,
    /// The role of its connection.
    pub role: Role,
    /// Bits of [`flag`](crate::header::flag).
    pub flags: u8,
    /// The number of the request.
    pub number: u64,
    /// The largest payload that the answer may have.
    pub reply_bytes: u32,
    /// The head: the bytes of a prost message.
    pub head: Bytes,
    /// The payload.
    pub payload: Bytes,
}

impl Frame {
    /// A frame without a number and payload.
    pub fn new(kind: Kind, role: Role, head: impl Into<Bytes>) -> Self {
        Self { kind, role, flags: 0, number: 0, reply_bytes: 0, head: head.into(), payload: Bytes::new() }
    }

    /// This frame with the number of a request.
    #[must_use]
    pub fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// This frame with a payload.
    #[must_use]
    pub fn with_payload(self, payload: Bytes) -> Self {
        Self { payload, ..self }
    }

    /// The header; a length beyond 4 GiB reads as the largest one, which every bound refuses.
    pub fn header(&self) -> Header {
        let length = |part: &Bytes| u32::try_from(part.len()).unwrap_or(u32::MAX);
        Header {
            kind: self.kind,
            role: self.role,
            flags: self.flags,
            number: self.number,
            head_bytes: length(&self.head),
            payload_bytes: length(&self.payload),
            reply_bytes: self.reply_bytes,
        }
    }

    /// The bytes of the whole frame.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + self.head.len() + self.payload.len());
        bytes.put_slice(&self.header().encode());
        bytes.put_slice(&self.head);
        bytes.put_slice(&self.payload);
        bytes.freeze()
    }

    /// Reads one frame from the beginning of `bytes`, and returns the rest too.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn decode(bytes: &Bytes, bounds: Bounds) -> Result<(Self, Bytes), Invalid> {
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(Invalid::Short)?;
        let header = Header::decode(header, bounds)?;
        let end = HEADER_BYTES + body_bytes(&header);
        if bytes.len() < end {
            return Err(Invalid::Short);
        }
        Ok((Self::of(&header, bytes.slice(HEADER_BYTES..end)), bytes.slice(end..)))
    }

    /// A frame from its header and the bytes after it, which are as many as the header says.
    pub(crate) fn of(header: &Header, body: Bytes) -> Self {
        let (mut head, head_bytes) = (body, usize_of(header.head_bytes));
        let payload = head.split_off(head_bytes.min(head.len()));
        let Header { kind, role, flags, number, reply_bytes, .. } = *header;
        Self { kind, role, flags, number, reply_bytes, head, payload }
    }
}

/// The length of what follows a header.
pub(crate) fn body_bytes(header: &Header) -> usize {
    usize_of(header.head_bytes) + usize_of(header.payload_bytes)
}

fn usize_of(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_as_it_was_written_and_leaves_the_rest() {
        let frame = Frame::new(Kind::Request, Role::Bulk, "head").numbered(7).with_payload("payload".into());
        let mut bytes = frame.encode().to_vec();
        bytes.extend(b"next");
        let bytes = Bytes::from(bytes);
        assert_eq!(Frame::decode(&bytes, Role::Bulk.bounds()), Ok((frame, "next".into())));
        for length in 0..bytes.len() - 4 {
            let cut = bytes.slice(..length);
            assert_eq!(Frame::decode(&cut, Role::Bulk.bounds()), Err(Invalid::Short), "{length}");
        }
    }
}
