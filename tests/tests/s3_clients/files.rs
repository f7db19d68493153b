//! Files for clients that copy folders.

use std::path::Path;
use std::process::Command;

use crate::support::program::succeed;

/// Bytes without repeated blocks.
pub fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).take(len.div_ceil(8)).flatten().take(len).collect()
}

/// Writes a file, and creates the folders above it.
pub fn write(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
    std::fs::write(path, content).expect("the file is written");
}

/// Fills a folder with names and sizes that clients often handle wrongly; `large` is the size of the largest file.
pub fn tree(dir: &Path, large: usize) {
    for (name, content) in [("a b.txt", "1"), ("d/é", "22"), ("d/e/f+g&h", "333"), ("empty", ""), ("d/日本", "4")] {
        write(&dir.join(name), content.as_bytes());
    }
    write(&dir.join("d/medium"), &bytes(200_000));
    write(&dir.join("large"), &bytes(large));
}

/// Asserts that both folders have the same content.
#[track_caller]
pub fn same(one: &Path, other: &Path) {
    succeed(Command::new("diff").arg("-r").arg(one).arg(other));
}
