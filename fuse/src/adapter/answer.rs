//! Replies in the protocol's layout, from the file system's results.

use std::time::Duration;

use bytes::Bytes;
use objstore_files::{Attr, FileSession, NAME_BYTES_MAX, Space};

use super::convert::{BLOCK_BYTES, attributes, time};
use crate::opened::{BackingId, Opened};
use crate::ops::names::Created;
use crate::ops::xattrs::Fitted;
use crate::wire::{Entry, Frame, Listing, OpenReply, Reply, SpaceReply, Statx};

/// How long the kernel caches names, absent names and attributes at most. Changes by others are sent as invalidations.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the kernel caches what a session answers now: no longer than the session may believe it.
pub(super) fn ttl(session: &FileSession) -> Duration {
    session.cacheable().map_or(TTL, |limit| limit.min(TTL))
}

/// The result of a request.
pub(super) enum Answer {
    Done,
    Attr(Attr),
    Statx(Attr),
    Entry(Option<Attr>),
    Bytes(Bytes),
    Text(String),
    Written(u32),
    /// Number of bytes copied, for the newer or the older request.
    Copied {
        bytes: u64,
        wide: bool,
    },
    Offset(i64),
    Opened(Opened),
    OpenedDirectory(u64),
    Created(Created),
    Space(Space),
    Fitted(Fitted),
    Ioctl(Bytes),
    Listing(Listing),
}

impl Answer {
    pub fn send(self, reply: Reply<'_>, ttl: Duration) {
        match self {
            Self::Bytes(bytes) | Self::Fitted(Fitted::Bytes(bytes)) => reply.send_bytes(&bytes),
            Self::Text(text) => reply.send_bytes(text.as_bytes()),
            Self::Listing(listing) => reply.send_bytes(&listing.into_bytes()),
            Self::Ioctl(bytes) => {
                let mut frame = Frame::new();
                frame.ioctl();
                reply.send_with(frame, &bytes);
            }
            fixed => reply.send(fixed.frame(ttl)),
        }
    }

    /// Encodes a reply of fixed layout.
    fn frame(&self, ttl: Duration) -> Frame {
        let mut frame = Frame::new();
        match self {
            Self::Attr(attr) => frame.attributes(ttl, &attributes(attr)),
            Self::Statx(attr) => {
                frame.statx(ttl, &Statx { attributes: attributes(attr), btime: time(attr.btime) });
            }
            Self::Entry(found) => frame.entry(&entry(found.as_ref(), ttl)),
            Self::Written(len) => frame.written(*len),
            Self::Fitted(Fitted::Len(len)) => frame.size(*len),
            Self::Copied { bytes, wide: true } => frame.copied(*bytes),
            Self::Copied { bytes, wide: false } => frame.written(u32::try_from(*bytes).unwrap_or(u32::MAX)),
            Self::Offset(offset) => frame.offset(*offset),
            Self::Opened(opened) => frame.open(&open(opened)),
            Self::OpenedDirectory(handle) => frame.open(&open_directory(*handle)),
            Self::Created(created) => {
                frame.entry(&entry(Some(&created.attr), ttl));
                frame.open(&open(&created.opened));
            }
            Self::Space(space) => frame.space(&free(space)),
            Self::Done | Self::Bytes(_) | Self::Text(_) | Self::Fitted(_) | Self::Listing(_) | Self::Ioctl(_) => {}
        }
        frame
    }
}

/// A name as the kernel caches it.
pub(super) fn entry(found: Option<&Attr>, ttl: Duration) -> Entry {
    Entry { valid: ttl, attributes: found.map(attributes) }
}

/// The reply to OPENDIR. The kernel caches a listing across opens: changes by other clients are reported (see
/// `invalidate`), and it sees changes through this mount itself.
fn open_directory(handle: u64) -> OpenReply {
    OpenReply { handle, keep_cache: true, cache_dir: true, ..OpenReply::default() }
}

fn open(opened: &Opened) -> OpenReply {
    let flags = opened.flags;
    OpenReply {
        handle: opened.handle.encode(),
        keep_cache: flags.keep_cache,
        direct_io: flags.direct_io,
        nonseekable: flags.nonseekable,
        cache_dir: flags.cache_dir,
        no_flush: flags.no_flush,
        parallel_direct_writes: flags.parallel_direct_writes,
        backing: opened.backing.map(BackingId::number),
    }
}

/// The free inodes are counted by free space. An empty file takes no block, so the number is a lower bound.
fn free(space: &Space) -> SpaceReply {
    let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
    let free = blocks(space.free_bytes);
    SpaceReply {
        blocks: blocks(space.total_bytes),
        free,
        files: space.inodes.saturating_add(free),
        files_free: free,
        block_bytes: BLOCK_BYTES,
        name_bytes: u32::try_from(NAME_BYTES_MAX).unwrap_or(u32::MAX),
    }
}
