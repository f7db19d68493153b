//! The FUSE protocol: unpacks each request, has it served, packs the reply. The one module that knows `fuser`.
//!
//! - INIT asks for what the store can keep up with, and no more (see [`WISHES`]).
//! - One descriptor is shared by all session threads. Cloned ones (FUSE_DEV_IOC_CLONE) would each own the requests
//!   taken from them, and the kernel fails those when the process dies; requests of a shared descriptor that somebody
//!   else holds open can be asked for again.

mod convert;
mod reply;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Config, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, InitFlags, KernelConfig,
    LockOwner, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, SessionACL, TimeOrNow,
    WriteFlags,
};

use convert::{bare_attr, caller, file_attr, file_type, when};
use reply::{GENERATION, Reply, TTL};

use crate::crew::Crew;
use crate::errno::Result;
use crate::fs::Fs;
use crate::handles::OpenFile;
use crate::invalidate::Kernel;
use crate::ops::attributes::Wanted;
use crate::ops::directories::Place;
use crate::ops::files::Write;
use crate::ops::names::Special;
use crate::stats::Op;

/// The most one request carries.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests the kernel may have under way of its own accord, such as reading ahead.
const BACKGROUND_MAX: u16 = 64;

/// What to ask the kernel for, each alone, so that an older kernel gives what it has.
///
/// EXPLICIT_INVAL_DATA in place of AUTO_INVAL_DATA: the latter drops a file's pages whenever its mtime moved, so also
/// after each write of our own; the feed is exact. No writeback cache: a write is in the store when write(2) returns
/// and S3 sees it. No POSIX_LOCKS or FLOCK_LOCKS: the kernel keeps locks itself. No ATOMIC_O_TRUNC: the kernel then has
/// an open of a running program for O_RDONLY | O_TRUNC truncate it before it finds that it must not (ETXTBSY).
const WISHES: [InitFlags; 10] = [
    InitFlags::FUSE_HANDLE_KILLPRIV_V2, // no question about capabilities before each write
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_CACHE_SYMLINKS, // a symlink never changes
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_EXPORT_SUPPORT, // file handles: lookups of "." and ".." on any node
    InitFlags::FUSE_MAX_PAGES,
];

/// A session that is ready to be served.
pub(crate) struct Server(fuser::Session<Adapter>);

impl Server {
    /// Agrees with the kernel behind `device` (INIT).
    pub fn start(filesystem: Fs, device: OwnedFd, threads: usize) -> io::Result<Self> {
        let threads = threads.max(2);
        let mut config = Config::default();
        config.n_threads = Some(threads);
        let adapter = Adapter { fs: Arc::new(filesystem), crew: Crew::new(threads) };
        // Who may enter is the kernel's to check (allow_other), so `fuser` lets everybody through.
        fuser::Session::from_fd(adapter, device, SessionACL::All, config).map(Self)
    }

    /// Notices for the kernel.
    pub fn kernel(&self) -> Notices {
        Notices(self.0.notifier())
    }

    /// Serves until the kernel is done with the mount.
    pub fn run(self) -> io::Result<()> {
        self.0.run()
    }
}

/// Notices for the kernel; `fuser` takes "not known" for success.
#[derive(Clone)]
pub(crate) struct Notices(Notifier);

impl Kernel for Notices {
    fn drop_entry(&self, parent: u64, name: &str) -> io::Result<()> {
        self.0.inval_entry(INodeNo(parent), OsStr::new(name))
    }

    fn drop_content(&self, node: u64) -> io::Result<()> {
        self.0.inval_inode(INodeNo(node), 0, 0)
    }

    fn drop_attributes(&self, node: u64) -> io::Result<()> {
        self.0.inval_inode(INodeNo(node), -1, 0)
    }
}

/// Unpacks requests and packs replies.
struct Adapter {
    fs: Arc<Fs>,
    crew: Crew,
}

impl Adapter {
    /// Has `call` served here or by a worker, and replies.
    fn serve<T, R: Reply<T>>(&self, op: Op, reply: R, call: impl FnOnce(&Fs) -> Result<T> + Send + 'static) {
        let started = Instant::now();
        let fs = self.fs.clone();
        self.crew.serve(move || finish(&fs, op, started, call(&fs), reply));
    }
}

