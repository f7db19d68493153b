//! The same system calls on ext4 and on a mount, which have to have the same results.
//!
//! - A step runs once in a folder on disk and once in a folder of the mount, on a thread with the given user and umask.
//!   Results, error numbers and modes are compared, but no times or inode numbers.
//! - Where the temporary folder is not on ext4, the steps run on the mount only.

use std::fmt::Debug;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuse::Mount;

use crate::test_store::TestStore;

/// The type that statfs(2) reports for ext4.
const EXT4: i64 = 0xEF53;

/// The user that runs a step, with its group and its further groups.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'static [u32],
}

/// The superuser.
pub const ROOT: Actor = Actor { uid: 0, gid: 0, groups: &[] };
/// The owner of what tests create for it; a member of the group 2000.
pub const OWNER: Actor = Actor { uid: 1000, gid: 1000, groups: &[2000] };
/// A member of the group 2000 that owns nothing.
pub const MEMBER: Actor = Actor { uid: 1001, gid: 1001, groups: &[2000, 3000] };
/// A user in none of the groups that matter.
pub const OTHER: Actor = Actor { uid: 1002, gid: 1002, groups: &[] };

/// Two folders that must behave the same.
pub struct FolderPair {
    /// The folder on the disk, if that is ext4.
    reference: Option<PathBuf>,
    /// The folder in the mount.
    mounted: PathBuf,
}

impl FolderPair {
    /// Empty folders that every user may write to.
    pub fn new(test: &TestStore, mount: &Mount) -> Self {
        let mounted = mount.path().join("twin");
        std::fs::create_dir(&mounted).unwrap();
        let reference = test.folder("reference");
        let found = rustix::fs::statfs(&reference).unwrap();
        let pair = Self { reference: (found.f_type as i64 == EXT4).then_some(reference), mounted };
        for side in pair.sides() {
            chmod(side, 0o777).unwrap();
        }
        pair
    }

    /// The folder of the mount.
    pub fn mounted(&self) -> &Path {
        &self.mounted
    }

    fn sides(&self) -> impl Iterator<Item = &Path> {
        self.reference.iter().chain([&self.mounted]).map(PathBuf::as_path)
    }

    /// Runs a step in both folders, asserts equal results, and returns the result.
    #[track_caller]
    pub fn same<T>(&self, what: impl Debug, actor: Actor, step: impl Fn(&Path) -> T + Sync) -> T
    where
        T: Debug + PartialEq + Send,
    {
        let mut told: Vec<T> = self.sides().map(|side| acting(actor, 0o022, || step(side))).collect();
        let mounted = told.pop().unwrap();
        if let Some(reference) = told.pop() {
            assert_eq!(mounted, reference, "{what:?} by {actor:?}: the mount (left) is not as ext4 (right)");
        }
        mounted
    }

    /// Runs a step in both folders and asserts equal results.
    #[track_caller]
    pub fn agree<T>(&self, what: impl Debug, actor: Actor, step: impl Fn(&Path) -> T + Sync)
    where
        T: Debug + PartialEq + Send,
    {
        let _ = self.same(what, actor, step);
    }

    /// Runs a step with the given umask in both folders, asserts equal results, and returns the result.
    #[track_caller]
    pub fn same_with_umask<T>(&self, umask: u32, actor: Actor, step: impl Fn(&Path) -> T + Sync) -> T
    where
        T: Debug + PartialEq + Send,
    {
        let set = move |side: &Path| {
            // SAFETY: the call takes a number, and the umask belongs to this thread alone (`acting`).
            unsafe { libc::umask(umask) };
            step(side)
        };
        self.same(umask, actor, set)
    }

    /// Runs each line of a shell script in both folders.
    #[track_caller]
    pub fn script(&self, actor: Actor, lines: &[&str]) {
        for line in lines {
            self.same(line, actor, |side| shell(side, line));
        }
    }
}

/// The output of a command and its exit status.
pub fn shell(folder: &Path, line: &str) -> String {
    let output = std::process::Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    format!("{:?} {}", output.status.code(), String::from_utf8_lossy(&said))
}

