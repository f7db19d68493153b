//! Replies: the header, and the byte layout of each kind of body.

use std::ffi::OsStr;
use std::time::Duration;

use super::abi::{OUT_HEADER_BYTES, open};
use super::lock::LockReply;
use super::operation::Time;

/// The largest body with a fixed layout, STATX, in bytes.
const BODY_BYTES_MAX: usize = 288;
/// Inode numbers are never reused, so every node has the same generation.
const GENERATION: u64 = 0;
/// STATX_BASIC_STATS and STATX_BTIME.
const STATX_ALL: u32 = 0xfff;

/// A message under construction: a header and a body of up to 288 bytes.
#[derive(Debug)]
pub struct Frame {
    bytes: [u8; OUT_HEADER_BYTES + BODY_BYTES_MAX],
    len: usize,
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame {
    /// An empty body behind room for the header.
    pub fn new() -> Self {
        Self { bytes: [0; OUT_HEADER_BYTES + BODY_BYTES_MAX], len: OUT_HEADER_BYTES }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(super) fn zeros(&mut self, len: usize) -> &mut Self {
        self.len += len;
        self
    }

    /// The bytes after the header.
    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[OUT_HEADER_BYTES..self.len]
    }

    fn header(&mut self, unique: u64, code: i32, more: usize) -> &[u8] {
        let len = u32::try_from(self.len + more).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[4..8].copy_from_slice(&code.to_ne_bytes());
        self.bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
        &self.bytes[..self.len]
    }

    /// Completes the message as the reply to request `unique`.
    pub(super) fn seal(&mut self, unique: u64) -> &[u8] {
        self.header(unique, 0, 0)
    }

    /// Completes the message as the reply to request `unique`, with `more` bytes of body in another buffer.
    pub(super) fn seal_with(&mut self, unique: u64, more: usize) -> &[u8] {
        self.header(unique, 0, more)
    }

    /// Completes an error reply. Values that are no error numbers become EIO, since the kernel accepts no others.
    pub(super) fn seal_error(&mut self, unique: u64, errno: i32) -> &[u8] {
        let errno = if (1..512).contains(&errno) { errno } else { libc::EIO };
        self.len = OUT_HEADER_BYTES;
        self.header(unique, -errno, 0)
    }

    /// Completes a notice with this code, with `more` bytes of body in another buffer.
    pub(super) fn seal_notice(&mut self, code: i32, more: usize) -> &[u8] {
        self.header(0, code, more)
    }

    /// fuse_attr_out.
    pub fn attributes(&mut self, valid: Duration, attributes: &Attributes) {
        self.u64(valid.as_secs()).u32(valid.subsec_nanos()).u32(0).attr(attributes);
    }

    /// fuse_entry_out: a name and its node. Node 0 stands for an absent name, which the kernel caches too.
    pub fn entry(&mut self, entry: &Entry) {
        let (valid, attributes_valid) = (entry.valid, entry.attributes_valid);
        self.u64(entry.attributes.map_or(0, |attributes| attributes.node)).u64(GENERATION);
        self.u64(valid.as_secs()).u64(attributes_valid.as_secs());
        self.u32(valid.subsec_nanos()).u32(attributes_valid.subsec_nanos());
        match &entry.attributes {
            Some(attributes) => self.attr(attributes),
            None => self.zeros(88),
        };
    }

    /// fuse_attr.
    fn attr(&mut self, attr: &Attributes) -> &mut Self {
        self.u64(attr.node).u64(attr.size).u64(attr.blocks);
        self.i64(attr.atime.seconds).i64(attr.mtime.seconds).i64(attr.ctime.seconds);
        self.u32(attr.atime.nanos).u32(attr.mtime.nanos).u32(attr.ctime.nanos);
        self.u32(attr.mode).u32(attr.nlink).u32(attr.uid).u32(attr.gid).u32(attr.rdev).u32(attr.block_bytes).u32(0)
    }

    /// fuse_statx_out.
    pub fn statx(&mut self, valid: Duration, statx: &Statx) {
        let attr = &statx.attributes;
        self.u64(valid.as_secs()).u32(valid.subsec_nanos()).zeros(20);
        self.u32(STATX_ALL).u32(attr.block_bytes).u64(0);
        self.u32(attr.nlink).u32(attr.uid).u32(attr.gid).u16(attr.mode as u16).u16(0);
        self.u64(attr.node).u64(attr.size).u64(attr.blocks).u64(0);
        for time in [attr.atime, statx.btime, attr.ctime, attr.mtime] {
            self.i64(time.seconds).u32(time.nanos).u32(0);
        }
        let (major, minor) = device_numbers(attr.rdev);
        self.u32(major).u32(minor).zeros(120);
    }

    /// fuse_open_out.
    pub fn open(&mut self, open: &OpenReply) {
        self.u64(open.handle).u32(open.flags()).bytes(&open.backing.unwrap_or(0).to_ne_bytes());
    }

    /// fuse_write_out, which also answers the older COPY_FILE_RANGE.
    pub fn written(&mut self, bytes: u32) {
        self.u32(bytes).u32(0);
    }

    /// fuse_lseek_out.
    pub fn offset(&mut self, offset: i64) {
        self.i64(offset);
    }

    /// fuse_copy_file_range_out.
    pub fn copied(&mut self, bytes: u64) {
        self.u64(bytes);
    }

    /// fuse_getxattr_out: the size of a value, for a request with no room.
    pub fn size(&mut self, bytes: u32) {
        self.u32(bytes).u32(0);
    }

    /// fuse_lk_out: the lock that is in the way.
    pub fn lock(&mut self, lock: &LockReply) {
        let ([first, last], [lock_type, pid]) = lock.fields();
        self.u64(first).u64(last).u32(lock_type).u32(pid);
    }

    /// fuse_ioctl_out of a successful call, which precedes the bytes for the caller.
    pub fn ioctl(&mut self) {
        self.zeros(16);
    }

    /// fuse_statfs_out.
    pub fn space(&mut self, space: &SpaceReply) {
        self.u64(space.blocks).u64(space.free).u64(space.free).u64(space.files).u64(space.files_free);
        self.u32(space.block_bytes).u32(space.name_bytes).u32(space.block_bytes).zeros(28);
    }

    /// fuse_dirent without its name.
    pub(super) fn dirent(&mut self, node: u64, next: u64, kind: u32, name: &OsStr) {
        self.u64(node).u64(next).u32(u32::try_from(name.len()).unwrap_or(u32::MAX)).u32(kind);
    }
}

/// A device number as the kernel encodes it: major and minor.
fn device_numbers(rdev: u32) -> (u32, u32) {
    ((rdev & 0xf_ff00) >> 8, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00))
}

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode number.
    pub node: u64,
    /// The length in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// The time of the last access.
    pub atime: Time,
    /// The time of the last modification.
    pub mtime: Time,
    /// The time of the last change of attributes.
    pub ctime: Time,
    /// Type and permission bits.
    pub mode: u32,
    /// How many names it has.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device number of a device node.
    pub rdev: u32,
    /// The block size that suits reads and writes.
    pub block_bytes: u32,
}