fn finish<T, R: Reply<T>>(fs: &Fs, op: Op, started: Instant, result: Result<T>, reply: R) {
    fs.stats.record(op, started.elapsed(), result.is_err());
    match result {
        Ok(value) => reply.give(value),
        Err(errno) => reply.refuse(fuser::Errno::from_i32(errno.raw_os_error())),
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wish in WISHES {
            if config.add_capabilities(wish).is_err() {
                tracing::info!(?wish, "this kernel does not offer a FUSE capability; mounts will be slower");
            }
        }
        // Each answers with the nearest value it would take; only readahead has one below ours.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        if let Err(most) = config.set_max_readahead(REQUEST_BYTES_MAX) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve(Op::Lookup, reply, move |fs| fs.lookup(parent.0, &name));
    }

    fn forget(&self, _: &Request, node: INodeNo, lookups: u64) {
        let started = Instant::now();
        let fs = self.fs.clone();
        self.crew.serve(move || {
            fs.forget(node.0, lookups);
            fs.stats.record(Op::Forget, started.elapsed(), false);
        });
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.serve(Op::GetAttr, reply, move |fs| fs.attr(node.0));
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let caller = caller(request);
        let wanted = Wanted { mode, uid, gid, size, atime: atime.map(when), mtime: mtime.map(when) };
        self.serve(Op::SetAttr, reply, move |fs| fs.set_attr(node.0, wanted, caller));
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        self.serve(Op::ReadLink, reply, move |fs| fs.read_link(node.0));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (name, caller) = (name.to_owned(), caller(request));
        let special = Special { mode, rdev };
        self.serve(Op::Make, reply, move |fs| fs.make_node(parent.0, &name, special, caller));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let (name, caller) = (name.to_owned(), caller(request));
        self.serve(Op::Make, reply, move |fs| fs.make_dir(parent.0, &name, mode, caller));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (name, target, caller) = (name.to_owned(), target.as_os_str().to_owned(), caller(request));
        self.serve(Op::Make, reply, move |fs| fs.make_symlink(parent.0, &name, &target, caller));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(Op::Unlink, reply, move |fs| fs.unlink(parent.0, &name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(Op::RemoveDir, reply, move |fs| fs.remove_dir(parent.0, &name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (name.to_owned(), new_name.to_owned());
        self.serve(Op::Rename, reply, move |fs| fs.rename((parent.0, &from), (new_parent.0, &to), flags.bits()));
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve(Op::Link, reply, move |fs| fs.link(node.0, parent.0, &name));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.serve(Op::Open, reply, move |fs| fs.open(node.0, flags.0));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (name, caller) = (name.to_owned(), caller(request));
        self.serve(Op::Create, reply, move |fs| fs.create(parent.0, &name, mode, flags, caller));
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.serve(Op::Read, reply, move |fs| fs.read(node.0, offset, size as usize));
    }

    /// The data lies in the session thread's buffer: it is copied only for a worker.
    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = Write {
            node: node.0,
            offset,
            flags: flags.0,
            writeback: write_flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            kill_privileges: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        let started = Instant::now();
        match self.crew.seat() {
            Some(_seat) => finish(&self.fs, Op::Write, started, self.fs.write(write, data), reply),
            None => {
                let (fs, data) = (self.fs.clone(), data.to_vec());
                self.crew.send(move || finish(&fs, Op::Write, started, fs.write(write, &data), reply));
            }
        }
    }

    fn flush(&self, _: &Request, node: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.serve(Op::Flush, reply, move |fs| fs.flush(node.0, OpenFile::decode(handle.0)));
    }

    fn release(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(Op::Release, reply, move |fs| fs.release(node.0, OpenFile::decode(handle.0)));
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.serve(Op::Sync, reply, move |fs| fs.sync(node.0));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.serve(Op::Sync, reply, move |fs| fs.sync(node.0));
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve(Op::OpenDir, reply, move |fs| Ok(fs.directories.open()));
    }

    fn readdir(&self, _: &Request, node: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let started = Instant::now();
        let fs = self.fs.clone();
        let place = Place { node: node.0, handle: handle.0, offset };
        self.crew.serve(move || {
            let filled = fs.read_dir(place, |listed| {
                reply.add(INodeNo(listed.node), listed.next, file_type(listed.kind), listed.name)
            });
            finish(&fs, Op::ReadDir, started, filled, reply);
        });
    }

    fn readdirplus(&self, _: &Request, node: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let started = Instant::now();
        let fs = self.fs.clone();
        let place = Place { node: node.0, handle: handle.0, offset };
        self.crew.serve(move || {
            let filled = fs.read_dir_plus(place, |listed, attr| {
                let attr = attr.map_or_else(|| bare_attr(listed.node, listed.kind), file_attr);
                reply.add(attr.ino, listed.next, listed.name, &TTL, &attr, GENERATION)
            });
            finish(&fs, Op::ReadDirPlus, started, filled, reply);
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.serve(Op::ReleaseDir, reply, move |fs| {
            fs.directories.close(handle.0);
            Ok(())
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.serve(Op::StatFs, reply, Fs::space);
    }

    fn setxattr(
        &self,
        _: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.to_owned(), value.to_vec());
        self.serve(Op::SetXattr, reply, move |fs| fs.set_xattr(node.0, &name, &value, flags));
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        self.serve(Op::GetXattr, reply, move |fs| fs.xattr(node.0, &name, room));
    }

    fn listxattr(&self, request: &Request, node: INodeNo, room: u32, reply: ReplyXattr) {
        let caller = caller(request);
        self.serve(Op::ListXattr, reply, move |fs| fs.xattrs(node.0, room, caller));
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(Op::RemoveXattr, reply, move |fs| fs.remove_xattr(node.0, &name));
    }

    /// The kernel checks permissions (default_permissions), so it never asks twice.
    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request);
        self.serve(Op::Allocate, reply, move |fs| fs.allocate(node.0, mode, offset, len, caller));
    }

    fn lseek(&self, _: &Request, node: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.serve(Op::Seek, reply, move |fs| fs.seek(node.0, offset, whence));
    }

    /// The kernel then copies through its pages and does not ask again.
    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }
}
