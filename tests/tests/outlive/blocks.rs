//! Programs that write large blocks, each program a separate process, so that requests being delivered to a dying
//! server are as large as possible.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;

const BLOCK: usize = 700_000;
/// What one program writes.
pub const BYTES: usize = 10 * BLOCK;
/// The smallest number of copies.
const COPIES_MIN: usize = 3;

/// Copies `source` to `to`, again and again, and compares at the end. Most of the time there is no server, so the last
/// copies may be made after the last server has started.
pub fn copy(source: &Path, to: &Path, going: &AtomicBool) {
    let mut copies = 0;
    while going.load(Ordering::Relaxed) || copies < COPIES_MIN {
        let mut program = Command::new("dd");
        program.args([format!("if={}", source.display()), format!("of={}", to.display()), format!("bs={BLOCK}")]);
        let _ = run(&mut program, limit(60)).expect("dd ends").ok();
        copies += 1;
    }
    let (written, expected) = (std::fs::read(to).expect("the copy"), std::fs::read(source).expect("the source"));
    assert!(written == expected, "{} differs after {copies} copies", to.display());
}
