//! A mount whose store is not reached any more: it shows nothing that its kernel has cached.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fuse::{Mount, Options};
use node_testing::{Loopback, Terms, Weather};
use objstore::volume::VolumeOptions;
use objstore_files::{FileService, FileSession};
use parking_lot::Mutex;

use crate::test_store::{TestStore, Way, errno, run};

/// The lease of a session.
const LEASE: Duration = Duration::from_secs(2);

/// A mount over connections in some weather.
fn mount(test: &TestStore, loopback: &Loopback, weather: &Weather) -> Mount {
    let volume = Mutex::new(Some(test.store().open_volume(test.bucket(), VolumeOptions::default()).unwrap()));
    let files =
        move |_: &node_testing::Opening| volume.lock().take().map(|volume| Box::new(volume) as Box<dyn FileService>);
    let session = FileSession::new(loopback.connect(files, weather));
    fuse::mount(session, &test.folder("cut"), Options::default()).unwrap()
}

fn first(file: &File) -> std::io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).map(|()| byte[0])
}

/// How many reads reached the mount.
fn reads(mount: &Mount) -> u64 {
    mount.stats().operations.iter().filter(|operation| operation.name == "read").map(|operation| operation.count).sum()
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Errors of a session that is lost.
fn is_lost(number: i32) -> bool {
    [libc::ESTALE, libc::EIO, libc::ENOTCONN].contains(&number)
}

/// Cuts a mount off that has cached a file.
#[expect(clippy::disallowed_methods, reason = "what a program does on a mount")]
fn cut_off(test: &TestStore) {
    let terms = Terms { lease: LEASE, ..Terms::default() };
    let (loopback, weather) = (Loopback::patient(terms, 2 * LEASE), Weather::default());
    let cut = mount(test, &loopback, &weather);
    let here = test.mount_by("here", Way::Direct);
    std::fs::write(here.path().join("f"), vec![1; 9_000]).unwrap();
    std::fs::write(here.path().join("g"), vec![1; 9_000]).unwrap();
    let file = File::open(cut.path().join("f")).unwrap();
    assert_eq!(first(&file).unwrap(), 1);
    let before = reads(&cut);
    assert_eq!((first(&file).unwrap(), reads(&cut)), (1, before), "it is cached");
    let written = open(&cut.path().join("g"));

    weather.fall_silent();
    let begun = Instant::now();
    std::fs::write(here.path().join("f"), vec![2; 9_000]).unwrap();
    let took = begun.elapsed();
    assert!(took > LEASE / 2 && took < 4 * LEASE, "a change waits for the end of the lease: {took:?}");
    let read = first(&file);
    assert!(read.as_ref().is_err_and(|error| error.raw_os_error().is_some_and(is_lost)), "{read:?}");
    assert!(is_lost(errno(cut.path().join("f").metadata())));
    assert!(is_lost(errno(written.sync_all())), "a sync fails");
    drop((written, file));
    drop(cut);

    let again = test.mount_by("again", Way::Remote);
    assert_eq!(std::fs::read(again.path().join("f")).unwrap()[0], 2);
    std::fs::write(again.path().join("f"), vec![3; 10]).unwrap();
    assert_eq!(std::fs::read(here.path().join("f")).unwrap(), vec![3; 10]);
}

#[test]
fn a_mount_that_is_cut_off_shows_nothing_old_after_its_lease() {
    run(cut_off);
}
