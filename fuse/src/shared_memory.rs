//! A mount's shared memory: the tables of open files and of known nodes that one server process leaves to the next.
//!
//! - It is a memfd that the holder keeps beside the mount's device, so it outlives every server. One server uses it at
//!   a time: the one that has the store open.
//! - Its size is sealed, so access to the mapping never faults.
//! - The head is followed by the owners of file locks, which `locks::places` defines, in the same page.
//! - It holds a head, then notes of requests in flight, then slots. `passthrough::table` defines their meaning and the
//!   order of writes. All facts about a node lie in one word, so a crash never leaves half of them.
//! - The memory of a mount that can be cut off from its store has slots of another table behind those, which `known` defines.
//!   The size tells the two kinds apart. Pages that were never used take no space.

use std::io::{Error, ErrorKind, Result};
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, seek};
use rustix::mm::{MapFlags, ProtFlags};

use crate::claim::Claim;

/// Size of the memory in bytes.
const BYTES: usize = 1 << 20;
/// Bytes before the first note: one page.
const HEAD_BYTES: usize = 4096;
/// Bytes before the first owner of locks.
const OWNERS_AT: usize = 64;
/// Number of owners of locks.
const OWNERS: usize = (HEAD_BYTES - OWNERS_AT) / size_of::<Owner>();
/// Number of notes.
const NOTES: usize = 1024;
/// Number of slots.
const SLOTS: usize = (BYTES - HEAD_BYTES - NOTES * size_of::<Note>()) / size_of::<Slot>();
/// Number of slots of the table of known nodes: as many as a session may have inode references.
const NODES: usize = 1 << 20;
/// Size of the memory with that table.
const BYTES_WITH_NODES: usize = BYTES + NODES * size_of::<Slot>();
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
    /// Not 0 once a node had no place in the table of known nodes.
    nodes_overflown: AtomicU32,
    /// Not 0 if every process that served the mount has noted the owners of locks; an earlier version made it 0.
    owners_noted: AtomicU32,
    /// Not 0 if an owner of locks has no place.
    owners_overflown: AtomicU32,
    /// Not 0 if closes may be answered while no server runs.
    lets_close: AtomicU32,
}

/// The tables of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// Open files alone.
    Opens,
    /// Open files, and the nodes that the kernel knows.
    OpensAndNodes,
}

impl Tables {
    fn bytes(self) -> usize {
        match self {
            Self::Opens => BYTES,
            Self::OpensAndNodes => BYTES_WITH_NODES,
        }
    }
}

/// A node and its state. The slot is free while its node is 0.
#[repr(C)]
pub(crate) struct Slot {
    pub node: AtomicU64,
    pub word: AtomicU64,
}

/// One who may have locks of byte ranges of a file: a process or an open file description, by the kernel's number. Free while
/// the node is 0.
#[repr(C)]
pub(crate) struct Owner {
    pub node: AtomicU64,
    pub owner: AtomicU64,
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
    tables: Tables,
    at: NonNull<u8>,
    /// Kept as long as this process serves the mount.
    claim: Option<Claim>,
}

