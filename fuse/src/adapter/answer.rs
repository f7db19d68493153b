//! Replies in the protocol's layout, from the file system's results.

use std::time::Duration;

use bytes::Bytes;
use objstore_files::{Attr, FileSession, HeldLock, NAME_BYTES_MAX, Space};

use super::convert::{BLOCK_BYTES, attributes, lock_reply, time};
use crate::opened::{BackingId, Opened};
use crate::ops::names::Created;
use crate::ops::xattrs::Fitted;
use crate::sharing::Sharing;
use crate::wire::{Entry, Frame, Listing, OpenReply, Reply, SpaceReply, Statx};

/// How long the kernel caches attributes at most. Changes by others are sent as invalidations.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the kernel caches what is answered now: no longer than the session may believe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Names that were found, and absent ones.
    names: Duration,
    /// Names that were just created, with their attributes.
    created: Duration,
    /// Attributes.
    attributes: Duration,
}

impl Limits {
    pub fn now(session: &FileSession, sharing: &Sharing) -> Self {
        let attributes = session.cacheable().map_or(TTL, |limit| limit.min(TTL));
        let within = |limit: Duration| limit.min(attributes);
        Self { names: within(sharing.name_limit()), created: within(sharing.created_limit()), attributes }
    }

    /// A name that was looked up.
    pub fn found(self, found: Option<&Attr>) -> Entry {
        Entry { valid: self.names, attributes_valid: self.attributes, attributes: found.map(attributes) }
    }

    /// A name that was created: no lock orders its answer and the changes of others.
    fn created(self, made: Option<&Attr>) -> Entry {
        let attributes_valid = if self.created.is_zero() { Duration::ZERO } else { self.attributes };
        Entry { valid: self.created, attributes_valid, attributes: made.map(attributes) }
    }
}

/// The result of a request.
pub(super) enum Answer {
    Done,
    Attr(Attr),
    Statx(Attr),
    Entry(Option<Attr>),
    Made(Option<Attr>),
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
    Lock(Option<HeldLock>),
    Fitted(Fitted),
    Ioctl(Bytes),
    Listing(Listing),
}

impl Answer {
    /// The node that the kernel gets to know.
    pub fn node(&self) -> Option<u64> {
        match self {
            Self::Entry(found) | Self::Made(found) => found.as_ref().map(|attr| attr.ino),
            Self::Created(created) => Some(created.attr.ino),
            _ => None,
        }
    }

    pub fn send(self, reply: Reply<'_>, limits: Limits) {
        match self {
            Self::Bytes(bytes) | Self::Fitted(Fitted::Bytes(bytes)) => reply.send_bytes(&bytes),
            Self::Text(text) => reply.send_bytes(text.as_bytes()),
            Self::Listing(listing) => reply.send_bytes(&listing.into_bytes()),
            Self::Ioctl(bytes) => {
                let mut frame = Frame::new();
                frame.ioctl();
                reply.send_with(frame, &bytes);
            }
            fixed => reply.send(fixed.frame(limits)),
        }
    }

    /// Encodes a reply of fixed layout.
    fn frame(&self, limits: Limits) -> Frame {
        let ttl = limits.attributes;
        let mut frame = Frame::new();
        match self {
            Self::Attr(attr) => frame.attributes(ttl, &attributes(attr)),
            Self::Statx(attr) => {
                frame.statx(ttl, &Statx { attributes: attributes(attr), btime: time(attr.btime) });
            }
            Self::Entry(found) => frame.entry(&limits.found(found.as_ref())),
            Self::Made(made) => frame.entry(&limits.created(made.as_ref())),
            Self::Written(len) => frame.written(*len),
            Self::Fitted(Fitted::Len(len)) => frame.size(*len),
            Self::Copied { bytes, wide: true } => frame.copied(*bytes),
            Self::Copied { bytes, wide: false } => frame.written(u32::try_from(*bytes).unwrap_or(u32::MAX)),
            Self::Offset(offset) => frame.offset(*offset),
            Self::Opened(opened) => frame.open(&open(opened)),
            Self::OpenedDirectory(handle) => frame.open(&open_directory(*handle)),
            Self::Created(created) => {
                frame.entry(&limits.created(Some(&created.attr)));
                frame.open(&open(&created.opened));
            }
            Self::Space(space) => frame.space(&free(space)),
            Self::Lock(held) => frame.lock(&lock_reply(*held)),
            Self::Done | Self::Bytes(_) | Self::Text(_) | Self::Fitted(_) | Self::Listing(_) | Self::Ioctl(_) => {}
        }
        frame
    }
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
