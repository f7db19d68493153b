//! The `:authority` of gRPC requests over a Unix socket, changed to a value that the HTTP/2 library accepts.
//!
//! gRPC's C core (C++, Python, Ruby, PHP and others) sends the percent-encoded path of the socket as `:authority`, and
//! grpc-java sends the path itself. Neither is a valid authority (RFC 3986, section 3.2), and `h2` resets such a stream
//! before a server sees it (decision 0057).
//!
//! - Each byte of such a value that a host name cannot have is replaced by `-`, in place. Lengths stay the same, so
//!   neither the frames nor HPACK's table, which counts decoded lengths (RFC 7541, section 4.1), differ from the
//!   client's view.
//! - An authority without `%` and `/` is not changed, and neither is anything that this module cannot parse: `h2`
//!   judges it.
//! - The authority is used for nothing else: a call is identified by its path, and a caller by its socket.
//! - At most one HEADERS frame is buffered, of at most [`FRAME_BYTES_MAX`].

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// The length of a connection's preface (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
/// The length of a frame's head: length, type, flags and stream (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;
/// The largest frame that a client may send, the protocol's default (RFC 9113, section 4.2).
const FRAME_BYTES_MAX: usize = 16 * 1024;
/// The type of a HEADERS frame, and its flags (RFC 9113, section 6.2).
const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The index of `:authority` in HPACK's static table (RFC 7541, appendix A).
const AUTHORITY_INDEX: usize = 1;
const AUTHORITY: &[u8] = b":authority";
/// The name `:authority` in HPACK's Huffman code.
const AUTHORITY_CODED: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];

/// Bytes read at a time.
const READ_BYTES: usize = 8 * 1024;

/// A connection whose requests have valid authorities.
pub(crate) struct Authorities<S> {
    io: S,
    filter: Filter,
    /// Filtered bytes; those before `taken` were read already.
    ready: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl<S> Authorities<S> {
    pub(crate) fn new(io: S) -> Self {
        Self { io, filter: Filter::default(), ready: Vec::new(), taken: 0, ended: false }
    }

    /// Copies filtered bytes as far as there is room.
    fn give(&mut self, room: &mut ReadBuf<'_>) {
        let left = &self.ready[self.taken..];
        let count = left.len().min(room.remaining());
        room.put_slice(&left[..count]);
        self.taken += count;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Authorities<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.taken == this.ready.len() && !this.ended {
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.io).poll_read(context, &mut read))?;
            this.ready.clear();
            this.taken = 0;
            match read.filled() {
                [] => {
                    this.ended = true;
                    this.ready.append(&mut this.filter.held);
                }
                filled => this.filter.pass(filled, &mut this.ready),
            }
        }
        this.give(room);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Authorities<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<S: Connected> Connected for Authorities<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

/// The position in a client's frames.
struct Filter {
    /// Bytes to pass unchanged: the preface, or the payload of a frame other than HEADERS.
    unseen: usize,
    /// The received part of a frame's head, and of its payload if it is HEADERS.
    held: Vec<u8>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { unseen: PREFACE_BYTES, held: Vec::new() }
    }
}

impl Filter {
    /// Filters further bytes.
    fn pass(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let wanted = if self.unseen > 0 { self.unseen } else { self.frame_bytes() - self.held.len() };
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if self.unseen > 0 {
                self.unseen -= taken.len();
                out.extend_from_slice(taken);
            } else {
                self.held.extend_from_slice(taken);
                self.release(out);
            }
        }
    }

    /// How many bytes have to be buffered: the head of a frame, and then all of it.
    fn frame_bytes(&self) -> usize {
        HEAD_BYTES + if self.held.len() < HEAD_BYTES { 0 } else { self.length() }
    }

    /// The payload length in the buffered head.
    fn length(&self) -> usize {
        self.held[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
    }

    /// Releases a frame that is complete, or whose head shows that it needs no filtering.
    fn release(&mut self, out: &mut Vec<u8>) {
        if self.held.len() < HEAD_BYTES {
            return;
        }
        if self.held[3] != HEADERS || self.length() > FRAME_BYTES_MAX {
            self.unseen = self.length();
            out.append(&mut self.held);
        } else if self.held.len() == self.frame_bytes() {
            let flags = self.held[4];
            if let Some(block) = block(&self.held[HEAD_BYTES..], flags) {
                mend(&mut self.held[HEAD_BYTES..][block]);
            }
            out.append(&mut self.held);
        }
    }
}

/// The position of the header block in the payload of a HEADERS frame (RFC 9113, section 6.2).
fn block(held: &[u8], flags: u8) -> Option<Range<usize>> {
    let padded = flags & PADDED != 0;
    let padding = if padded { usize::from(*held.first()?) } else { 0 };
    let start = usize::from(padded) + if flags & PRIORITY != 0 { 5 } else { 0 };
    let end = held.len().checked_sub(padding)?;
    (start <= end).then_some(start..end)
}