/// A name's node, or its absence, and how long the kernel may cache it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// How long the kernel may cache the name.
    pub valid: Duration,
    /// How long it may cache the attributes.
    pub attributes_valid: Duration,
    /// The node of the name; `None` if there is no such name.
    pub attributes: Option<Attributes>,
}

/// Attributes with the creation time.
#[derive(Clone, Copy, Debug)]
pub struct Statx {
    /// The attributes that stat(2) has too.
    pub attributes: Attributes,
    /// The creation time.
    pub btime: Time,
}

/// The reply to OPEN: a file or directory handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenReply {
    /// The number by which later requests name the handle.
    pub handle: u64,
    /// Whether cached pages stay (FOPEN_KEEP_CACHE).
    pub keep_cache: bool,
    /// Whether reads and writes bypass the page cache (FOPEN_DIRECT_IO).
    pub direct_io: bool,
    /// Whether lseek(2) fails (FOPEN_NONSEEKABLE).
    pub nonseekable: bool,
    /// Whether the listing may be cached (FOPEN_CACHE_DIR).
    pub cache_dir: bool,
    /// Whether close(2) sends no FLUSH (FOPEN_NOFLUSH).
    pub no_flush: bool,
    /// Whether direct writes may run at once (FOPEN_PARALLEL_DIRECT_WRITES).
    pub parallel_direct_writes: bool,
    /// The number of the backing file that the kernel reads and writes itself.
    pub backing: Option<i32>,
}

impl OpenReply {
    fn flags(&self) -> u32 {
        let bits = [
            (self.keep_cache, open::KEEP_CACHE),
            (self.direct_io, open::DIRECT_IO),
            (self.nonseekable, open::NONSEEKABLE),
            (self.cache_dir, open::CACHE_DIR),
            (self.no_flush, open::NO_FLUSH),
            (self.parallel_direct_writes, open::PARALLEL_DIRECT_WRITES),
            (self.backing.is_some(), open::PASSTHROUGH),
        ];
        bits.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit)
    }
}

