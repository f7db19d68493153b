//! Detection of other users of a file, by a lease of the kernel (fcntl(2), "Leases").
//!
//! - The kernel grants a write lease only to the sole process that has the file open. The lease is released at once,
//!   since only the answer matters.
//! - A process that opens the file in that moment waits until the lease is released, and the kernel signals the lease's
//!   holder. The default signal, SIGIO, would end this process: so the lease uses a signal that is ignored by default.

use std::fs::File;
use std::os::fd::AsRawFd;

/// fcntl(2), "Managing signals": Linux on every architecture but PA-RISC and MIPS.
const F_SETSIG: i32 = 10;

/// Whether no other descriptor or mapping of `file` exists. The file must be open for writing.
pub(super) fn is_lone(file: &File) -> bool {
    let ask = |command: i32, argument: i32| {
        // SAFETY: the call takes numbers and a descriptor, which is open as long as the file; no memory.
        unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }
    };
    let lone = ask(F_SETSIG, libc::SIGURG) == 0 && ask(libc::F_SETLEASE, libc::F_WRLCK) == 0;
    if lone {
        ask(libc::F_SETLEASE, libc::F_UNLCK);
    }
    lone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_lone_until_somebody_else_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let file = open();
        assert!(is_lone(&file));
        let shared = file.try_clone().unwrap();
        assert!(is_lone(&file), "a duplicate descriptor of the same open file does not count");
        drop(shared);
        let reader = File::open(&path).unwrap();
        assert!(!is_lone(&file));
        drop(reader);
        let writer = open();
        assert!(!is_lone(&file));
        drop(writer);
        assert!(is_lone(&file));
    }
}
