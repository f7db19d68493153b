//! The suite of the trait [`FileService`](objstore_files::FileService): each test gets a bucket of its own.

mod attributes;
mod content;
mod names;
mod replays;
mod sessions;

use objstore_base::error::{Error, Posix, Result};
use objstore_files::{Attr, FileSession, Files, Make, Ownership, ROOT_INO};

/// A bucket, and sessions of the service under test on it.
pub trait Subject: Sync {
    /// A new session.
    fn open(&self) -> FileSession;

    /// A new session that refuses changes.
    fn open_read_only(&self) -> FileSession;

    /// A new persistent session.
    fn open_persistent(&self) -> FileSession;

    /// Stores an object as a client of S3 does, and returns once it is acknowledged.
    fn put(&self, key: &str, content: &[u8]);
}

/// A test of the suite.
pub type Test = fn(&dyn Subject);

/// All tests, each with its guarantee.
pub fn tests() -> impl Iterator<Item = (&'static str, Test)> {
    [names::TESTS, content::TESTS, attributes::TESTS, sessions::TESTS, replays::TESTS].into_iter().flatten().copied()
}

/// Owner and mode of what the tests create.
const OWNER: Ownership = Ownership { uid: 5, gid: 6, mode: 0o644, umask: 0 };

fn file(files: &Files<'_>, name: &str) -> u64 {
    make(files, name, Make::File).ino
}

fn make(files: &Files<'_>, name: &str, what: Make) -> Attr {
    files.make(ROOT_INO, name, what, OWNER).expect("it is created")
}

/// The error is a POSIX error.
#[track_caller]
fn refused<T>(result: Result<T>, why: Posix) {
    match result {
        Err(Error::Posix(found)) if found == why => {}
        Err(error) => panic!("{error}, not {why:?}"),
        Ok(_) => panic!("it is not refused with {why:?}"),
    }
}