/// The space of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceReply {
    /// All blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// All inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// The size of a block.
    pub block_bytes: u32,
    /// The longest name.
    pub name_bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    const VALID: Duration = Duration::new(86_400, 7);

    fn attributes() -> Attributes {
        Attributes {
            node: 9,
            size: 1 << 40,
            blocks: 8,
            atime: Time { seconds: -2, nanos: 250_000_000 },
            mtime: Time { seconds: 5, nanos: 6 },
            ctime: Time { seconds: 7, nanos: 8 },
            mode: 0o100_644,
            nlink: 3,
            uid: 4,
            gid: 5,
            rdev: 0x0ab0_1203,
            block_bytes: 4096,
        }
    }

    fn decode_attr(fields: &mut Fields<'_>) -> Attributes {
        let mut long = || fields.u64().unwrap();
        let (node, size, blocks, seconds) = (long(), long(), long(), [long(), long(), long()]);
        let mut short = || fields.u32().unwrap();
        let nanos = [short(), short(), short()];
        let time = |at: usize| Time { seconds: seconds[at] as i64, nanos: nanos[at] };
        let (atime, mtime, ctime) = (time(0), time(1), time(2));
        let (mode, nlink, uid, gid, rdev, block_bytes) = (short(), short(), short(), short(), short(), short());
        assert_eq!(short(), 0);
        Attributes { node, size, blocks, atime, mtime, ctime, mode, nlink, uid, gid, rdev, block_bytes }
    }

    #[test]
    fn attributes_survive_their_bytes() {
        let mut frame = Frame::new();
        frame.attributes(VALID, &attributes());
        let mut fields = Fields::new(frame.body());
        assert_eq!((fields.u64(), fields.u32(), fields.u32()), (Ok(86_400), Ok(7), Ok(0)));
        assert_eq!(decode_attr(&mut fields), attributes());
        assert!(fields.rest().is_empty());
    }

    #[test]
    fn entries_are_as_long_whether_there_or_not() {
        for attributes in [Some(attributes()), None] {
            let mut frame = Frame::new();
            let attributes_valid = Duration::new(1, 2);
            frame.entry(&Entry { valid: VALID, attributes_valid, attributes });
            assert_eq!(frame.body().len(), 128);
            let mut fields = Fields::new(frame.body());
            assert_eq!(fields.u64(), Ok(attributes.map_or(0, |attributes| attributes.node)));
            fields.skip(8).unwrap();
            assert_eq!((fields.u64(), fields.u64()), (Ok(86_400), Ok(1)));
            assert_eq!((fields.u32(), fields.u32()), (Ok(7), Ok(2)));
            assert_eq!(attributes.is_some(), decode_attr(&mut fields).nlink == 3);
        }
    }

    #[test]
    fn statx_carries_the_birth() {
        let mut frame = Frame::new();
        let btime = Time { seconds: -1, nanos: 1 };
        frame.statx(VALID, &Statx { attributes: attributes(), btime });
        assert_eq!(frame.body().len(), 288);
        let mut fields = Fields::new(&frame.body()[32 + 80..]);
        assert_eq!((fields.u64(), fields.u32()), (Ok(u64::MAX), Ok(1)));
        let mut devices = Fields::new(&frame.body()[32 + 128..]);
        assert_eq!((devices.u32(), devices.u32()), (Ok(0x12), Ok(0x0000_ab03)));
    }

    #[test]
    fn opens_say_how() {
        let opens = [
            (OpenReply { handle: 3, keep_cache: true, no_flush: true, ..OpenReply::default() }, 0x22, 0),
            (OpenReply { handle: 3, backing: Some(5), direct_io: true, ..OpenReply::default() }, 0x81, 5),
        ];
        for (open, flags, backing) in opens {
            let mut frame = Frame::new();
            frame.open(&open);
            let mut fields = Fields::new(frame.body());
            assert_eq!((fields.u64(), fields.u32(), fields.u32()), (Ok(3), Ok(flags), Ok(backing)));
        }
    }

    #[test]
    fn small_answers_have_the_sizes_the_kernel_wants() {
        let space = SpaceReply { blocks: 1, free: 2, files: 3, files_free: 4, block_bytes: 5, name_bytes: 6 };
        let size = |encode: &dyn Fn(&mut Frame)| {
            let mut frame = Frame::new();
            encode(&mut frame);
            frame.body().len()
        };
        assert_eq!(size(&|frame| frame.space(&space)), 80);
        assert_eq!(size(&|frame| frame.written(1)), 8);
        assert_eq!(size(&|frame| frame.offset(1)), 8);
        assert_eq!(size(&|frame| frame.copied(1)), 8);
        assert_eq!(size(&|frame| frame.size(1)), 8);
    }

    #[test]
    fn headers_tell_length_error_and_request() {
        let mut frame = Frame::new();
        frame.written(1);
        assert_eq!(frame.seal(9)[..16], [24, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(frame.seal_with(9, 8)[..4], [32, 0, 0, 0]);
        assert_eq!(frame.seal_error(9, libc::ENOENT)[4..8], (-libc::ENOENT).to_ne_bytes());
        assert_eq!(Frame::new().seal_error(9, 99_999), Frame::new().seal_error(9, libc::EIO));
        assert_eq!(frame.seal_error(9, libc::EIO).len(), 16, "an error has no body");
    }
}