/// Runs `act` as another user, on a separate thread: for the kernel, users and umasks belong to threads.
pub fn acting<T: Send>(actor: Actor, umask: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_actor(actor, umask);
            act()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// By the system calls, since the C library's functions would change all threads.
fn become_actor(actor: Actor, umask: u32) {
    let Actor { uid, gid, groups } = actor;
    // SAFETY: the calls take numbers, and `setgroups` an array of the given length; they change this thread alone.
    let failed = unsafe {
        [
            i64::from(libc::unshare(libc::CLONE_FS)),
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
            libc::syscall(libc::SYS_setresgid, gid, gid, gid),
            libc::syscall(libc::SYS_setresuid, uid, uid, uid),
        ]
    };
    assert_eq!(failed, [0; 4], "{}", std::io::Error::last_os_error());
    // SAFETY: the call takes a number.
    unsafe { libc::umask(umask) };
}

/// The result of a system call: its value or its error number.
pub fn told<T>(result: rustix::io::Result<T>) -> Result<T, i32> {
    result.map_err(rustix::io::Errno::raw_os_error)
}

/// The result of a function of the standard library: its value or its error number.
pub fn heard<T>(result: std::io::Result<T>) -> Result<T, i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or(-1))
}

/// Sets the mode of a file.
pub fn chmod(path: &Path, mode: u32) -> Result<(), i32> {
    told(rustix::fs::chmod(path, mode.into()))
}

/// Renames a file.
pub fn rename(from: &Path, to: &Path) -> Result<(), i32> {
    told(rustix::fs::rename(from, to))
}

/// Type, mode, links, owner, group, device, and the size unless it is a directory: what both folders must agree on.
pub fn stat(path: &Path) -> Result<String, i32> {
    let meta = heard(path.symlink_metadata())?;
    let kind = meta.file_type();
    let named = [
        (kind.is_dir(), "dir"),
        (kind.is_symlink(), "link"),
        (kind.is_fifo(), "fifo"),
        (kind.is_socket(), "socket"),
        (kind.is_char_device(), "char"),
        (kind.is_block_device(), "block"),
    ];
    let kind = named.iter().find(|(is, _)| *is).map_or("file", |(_, name)| name);
    let size = if meta.is_dir() { 0 } else { meta.len() };
    let (mode, links) = (meta.mode() & 0o7777, meta.nlink());
    Ok(format!("{kind} {mode:04o} links {links} {}:{} size {size} device {:x}", meta.uid(), meta.gid(), meta.rdev()))
}

/// The permission bits.
pub fn mode(path: &Path) -> u32 {
    path.symlink_metadata().map_or(0, |meta| meta.mode() & 0o7777)
}

/// Waits until a change of a file gets another time than those before. The clock for file times advances with the
/// kernel's tick, which may be late in a virtual machine.
pub fn tick() {
    let begin = coarse_time();
    while coarse_time() == begin {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Seconds and nanoseconds of the clock for file times.
fn coarse_time() -> (i64, i64) {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer leads to memory for the time.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    (now.tv_sec, now.tv_nsec)
}

/// An inode's number, and its modification and change times.
type Times = (u64, [(i64, i64); 2]);

/// Which times of these paths an action changes: `m` and `c` for each, in order; or that a path leads to another inode.
pub fn moved(paths: &[&Path], act: impl FnOnce()) -> Vec<String> {
    let times = |path: &&Path| {
        let meta = path.symlink_metadata().ok()?;
        Some((meta.ino(), [(meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec())]))
    };
    let before: Vec<_> = paths.iter().map(times).collect();
    tick();
    act();
    let after = paths.iter().map(times);
    let which = |(before, after): (Option<Times>, Option<Times>)| match (before, after) {
        (Some((inode, _)), Some((other, _))) if inode != other => "another".to_owned(),
        (Some((_, before)), Some((_, after))) => {
            let moves = |at: usize, name| if before[at] == after[at] { "" } else { name };
            [moves(0, "m"), moves(1, "c")].concat()
        }
        _ => "gone".to_owned(),
    };
    before.into_iter().zip(after).map(which).collect()
}
