//! Replies: what each kind of answer looks like in the protocol.

use std::time::Duration;

use bytes::Bytes;
use fuser::{
    FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use objstore::volume::{Attr, Space};

use super::convert::{BLOCK_BYTES, entry_attr, file_attr};
use crate::handles::OpenFile;
use crate::ops::names::Created;
use crate::ops::xattrs::Fitted;

/// How long the kernel keeps names, absences and attributes, which it is told to drop when they change.
pub(super) const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Inode numbers are never used twice, so they need no generations.
pub(super) const GENERATION: Generation = Generation(0);

/// A reply that carries a `T`.
pub(super) trait Reply<T>: Send + 'static {
    fn give(self, value: T);
    fn refuse(self, errno: fuser::Errno);
}

macro_rules! reply {
    ($reply:ty, $value:ty, |$to:ident, $give:ident| $send:expr) => {
        impl Reply<$value> for $reply {
            fn give(self, $give: $value) {
                let $to = self;
                $send
            }
            fn refuse(self, errno: fuser::Errno) {
                self.error(errno);
            }
        }
    };
}

reply!(ReplyEmpty, (), |reply, _nothing| reply.ok());
reply!(ReplyAttr, Attr, |reply, attr| reply.attr(&TTL, &file_attr(&attr)));
reply!(ReplyEntry, Option<Attr>, |reply, found| reply.entry(&TTL, &entry_attr(found.as_ref()), GENERATION));
reply!(ReplyData, Bytes, |reply, bytes| reply.data(&bytes));
reply!(ReplyData, String, |reply, text| reply.data(text.as_bytes()));
reply!(ReplyWrite, u32, |reply, len| reply.written(len));
reply!(ReplyLseek, i64, |reply, offset| reply.offset(offset));
reply!(ReplyOpen, OpenFile, |reply, file| reply.opened(FileHandle(file.encode()), open_flags(file)));
reply!(ReplyOpen, u64, |reply, directory| reply.opened(FileHandle(directory), FopenFlags::empty()));
reply!(ReplyCreate, Created, |reply, new| {
    let handle = FileHandle(new.file.encode());
    reply.created(&TTL, &file_attr(&new.attr), GENERATION, handle, open_flags(new.file));
});
reply!(ReplyStatfs, Space, |reply, space| {
    let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
    // Inodes are as many as there is space for; an empty one takes no block, so this is a lower bound.
    let (free, files) = (blocks(space.free_bytes), space.inodes.saturating_add(blocks(space.free_bytes)));
    reply.statfs(blocks(space.total_bytes), free, free, files, free, BLOCK_BYTES, 255, BLOCK_BYTES);
});
reply!(ReplyXattr, Fitted, |reply, fitted| match fitted {
    Fitted::Len(len) => reply.size(len),
    Fitted::Bytes(bytes) => reply.data(&bytes),
});

/// A filled directory reply.
impl Reply<()> for ReplyDirectory {
    fn give(self, (): ()) {
        self.ok();
    }
    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

impl Reply<()> for ReplyDirectoryPlus {
    fn give(self, (): ()) {
        self.ok();
    }
    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

/// Pages stay on open (see `ops::files`); a file open for reading has nothing to hand in when it is closed.
pub(super) fn open_flags(file: OpenFile) -> FopenFlags {
    let reader = if file.writable { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
    FopenFlags::FOPEN_KEEP_CACHE | reader
}
