//! How glibc's allocator keeps memory: a server of many threads and large buffers, on a small machine.
//!
//! - By default each thread may get an arena of its own, and each freed buffer raises the size up to which later ones
//!   are kept; measured here, mounting and unmounting twelve times grew the process from 23 to 156 MiB, and 64 writers
//!   of 4 KiB to 87 instead of 50.

/// Buffers from this size on go back to the system when they are freed: the blocks of S3 bodies, of which the store
/// keeps some at hand, and answers of long listings. Below it they lie among small ones, which keep their room.
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Arenas: enough that threads rarely wait for each other, few enough that their unused ends do not add up.
const ARENAS_MAX: usize = 8;

/// Sets the allocator up. To be called before there are threads.
#[cfg(target_env = "gnu")]
pub(crate) fn set_up() {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let arenas = libc::c_int::try_from(cores.clamp(2, ARENAS_MAX)).unwrap_or(2);
    for (parameter, value) in
        [(libc::M_ARENA_MAX, arenas), (libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, LARGE_BYTES)]
    {
        // SAFETY: mallopt(3) takes two integers and changes the allocator's own parameters. What it refuses stays as
        // it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Other allocators have no such parameters.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn set_up() {}