/// Makes the authorities in a header block valid, as far as the block can be parsed.
fn mend(block: &mut [u8]) {
    let mut at = 0;
    while let Some((authority, next)) = field(block, at) {
        at = next;
        match authority {
            Some(Text { place, coded: true }) => mend_coded(&mut block[place]),
            Some(Text { place, coded: false }) => mend_plain(&mut block[place]),
            None => {}
        }
    }
}

/// A string of a header block.
struct Text {
    place: Range<usize>,
    /// Whether it is in Huffman code.
    coded: bool,
}

/// The value of the field at `at` if it is a literal authority, and the position of the next field (RFC 7541, section
/// 6). `None` at the end, or if the block cannot be parsed.
fn field(block: &[u8], at: usize) -> Option<(Option<Text>, usize)> {
    let prefix_bits = match *block.get(at)? {
        indexed if indexed & 0x80 != 0 => return Some((None, integer(block, at, 7)?.1)),
        kept if kept & 0x40 != 0 => 6,
        resized if resized & 0x20 != 0 => return Some((None, integer(block, at, 5)?.1)),
        _ => 4,
    };
    let (index, mut at) = integer(block, at, prefix_bits)?;
    let mut is_authority = index == AUTHORITY_INDEX;
    if index == 0 {
        let name = text(block, at)?;
        at = name.place.end;
        is_authority = block[name.place] == *if name.coded { AUTHORITY_CODED } else { AUTHORITY };
    }
    let value = text(block, at)?;
    let next = value.place.end;
    Some((is_authority.then_some(value), next))
}

/// The string at `at` (RFC 7541, section 5.2).
fn text(block: &[u8], at: usize) -> Option<Text> {
    let coded = block.get(at)? & 0x80 != 0;
    let (length, start) = integer(block, at, 7)?;
    let end = start.checked_add(length).filter(|end| *end <= block.len())?;
    Some(Text { place: start..end, coded })
}

/// The integer at `at` with a prefix of so many bits, and where it ends (RFC 7541, section 5.1).
fn integer(block: &[u8], at: usize, prefix_bits: u32) -> Option<(usize, usize)> {
    let prefix_max = (1_usize << prefix_bits) - 1;
    let mut value = usize::from(*block.get(at)?) & prefix_max;
    let mut at = at + 1;
    if value < prefix_max {
        return Some((value, at));
    }
    // Three bytes encode more than a frame holds.
    for shift in [0, 7, 14] {
        let byte = usize::from(*block.get(at)?);
        at += 1;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

fn mend_plain(value: &mut [u8]) {
    if value.iter().any(|byte| matches!(byte, b'%' | b'/')) {
        let foreign = |byte: &&mut u8| !(byte.is_ascii_alphanumeric() || matches!(**byte, b'.' | b'_'));
        value.iter_mut().filter(foreign).for_each(|byte| *byte = b'-');
    }
}

/// Makes a Huffman-coded authority valid (RFC 7541, appendix B): `%`, `/` and `-` have codes of six bits. Longer codes
/// than eight bits are of characters that socket paths do not have.
fn mend_coded(value: &mut [u8]) {
    let (percent, slash, hyphen) = (0x15, 0x18, 0x16);
    let mut at = 0;
    loop {
        // Among codes of one length the smallest is not below the bound: a shorter code is recognized by its first
        // bits.
        let length = [(5, 0x0a), (6, 0x2e), (7, 0x7c), (8, 0xfe)]
            .into_iter()
            .find(|(length, bound)| bits(value, at, *length).is_some_and(|code| code < *bound));
        let Some((length, _)) = length else { return };
        if length == 6 && bits(value, at, 6).is_some_and(|code| code == percent || code == slash) {
            set_bits(value, at, hyphen);
        }
        at += length;
    }
}

/// Reads `count` bits, at most eight, from bit `at` on.
fn bits(value: &[u8], at: usize, count: usize) -> Option<u8> {
    if at + count > value.len() * 8 {
        return None;
    }
    let bit = |at: usize| value[at / 8] >> (7 - at % 8) & 1;
    Some((at..at + count).fold(0, |bits, at| bits << 1 | bit(at)))
}

/// Writes six bits at bit `at`.
fn set_bits(value: &mut [u8], at: usize, code: u8) {
    for (offset, at) in (at..at + 6).enumerate() {
        let (byte, mask) = (at / 8, 0x80 >> (at % 8));
        if code >> (5 - offset) & 1 == 1 {
            value[byte] |= mask;
        } else {
            value[byte] &= !mask;
        }
    }
}

#[cfg(test)]
mod tests;
