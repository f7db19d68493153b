//! Several mounts of one bucket: each sees what another's call has changed, and no call waits for another in a circle.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fuse::Mount;

use crate::test_store::{Rng, TestStore, Way, run};

/// How long the programs of a test run.
const TIME: Duration = Duration::from_secs(6);
/// The longest call, on a machine that runs other tests as well.
const LONGEST: Duration = Duration::from_millis(2_000);

/// The mounts of a test, and the longest call so far.
struct Several {
    paths: Vec<PathBuf>,
    over: AtomicBool,
    longest: AtomicU64,
    calls: AtomicU64,
    mounts: Vec<Mount>,
}

impl Several {
    fn new(test: &TestStore, ways: &[Way]) -> Self {
        let mounts: Vec<_> = ways.iter().enumerate().map(|(at, way)| test.mount_by(&format!("m{at}"), *way)).collect();
        let paths = mounts.iter().map(|mount| mount.path().to_owned()).collect();
        Self { paths, over: AtomicBool::new(false), longest: AtomicU64::new(0), calls: AtomicU64::new(0), mounts }
    }

    /// Makes a call, and notes how long it takes.
    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let value = call();
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap();
        self.longest.fetch_max(took, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
        value
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets `work` run in two threads of each mount, beside S3.
    fn work(&self, test: &TestStore, work: impl Fn(&Self, usize, u64) + Sync) {
        std::thread::scope(|scope| {
            for at in 0..self.paths.len() {
                for number in 0..2 {
                    let work = &work;
                    scope.spawn(move || {
                        let _ends = Ends(&self.over);
                        work(self, at, number);
                    });
                }
            }
            let begun = Instant::now();
            let mut round = 0_u64;
            while begun.elapsed() < TIME && !self.is_over() {
                let content = format!("by s3 {round}");
                self.timed(|| test.put("shared/s3", content.as_bytes()));
                for path in &self.paths {
                    let seen = self.timed(|| std::fs::read(path.join("shared/s3"))).unwrap();
                    assert_eq!(String::from_utf8_lossy(&seen), content, "through {}", path.display());
                }
                round += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            self.over.store(true, Ordering::Relaxed);
        });
        let (longest, calls) = (self.longest.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed));
        assert!(u128::from(longest) < LONGEST.as_millis(), "a call took {longest} ms, of {calls}");
        for mount in &self.mounts {
            mount.unmount().unwrap();
        }
    }
}

/// A thread that fails ends all others.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The inode that each mount shows at a name: all the same.
fn found(several: &Several, name: &Path) -> Vec<Option<u64>> {
    let look = |path: &PathBuf| match several.timed(|| path.join(name).symlink_metadata()) {
        Ok(meta) => Some(meta.ino()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", path.join(name).display()),
    };
    several.paths.iter().map(look).collect()
}

/// Creates, renames and removes names of its own in a directory that all share, and looks after each call.
fn change_names(several: &Several, at: usize, number: u64) {
    let mut random = Rng(at as u64 * 7 + number);
    let shared = Path::new("shared");
    let own = |round: usize| shared.join(format!("{at}-{number}-{}", round % 3));
    let mut round = 0;
    while !several.is_over() {
        round += 1;
        let (name, other) = (own(round), own(round + 1));
        let (here, there) = (several.paths[at].join(&name), several.paths[at].join(&other));
        // Absences and presences are cached everywhere.
        found(several, &name);
        found(several, &other);
        if random.below(3) == 0 {
            several.timed(|| std::fs::create_dir(&here)).unwrap();
            assert!(found(several, &name).iter().all(Option::is_some), "a directory was made: {name:?}");
            several.timed(|| std::fs::remove_dir(&here)).unwrap();
        } else {
            several.timed(|| File::create_new(&here)).unwrap();
            assert!(found(several, &name).iter().all(Option::is_some), "a file was made: {name:?}");
            several.timed(|| rustix::fs::rename(&here, &there)).unwrap();
            assert!(found(several, &other).iter().all(Option::is_some), "a file was renamed: {other:?}");
            assert!(found(several, &name).iter().all(Option::is_none), "a file was renamed: {name:?}");
            several.timed(|| std::fs::remove_file(&there)).unwrap();
        }
        assert!(found(several, &name).iter().chain(&found(several, &other)).all(Option::is_none), "it was removed");
    }
}

/// Writes a place of its own in a file that all share, and reads it through each mount.
fn write_places(several: &Several, at: usize, number: u64) {
    const EACH: u64 = 700;
    let place = (at as u64 * 2 + number) * EACH;
    let open = |path: &PathBuf| OpenOptions::new().read(true).write(true).open(path.join("shared/file")).unwrap();
    let (file, mut round) = (open(&several.paths[at]), 0_u8);
    let others: Vec<File> = several.paths.iter().map(open).collect();
    let readers = || several.paths.iter().map(|path| File::open(path.join("shared/file")).unwrap());
    while !several.is_over() {
        round = round.wrapping_add(1);
        let content = vec![round; EACH as usize];
        several.timed(|| file.write_all_at(&content, place)).unwrap();
        for (who, other) in others.iter().enumerate() {
            let mut seen = vec![0; EACH as usize];
            several.timed(|| other.read_exact_at(&mut seen, place)).unwrap();
            assert!(seen == content, "{} in place of {round} through an open file of mount {who}", seen[0]);
        }
        for (who, reader) in readers().enumerate() {
            let mut seen = vec![0; EACH as usize];
            several.timed(|| reader.read_exact_at(&mut seen, place)).unwrap();
            assert!(seen == content, "{} in place of {round} through mount {who}", seen[0]);
        }
    }
}

fn names(ways: &'static [Way]) {
    run(|test| {
        let several = Several::new(test, ways);
        std::fs::create_dir(several.paths[0].join("shared")).unwrap();
        several.work(test, change_names);
    });
}

fn places(ways: &'static [Way]) {
    run(|test| {
        let several = Several::new(test, ways);
        std::fs::create_dir(several.paths[0].join("shared")).unwrap();
        std::fs::write(several.paths[0].join("shared/file"), vec![0; 10_000]).unwrap();
        several.work(test, write_places);
    });
}

#[test]
fn two_mounts_of_one_machine_change_names_of_one_directory() {
    names(&[Way::Direct, Way::Direct]);
}

#[test]
fn mounts_of_two_machines_change_names_of_one_directory() {
    names(&[Way::Direct, Way::Remote]);
    names(&[Way::Remote, Way::Remote]);
}

#[test]
fn mounts_of_three_machines_change_names_of_one_directory() {
    names(&[Way::Remote, Way::Direct, Way::Remote]);
}

#[test]
fn two_mounts_of_one_machine_write_one_file() {
    places(&[Way::Direct, Way::Direct]);
}

#[test]
fn mounts_of_several_machines_write_one_file() {
    places(&[Way::Direct, Way::Remote]);
    places(&[Way::Remote, Way::Remote]);
    places(&[Way::Remote, Way::Direct, Way::Remote]);
}
