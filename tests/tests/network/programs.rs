//! Programs that know what each of their calls must answer.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_s3::primitives::ByteStream;
use rustix::fs::{FlockOperation, fcntl_lock, flock};

/// The longest call of all programs since it was taken last.
#[derive(Default)]
pub struct Longest(Mutex<Duration>);

impl Longest {
    pub fn take(&self) -> Duration {
        std::mem::take(&mut *self.0.lock().expect("no thread panics while it holds the lock"))
    }

    fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = call();
        let mut longest = self.0.lock().expect("no thread panics while it holds the lock");
        *longest = longest.max(began.elapsed());
        done
    }
}

/// What the programs share. Each returns how often it did what it does.
#[derive(Clone, Copy)]
pub struct Programs<'a> {
    pub going: &'a AtomicBool,
    pub longest: &'a Longest,
}

impl Programs<'_> {
    fn turns(self) -> impl Iterator<Item = u64> {
        (0..).take_while(move |_| {
            std::thread::sleep(Duration::from_millis(1));
            self.going.load(Ordering::SeqCst)
        })
    }

    /// Appends numbered records, each with fsync.
    #[expect(clippy::disallowed_methods, reason = "what a program does on a mount")]
    pub fn append(self, file: &Path) -> u64 {
        let mut log = OpenOptions::new().create(true).append(true).open(file).expect("the log is opened");
        let mut done = 0;
        for number in self.turns() {
            self.longest
                .time(|| log.write_all(&number.to_be_bytes()).and_then(|()| log.sync_data()))
                .expect("appended");
            done = number + 1;
        }
        done
    }

    /// Creates each name on both mounts at the same time: one of the two makes it.
    pub fn create(self, dirs: &[&Path]) -> u64 {
        let make = |dir: &Path, number: u64| {
            let made = self.longest.time(|| File::create_new(dir.join(format!("once-{number}"))));
            match made {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
                Err(error) => panic!("once-{number}: {error}"),
            }
        };
        let mut done = 0;
        for number in self.turns() {
            let made = std::thread::scope(|threads| {
                let other = threads.spawn(|| make(dirs[1], number));
                [make(dirs[0], number), other.join().expect("made or there")]
            });
            assert!(made[0] != made[1], "once-{number} is made by {made:?}");
            done = number + 1;
        }
        done
    }

    /// Counts in a file on both mounts at the same time, under a lock: by each mount alone as often as is returned.
    pub fn count(self, dirs: &[&Path], name: &str, lock: fn(&File, FlockOperation) -> rustix::io::Result<()>) -> u64 {
        let count = |dir: &Path| {
            let path = dir.join(name);
            let file =
                OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).expect("opened");
            let mut done = 0;
            for number in self.turns() {
                self.longest.time(|| lock(&file, FlockOperation::LockExclusive)).expect("locked");
                let mut bytes = [0; 8];
                let read = self.longest.time(|| file.read_at(&mut bytes, 0)).expect("read");
                assert!(read == 8 || read == 0, "{read} bytes");
                let next = u64::from_be_bytes(bytes) + 1;
                self.longest.time(|| file.write_all_at(&next.to_be_bytes(), 0)).expect("written");
                self.longest.time(|| lock(&file, FlockOperation::Unlock)).expect("unlocked");
                done = number + 1;
            }
            done
        };
        let both = std::thread::scope(|threads| {
            let other = threads.spawn(|| count(dirs[1]));
            [count(dirs[0]), other.join().expect("it counted")]
        });
        for dir in dirs {
            let counted = std::fs::read(dir.join(name)).expect("read");
            assert_eq!(counted, (both[0] + both[1]).to_be_bytes(), "{name}, counted {both:?} times");
        }
        both.into_iter().min().unwrap_or_default()
    }

    /// Counts by renaming a file.
    #[expect(clippy::disallowed_methods, reason = "what a program does on a mount")]
    pub fn rename(self, file: &Path) -> u64 {
        let at = |number: u64| file.with_extension(number.to_string());
        File::create_new(at(0)).expect("made");
        let mut done = 0;
        for number in self.turns() {
            self.longest.time(|| std::fs::rename(at(number), at(number + 1))).expect("renamed");
            done = number + 1;
        }
        done
    }

    /// Puts objects through S3, and reads each through a mount once the put is acknowledged.
    pub fn put_and_read(
        self,
        runtime: &tokio::runtime::Runtime,
        s3: &aws_sdk_s3::Client,
        bucket: &str,
        dir: &Path,
    ) -> u64 {
        let mut done = 0;
        for number in self.turns() {
            let body = ByteStream::from(number.to_be_bytes().to_vec());
            let put = runtime.block_on(s3.put_object().bucket(bucket).key("object").body(body).send());
            // The server may be away.
            if put.is_ok() {
                let read = self.longest.time(|| std::fs::read(dir.join("object"))).expect("read");
                assert_eq!(read, number.to_be_bytes(), "an older content after the answer to the put");
                done += 1;
            }
        }
        done
    }
}

/// Locks and unlocks all bytes of a file.
pub fn of_ranges(file: &File, how: FlockOperation) -> rustix::io::Result<()> {
    fcntl_lock(file, how)
}

/// Locks and unlocks a whole file.
pub fn of_whole_files(file: &File, how: FlockOperation) -> rustix::io::Result<()> {
    flock(file, how)
}

/// Everything that was acknowledged is there once, on both mounts.
pub fn check(dirs: &[&Path], [appends, creates, renames, ..]: [u64; 6]) {
    for dir in dirs {
        let log = std::fs::read(dir.join("log")).expect("the log");
        let expected: Vec<u8> = (0..appends).flat_map(u64::to_be_bytes).collect();
        assert!(log == expected, "{} bytes of {}", log.len(), expected.len());
        let names: BTreeSet<_> =
            std::fs::read_dir(dir).expect("names").map(|entry| entry.expect("a name").file_name()).collect();
        let counters: Vec<_> = names.iter().filter_map(|name| name.to_str()?.strip_prefix("counter.")).collect();
        assert_eq!(counters, [renames.to_string()]);
        assert_eq!(names.iter().filter(|name| name.to_string_lossy().starts_with("once-")).count() as u64, creates);
    }
}
