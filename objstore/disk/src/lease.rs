//! Asking the kernel who has a file open, by a lease (fcntl(2), "Leases").
//!
//! - A write lease is given to who is the only one that has the file open. It is given back at once: it serves as the
//!   question alone.
//! - Who opens the file in that moment waits until it is given back, and the holder would be told by SIGIO, which ends a
//!   process that does not expect it: the lease is set to tell by a signal that is ignored unless somebody asks for it.

use std::fs::File;
use std::os::fd::AsRawFd;

/// fcntl(2), "Managing signals": Linux on every architecture but PA-RISC and MIPS.
const F_SETSIG: i32 = 10;

/// Whether `file`, opened for writing, is the only one: nobody else has opened or mapped it.
pub(super) fn is_lone(file: &File) -> bool {
    let ask = |command: i32, argument: i32| {
        // SAFETY: the call takes a descriptor, which is open as long as the file, and numbers; no memory.
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
        assert!(is_lone(&file), "the same opening");
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
