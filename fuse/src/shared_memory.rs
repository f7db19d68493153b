//! A mount's shared memory: the table of open files that one server process leaves to the next.
//!
//! - It is a memfd that the holder keeps beside the mount's device, so it outlives every server. One server uses it at
//!   a time: the one that has the store open.
//! - Its size is sealed, so access to the mapping never faults.
//! - It holds a head, then notes of requests in flight, then slots. `passthrough::table` defines their meaning and the
//!   order of writes. All facts about a node lie in one word, so a crash never leaves half of them.

use std::io::{Error, ErrorKind, Result};
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, seek};
use rustix::mm::{MapFlags, ProtFlags};

/// Size of the memory in bytes.
const BYTES: usize = 1 << 20;
/// Bytes before the first note: one page.
const HEAD_BYTES: usize = 4096;
/// Number of notes.
const NOTES: usize = 1024;
/// Number of slots.
const SLOTS: usize = (BYTES - HEAD_BYTES - NOTES * size_of::<Note>()) / size_of::<Slot>();
/// The first eight bytes of such a memory.
const MAGIC: u64 = u64::from_le_bytes(*b"amphoraM");
/// The version of this layout. Memory of another version is not read.
const VERSION: u32 = 1;

/// The head of the memory.
#[repr(C)]
struct Head {
    magic: AtomicU64,
    version: AtomicU32,
    slots: AtomicU32,
    /// Not 0 once a node had to be opened without a slot.
    overflown: AtomicU32,
}

/// A node and its state. The slot is free while its node is 0.
#[repr(C)]
pub(crate) struct Slot {
    pub node: AtomicU64,
    pub word: AtomicU64,
}

/// A request that changes a slot. The note is free while its request is 0.
#[repr(C)]
pub(crate) struct Note {
    pub request: AtomicU64,
    pub node: AtomicU64,
    /// The slot's word before the change.
    pub before: AtomicU64,
    pub slot: AtomicU32,
    /// 0 until the slot holds its new word; then 1 plus the number of server processes that ended since.
    pub done: AtomicU32,
}

/// The mapped memory.
pub(crate) struct SharedMemory {
    memory: OwnedFd,
    at: NonNull<u8>,
}

// SAFETY: the mapping is plain memory that any thread may use and unmap; everything in it is atomic.
unsafe impl Send for SharedMemory {}
// SAFETY: as above: shared access goes through atomics alone.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Creates new memory with all slots free.
    pub fn create() -> Result<Self> {
        let memory = rustix::fs::memfd_create("amphora-mount", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let shared = Self::map(memory)?;
        let head = shared.head();
        head.version.store(VERSION, Ordering::Relaxed);
        head.slots.store(u32::try_from(SLOTS).unwrap_or(u32::MAX), Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Maps memory that an earlier process created.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if its kind, size or layout differs.
    pub fn open(memory: OwnedFd) -> Result<Self> {
        let wrong = |why: &str| Error::new(ErrorKind::InvalidData, format!("a mount's shared memory {why}"));
        if usize::try_from(rustix::fs::fstat(&memory)?.st_size) != Ok(BYTES) {
            return Err(wrong("has another size than this version's"));
        }
        // Without the seals, any process that has the memory could truncate it under the mapping.
        if !rustix::fs::fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK) {
            return Err(wrong("is not sealed against truncation"));
        }
        let shared = Self::map(memory)?;
        let head = shared.head();
        let found = (head.magic.load(Ordering::Acquire), head.version.load(Ordering::Relaxed));
        if found != (MAGIC, VERSION) || head.slots.load(Ordering::Relaxed) as usize != SLOTS {
            return Err(wrong("has another layout than this version's"));
        }
        Ok(shared)
    }

    fn map(memory: OwnedFd) -> Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice replaces no memory in use.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), BYTES, protection, flags, &memory, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { memory, at })
    }

    /// The memfd, for the holder.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// All notes.
    pub fn notes(&self) -> &[Note] {
        // SAFETY: `NOTES` notes lie behind the head within the mapping (see the constants), which is aligned to a page
        // and lives as long as `self`; every bit pattern is a note, and all access is atomic.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(HEAD_BYTES).cast(), NOTES) }
    }

    /// All slots.
    pub fn slots(&self) -> &[Slot] {
        let at = HEAD_BYTES + NOTES * size_of::<Note>();
        // SAFETY: as for `notes`: `SLOTS` slots lie behind those.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(at).cast(), SLOTS) }
    }

    /// The number of slots that may ever have been used, counted from the first. Looking at later ones would allocate
    /// their pages, 1 MiB for each mount.
    pub fn touched(&self) -> usize {
        let (mut end, all) = (0, BYTES as u64);
        while let Ok(data) = seek(&self.memory, SeekFrom::Data(end)) {
            end = seek(&self.memory, SeekFrom::Hole(data)).ok().filter(|hole| *hole > data).unwrap_or(all);
        }
        let before = HEAD_BYTES + NOTES * size_of::<Note>();
        let used = usize::try_from(end).unwrap_or(BYTES).saturating_sub(before);
        used.div_ceil(size_of::<Slot>()).min(SLOTS)
    }

    /// Records that a node had to be opened without a slot.
    pub fn overflow(&self) {
        self.head().overflown.store(1, Ordering::Release);
    }

    /// Whether a node ever had to be opened without a slot.
    pub fn has_overflown(&self) -> bool {
        self.head().overflown.load(Ordering::Acquire) != 0
    }

    fn head(&self) -> &Head {
        // SAFETY: as for `slots`: a head lies at the beginning.
        unsafe { self.at.cast().as_ref() }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: nothing borrowed from the mapping outlives `self`. If unmapping fails, it stays mapped.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_writes_the_next_reads() {
        let first = SharedMemory::create().unwrap();
        first.slots().last().unwrap().node.store(7, Ordering::Relaxed);
        first.notes().last().unwrap().request.store(9, Ordering::Relaxed);
        first.overflow();
        let memory = first.memory().try_clone_to_owned().unwrap();
        drop(first);
        let second = SharedMemory::open(memory).unwrap();
        let nodes: u64 = second.slots().iter().map(|slot| slot.node.load(Ordering::Relaxed)).sum();
        let requests: u64 = second.notes().iter().map(|note| note.request.load(Ordering::Relaxed)).sum();
        assert_eq!((nodes, requests, second.has_overflown()), (7, 9, true));
    }

    #[test]
    fn memory_of_another_kind_is_refused() {
        let shared = SharedMemory::create().unwrap();
        shared.head().version.store(VERSION + 1, Ordering::Relaxed);
        let text = SharedMemory::open(shared.memory().try_clone_to_owned().unwrap()).err().unwrap().to_string();
        assert!(text.contains("layout"), "{text}");
        let small = rustix::fs::memfd_create("small", MemfdFlags::CLOEXEC).unwrap();
        assert!(SharedMemory::open(small.try_clone().unwrap()).err().unwrap().to_string().contains("size"));
        rustix::fs::ftruncate(&small, BYTES as u64).unwrap();
        assert!(SharedMemory::open(small).err().unwrap().to_string().contains("truncation"));
    }
}