// SAFETY: the mapping is plain memory that any thread may use and unmap; everything in it is atomic.
unsafe impl Send for SharedMemory {}
// SAFETY: as above: shared access goes through atomics alone.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Creates new memory with all slots free.
    pub fn create(tables: Tables) -> Result<Self> {
        let memory = rustix::fs::memfd_create("amphora-mount", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, tables.bytes() as u64)?;
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let shared = Self::map(memory, tables)?;
        let head = shared.head();
        head.version.store(VERSION, Ordering::Relaxed);
        head.slots.store(u32::try_from(SLOTS).unwrap_or(u32::MAX), Ordering::Relaxed);
        head.owners_noted.store(1, Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Maps memory that an earlier process created.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if its kind, size or layout differs.
    pub fn open(memory: OwnedFd) -> Result<Self> {
        let wrong = |why: &str| Error::new(ErrorKind::InvalidData, format!("a mount's shared memory {why}"));
        let size = usize::try_from(rustix::fs::fstat(&memory)?.st_size).unwrap_or(0);
        let tables = [Tables::Opens, Tables::OpensAndNodes].into_iter().find(|tables| tables.bytes() == size);
        let tables = tables.ok_or_else(|| wrong("has another size than this version's"))?;
        // Without the seals, any process that has the memory could truncate it under the mapping.
        if !rustix::fs::fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK) {
            return Err(wrong("is not sealed against truncation"));
        }
        let shared = Self::map(memory, tables)?;
        let head = shared.head();
        let found = (head.magic.load(Ordering::Acquire), head.version.load(Ordering::Relaxed));
        if found != (MAGIC, VERSION) || head.slots.load(Ordering::Relaxed) as usize != SLOTS {
            return Err(wrong("has another layout than this version's"));
        }
        Ok(shared)
    }

    fn map(memory: OwnedFd, tables: Tables) -> Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice replaces no memory in use.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), tables.bytes(), protection, flags, &memory, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { memory, tables, at, claim: None })
    }

    /// Claims the mount for this process. After an error, which is logged, no close may be answered in its place.
    pub fn claimed(mut self) -> Self {
        self.let_close(false);
        match Claim::wait(self.memory()) {
            Ok(claim) => self.claim = Some(claim),
            Err(error) => tracing::warn!(%error, "a mount is not claimed: while no server runs, its closes wait"),
        }
        self
    }

    /// The memfd, for the holder.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// All places for owners of locks.
    pub fn owners(&self) -> &[Owner] {
        // SAFETY: as for `notes`: `OWNERS` owners lie between the head's fields and the first note.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(OWNERS_AT).cast(), OWNERS) }
    }

    /// Whether an owner is known to have no lock of byte ranges of a file.
    pub fn may_close(&self, node: u64, owner: u64) -> bool {
        let is_it = |placed: &Owner| {
            placed.node.load(Ordering::Acquire) == node && placed.owner.load(Ordering::Relaxed) == owner
        };
        !self.have_owners_overflown() && !self.owners().iter().any(is_it)
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

    /// All slots of the table of known nodes; `None` if the memory has none.
    pub fn nodes(&self) -> Option<&[Slot]> {
        // SAFETY: as for `notes`: in a memory of this kind, `NODES` slots lie behind the first `BYTES` bytes.
        let nodes = || unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(BYTES).cast(), NODES) };
        (self.tables == Tables::OpensAndNodes).then(nodes)
    }

    /// The number of slots that may ever have been used, counted from the first. Looking at later ones would allocate
    /// their pages, 1 MiB for each mount.
    pub fn touched(&self) -> usize {
        self.used(HEAD_BYTES + NOTES * size_of::<Note>(), BYTES).min(SLOTS)
    }

    /// The number of slots of known nodes that may ever have been used, counted from the first.
    pub fn touched_nodes(&self) -> usize {
        self.used(BYTES, BYTES_WITH_NODES).min(self.nodes().map_or(0, <[Slot]>::len))
    }

    /// The number of slots between two offsets up to the last page that is allocated there.
    fn used(&self, from: usize, to: usize) -> usize {
        let (mut end, all) = (from as u64, to as u64);
        while let Some(data) = seek(&self.memory, SeekFrom::Data(end)).ok().filter(|data| *data < all) {
            end = seek(&self.memory, SeekFrom::Hole(data)).ok().filter(|hole| *hole > data).unwrap_or(all).min(all);
        }
        usize::try_from(end).unwrap_or(to).saturating_sub(from).div_ceil(size_of::<Slot>())
    }

    /// Records that a node had to be opened without a slot.
    pub fn overflow(&self) {
        self.head().overflown.store(1, Ordering::Release);
    }

    /// Whether a node ever had to be opened without a slot.
    pub fn has_overflown(&self) -> bool {
        self.head().overflown.load(Ordering::Acquire) != 0
    }

    /// Records that a node had no place in the table of known nodes.
    pub fn overflow_nodes(&self) {
        self.head().nodes_overflown.store(1, Ordering::Release);
    }

    /// Whether a node ever had no place in the table of known nodes.
    pub fn have_nodes_overflown(&self) -> bool {
        self.head().nodes_overflown.load(Ordering::Acquire) != 0
    }

    /// Records whether an owner of locks has no place.
    pub fn overflow_owners(&self, overflown: bool) {
        self.head().owners_overflown.store(overflown.into(), Ordering::Release);
    }

    /// Whether an owner of locks may have no place.
    pub fn have_owners_overflown(&self) -> bool {
        self.head().owners_overflown.load(Ordering::Acquire) != 0
    }

    /// Allows the holder to answer closes while no server runs, if this process notes the owners of locks and has claimed the
    /// mount.
    pub fn let_close(&self, notes: bool) {
        let lets = notes && self.claim.is_some() && self.head().owners_noted.load(Ordering::Relaxed) != 0;
        self.head().lets_close.store(lets.into(), Ordering::Release);
    }

    /// Whether closes may be answered while no server runs.
    pub fn lets_close(&self) -> bool {
        self.head().lets_close.load(Ordering::Acquire) == 1
    }

    fn head(&self) -> &Head {
        // SAFETY: as for `slots`: a head lies at the beginning.
        unsafe { self.at.cast().as_ref() }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: nothing borrowed from the mapping outlives `self`. If unmapping fails, it stays mapped.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.tables.bytes()) };
    }
}

const _: () = assert!(size_of::<Head>() <= OWNERS_AT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_writes_the_next_reads() {
        let first = SharedMemory::create(Tables::Opens).unwrap();
        assert!(first.nodes().is_none() && first.touched_nodes() == 0);
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
    fn the_table_of_nodes_begins_behind_that_of_open_files() {
        let first = SharedMemory::create(Tables::OpensAndNodes).unwrap();
        assert_eq!((first.touched(), first.touched_nodes()), (0, 0));
        first.nodes().unwrap()[3].node.store(7, Ordering::Relaxed);
        assert_eq!((first.touched(), first.touched_nodes()), (0, 256), "a page of slots");
        first.slots()[1].node.store(9, Ordering::Relaxed);
        first.nodes().unwrap().last().unwrap().node.store(5, Ordering::Relaxed);
        first.overflow_nodes();
        let memory = first.memory().try_clone_to_owned().unwrap();
        drop(first);
        let second = SharedMemory::open(memory).unwrap();
        assert!(second.touched() < 512 && second.touched_nodes() == NODES);
        assert_eq!((second.slots()[1].node.load(Ordering::Relaxed), second.have_nodes_overflown()), (9, true));
        assert_eq!(second.nodes().unwrap()[3].node.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn memory_of_another_kind_is_refused() {
        let shared = SharedMemory::create(Tables::Opens).unwrap();
        shared.head().version.store(VERSION + 1, Ordering::Relaxed);
        let text = SharedMemory::open(shared.memory().try_clone_to_owned().unwrap()).err().unwrap().to_string();
        assert!(text.contains("layout"), "{text}");
        let small = rustix::fs::memfd_create("small", MemfdFlags::CLOEXEC).unwrap();
        assert!(SharedMemory::open(small.try_clone().unwrap()).err().unwrap().to_string().contains("size"));
        rustix::fs::ftruncate(&small, BYTES as u64).unwrap();
        assert!(SharedMemory::open(small).err().unwrap().to_string().contains("truncation"));
    }
}
