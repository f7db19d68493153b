//! File locks across mounts of one bucket, by programs: fcntl(2), open file descriptions and flock(2).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::test_store::{TestStore, Way, run, run_all};

/// The time limit of an answer, on a machine that runs other tests as well.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a call is observed that has to wait.
const WAITS: Duration = Duration::from_millis(300);

/// A program that makes the calls it is asked for.
struct Program {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    pid: String,
}

impl Program {
    fn new() -> Self {
        let mut command = Command::new("python3");
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/locks.py");
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python3");
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let pid = lines.recv_timeout(LIMIT).expect("the program's number");
        Self { process, input, lines, pid }
    }

    /// A program that has opened `file` of a mount as `f`.
    fn with(mount: &Path, file: &str) -> Self {
        let mut program = Self::new();
        program.open("f", &mount.join(file));
        program
    }

    fn open(&mut self, name: &str, path: &Path) {
        assert_eq!(self.call(&format!("open {name} {}", path.display())), "ok");
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the program runs");
    }

    fn answer(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("an answer in time")
    }

    fn call(&mut self, line: &str) -> String {
        self.ask(line);
        self.answer()
    }

    /// Asks for a call that waits.
    fn waits(&mut self, line: &str) {
        self.ask(line);
        assert_eq!(self.lines.recv_timeout(WAITS).ok(), None, "{line}: it waits");
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two mounts, each with a program that has a common file open as `f`.
fn two(test: &TestStore) -> (Vec<fuse::Mount>, Program, Program) {
    let mounts = vec![test.mount("a"), test.mount("b")];
    let [a, b] = [&mounts[0], &mounts[1]].map(|mount| Program::with(mount.path(), "file"));
    (mounts, a, b)
}

#[test]
fn byte_ranges_of_two_mounts_exclude_each_other() {
    run_all(|test| {
        let (_mounts, mut a, mut b) = two(test);
        assert_eq!(a.call("posix f try w 10 10"), "ok");
        assert_eq!(b.call("posix f try r 19 1"), "EAGAIN");
        assert_eq!(b.call("posix f get r 0 0"), "w 10 10 0", "a process of another mount has no number here");
        let mut beside = Program::with(_mounts[0].path(), "file");
        assert_eq!(beside.call("posix f get r 0 0"), format!("w 10 10 {}", a.pid));
        assert_eq!(b.call("posix f try w 20 0"), "ok", "to the end of the file, wherever it is");
        assert_eq!(a.call("posix f get w 1000000 1"), "w 20 0 0");
        assert_eq!(b.call("posix f try r 0 10"), "ok");
        assert_eq!(a.call("posix f try r 0 20"), "ok", "shared with what was shared, and weaker than before");
        assert_eq!(b.call("posix f try r 10 10"), "ok");
        assert_eq!(b.call("posix f try w 10 1"), "EAGAIN");
        assert_eq!(a.call("posix f try u 0 0"), "ok");
        assert_eq!(b.call("posix f try w 0 0"), "ok");
        assert_eq!(b.call("flock f try w"), "ok", "the two kinds do not see each other");
    });
}

#[test]
fn closing_and_dying_ends_what_linux_ends_and_nothing_else() {
    run_all(|test| {
        let (mounts, mut a, mut b) = two(test);
        // fcntl(2): any descriptor of the process. The lock is gone when close(2) returns.
        for _ in 0..20 {
            a.open("other", &mounts[0].path().join("file"));
            assert_eq!(a.call("posix f try w 0 1"), "ok");
            assert_eq!(b.call("posix f try w 0 1"), "EAGAIN");
            assert_eq!(a.call("close other"), "ok");
            assert_eq!(b.call("posix f try w 0 1"), "ok");
            assert_eq!(b.call("posix f try u 0 1"), "ok");
        }
        // A child has the descriptors and not the locks.
        assert_eq!(a.call("posix f try w 0 1"), "ok");
        assert_eq!(a.call("fork -"), "ok");
        assert_eq!(a.call("close f"), "ok");
        assert_eq!(b.call("posix f try w 0 1"), "ok");
        // flock(2) and F_OFD_SETLK: the last descriptor of the open file.
        for kind in ["flock g {} w", "ofd g {} w 5 1"] {
            let line = |how: &str, mode: &str| kind.replace("{}", how).replace('w', mode);
            let theirs = |how: &str| line(how, "w").replace(" g ", " f ");
            a.open("g", &mounts[0].path().join("file"));
            assert_eq!(a.call("dup g h"), "ok");
            assert_eq!(a.call(&line("try", "w")), "ok");
            assert_eq!(a.call("close g"), "ok");
            assert_eq!(b.call(&theirs("try")), "EAGAIN");
            assert_eq!(a.call("close h"), "ok");
            // The kernel tells of the last close after close(2) has returned.
            assert_eq!(b.call(&theirs("wait")), "ok");
        }
        let mut dying = Program::with(mounts[0].path(), "dying");
        let mut heir = Program::with(mounts[1].path(), "dying");
        assert_eq!(dying.call("posix f try w 0 0"), "ok");
        assert_eq!(dying.call("flock f try w"), "ok");
        dying.kill();
        assert_eq!(heir.call("posix f wait w 0 0"), "ok");
        assert_eq!(heir.call("flock f wait w"), "ok");
    });
}

#[test]
fn a_request_waits_until_it_is_granted_interrupted_or_killed() {
    run_all(|test| {
        let (mounts, mut a, mut b) = two(test);
        for (take, wait, give) in [
            ("posix f try w 0 9", "posix f wait w 0 9", "posix f try u 0 0"),
            ("flock f try w", "flock f wait w", "flock f try u"),
            ("ofd f try w 0 9", "ofd f wait w 0 9", "ofd f try u 0 0"),
        ] {
            assert_eq!(a.call(take), "ok");
            b.waits(wait);
            assert_eq!(a.call(give), "ok");
            assert_eq!(b.answer(), "ok");
            assert_eq!(a.call(take), "EAGAIN");
            assert_eq!(b.call(give), "ok");
            // Interrupted, it leaves nothing behind.
            assert_eq!(a.call(take), "ok");
            assert_eq!(b.call("alarm 0.2"), "ok");
            assert_eq!(b.call(wait), "EINTR");
            let mut killed = Program::with(mounts[1].path(), "file");
            killed.waits(wait);
            killed.kill();
            assert_eq!(a.call(give), "ok");
            let mut third = Program::with(mounts[0].path(), "file");
            assert_eq!(third.call(take), "ok");
        }
    });
}

/// fcntl(2): a close ends the locks of the process, and not its requests.
#[test]
fn a_request_waits_on_while_another_thread_closes_the_file() {
    run_all(|test| {
        let (mounts, mut a, mut b) = two(test);
        assert_eq!(a.call("posix f try w 0 1"), "ok");
        assert_eq!(b.call(&format!("later - 0.1 {}", mounts[1].path().join("file").display())), "ok");
        b.waits("posix f wait w 0 1");
        assert_eq!(a.call("posix f try u 0 0"), "ok");
        assert_eq!(b.answer(), "ok");
        assert_eq!(a.call("posix f try w 0 1"), "EAGAIN");
    });
}

#[test]
fn a_circle_of_processes_is_refused() {
    run_all(|test| {
        let (_mounts, mut a, mut b) = two(test);
        assert_eq!(a.call("posix f try w 0 1"), "ok");
        assert_eq!(b.call("posix f try w 1 1"), "ok");
        a.waits("posix f wait w 1 1");
        assert_eq!(b.call("posix f wait w 0 1"), "EDEADLK");
        assert_eq!(b.call("posix f try u 0 0"), "ok");
        assert_eq!(a.answer(), "ok");
    });
}

/// More wait than the mount has threads, in any of its processes.
#[test]
fn many_waiting_requests_hold_up_nobody() {
    const WAITING: usize = 150;
    run_all(|test| {
        let (mounts, mut a, b) = two(test);
        drop(b);
        assert_eq!(a.call("flock f try w"), "ok");
        let path = mounts[1].path().join("file");
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let file = std::fs::File::open(path).unwrap();
                    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
                })
            })
            .collect();
        std::thread::sleep(WAITS);
        let begun = Instant::now();
        for number in 0..20 {
            std::fs::write(mounts[1].path().join(format!("beside {number}")), "written").unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(waiting.iter().all(|thread| !thread.is_finished()));
        assert_eq!(a.call("flock f try u"), "ok");
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Programs of three mounts, each reached in another way, count under a lock.
#[test]
fn a_counter_under_a_lock_misses_nothing() {
    const ROUNDS: usize = 60;
    run(|test| {
        let mounts: Vec<_> = [Way::Direct, Way::Encoded, Way::Remote]
            .into_iter()
            .enumerate()
            .map(|(at, way)| test.mount_by(&format!("m{at}"), way))
            .collect();
        let mut programs: Vec<_> = mounts.iter().map(|mount| Program::with(mount.path(), "count")).collect();
        assert_eq!(programs[0].call("write f 0"), "ok");
        std::thread::scope(|scope| {
            for (at, program) in programs.iter_mut().enumerate() {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let (take, give) = match (at + round) % 2 {
                            0 => ("posix f wait w 0 0", "posix f try u 0 0"),
                            _ => ("ofd f wait w 0 0", "ofd f try u 0 0"),
                        };
                        assert_eq!(program.call(take), "ok");
                        let count: usize = program.call("read f").parse().unwrap();
                        assert_eq!(program.call(&format!("write f {}", count + 1)), "ok");
                        assert_eq!(program.call(give), "ok");
                    }
                });
            }
        });
        assert_eq!(programs[1].call("read f"), (3 * ROUNDS).to_string());
    });
}
