//! Four threads create, fill, link, rename, exchange and delete names in a few folders at once; then both handles have
//! to agree.
//!
//! - Concurrent calls make each result unpredictable, so errors about names are expected; any other error is a failure.

use std::fs::OpenOptions;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{BUCKET, mounted};
use crate::support::agree::both_agree;
use crate::support::cli::check_store;
use crate::support::*;

const THREADS: u64 = 4;

/// The errors that a concurrent call may get.
const EXPECTED: [Errno; 8] =
    [Errno::NOENT, Errno::EXIST, Errno::ISDIR, Errno::NOTDIR, Errno::NOTEMPTY, Errno::INVAL, Errno::PERM, Errno::LOOP];

here_and_elsewhere! {
    fn both_handles_agree_after_a_storm_of_names() {
        need!(root_and_fuse());
        let calls = amount(3_000, 50_000);
        let rng = Rng::new("workloads::storm");
        let (mount, mut server) = mounted();
        let root = mount.path();
        std::thread::scope(|threads| {
            for number in 0..THREADS {
                let mut rng = rng.fork(number);
                threads.spawn(move || {
                    let done = (0..calls).filter(|_| fine(&call(root, &mut rng))).count();
                    assert!(done > calls / 10, "only {done} of {calls} calls did anything");
                });
            }
        });
        let compared = both_agree(&server, BUCKET, root);
        assert!(compared.files > 10, "{compared:?}");
        mount.unmount(&server);
        assert_eq!(server.terminate().code(), Some(0));
        check_store(&server);
    }
}

fn fine(done: &Result<()>) -> bool {
    let Err(error) = done else { return true };
    let expected = error.raw_os_error().is_some_and(|number| EXPECTED.contains(&Errno::from_raw_os_error(number)));
    assert!(expected, "{error}");
    false
}

fn call(root: &Path, rng: &mut Rng) -> Result<()> {
    let (one, two) = (name(root, rng), name(root, rng));
    match rng.below(20) {
        0..3 => std::fs::create_dir(one),
        3..7 => {
            let len = if rng.chance(10) { rng.below(200_000) } else { rng.below(9_000) };
            std::fs::write(one, rng.bytes(len))
        }
        7..9 => {
            let file = OpenOptions::new().write(true).open(one)?;
            let (at, len) = (rng.below(30_000), rng.below(5_000));
            file.write_all_at(&rng.bytes(len), at as u64)
        }
        9 => OpenOptions::new().write(true).open(one)?.set_len(rng.below(60_000) as u64),
        10 => std::fs::hard_link(one, two),
        11 => std::os::unix::fs::symlink("f1", one),
        12..15 => {
            let flags = [RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
            Ok(renameat_with(CWD, one, CWD, two, *rng.pick(&flags))?)
        }
        15 => std::fs::remove_dir(one),
        16..18 => std::fs::remove_file(one),
        18 => std::fs::read(one).map(drop),
        _ => {
            std::fs::read_dir(one)?.for_each(drop);
            Ok(())
        }
    }
}

/// A path of one to three components with few possible names, so that calls often use the same path.
fn name(root: &Path, rng: &mut Rng) -> PathBuf {
    let mut path = root.to_owned();
    for _ in 0..rng.below(3) {
        path.push(rng.pick(&["d1", "d2", "d3"]));
    }
    path.push(rng.pick(&["d1", "d2", "d3", "f1", "f2", "f3", "f4", "f5"]));
    path
}
