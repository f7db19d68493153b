//! Programs that close files, end, wait and are killed while no server runs.
//!
//! - Both kinds of mounts: of the store of this machine, whose server is killed, and of a store on another one, whose node is
//!   killed and kept from starting again. In both the holder has the mount's device.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};

use super::another_machine::{Role, processes_of};
use super::*;

/// The time limit of what a program does, on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a call is observed that has to wait.
const WAITS: Duration = Duration::from_secs(1);

/// Opens files of a folder and locks some; closes at the first line it reads those that end no lock of byte ranges, and at the
/// second those that do.
const CLOSES: &str = "\
import fcntl, os, sys
def opened(name):
    return os.open(f'{sys.argv[1]}/{name}', os.O_RDWR | os.O_CREAT)
free = [opened(f'free-{number % 10}') for number in range(100)]
unlocked, whole, ranges = opened('unlocked'), opened('whole'), opened('ranges')
fcntl.lockf(unlocked, fcntl.LOCK_EX)
fcntl.lockf(unlocked, fcntl.LOCK_UN)
fcntl.flock(whole, fcntl.LOCK_EX)
fcntl.lockf(ranges, fcntl.LOCK_EX)
beside = opened('ranges')
if os.fork() == 0:
    # It inherits descriptors, and no lock.
    os.read(0, 1)
    os._exit(0)
print('ready', flush=True)
os.read(0, 1)
for file in [*free, unlocked, whole]:
    os.close(file)
os.wait()
print('closed', flush=True)
os.read(0, 1)
os.close(beside)
print('done', flush=True)
os.read(0, 1)
";

/// Changes a folder in many ways at once, each of which can be done once.
const CHANGES: &str = "\
import os, sys, threading
dir = sys.argv[1]
for number in range(8):
    os.mkdir(f'{dir}/from-{number}')
log = os.open(f'{dir}/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
large = os.open(f'{dir}/large', os.O_WRONLY | os.O_CREAT)
calls = []
for number in range(8):
    calls.append(lambda number=number: os.close(os.open(f'{dir}/new-{number}', os.O_CREAT | os.O_EXCL)))
    calls.append(lambda number=number: os.rename(f'{dir}/from-{number}', f'{dir}/to-{number}'))
    calls.append(lambda number=number: os.write(log, b'%d' % number * 8))
    calls.append(lambda number=number: os.pwrite(large, b'%d' % number * (1 << 20), number << 20))
print('ready', flush=True)
os.read(0, 1)
failed = []
def run(call):
    try:
        call()
    except OSError as error:
        failed.append(str(error))
threads = [threading.Thread(target=run, args=(call,)) for call in calls]
for thread in threads:
    thread.start()
print('waits', flush=True)
for thread in threads:
    thread.join()
print(failed or 'done', flush=True)
os.read(0, 1)
";

/// A program with lines of input and output, killed when it is dropped.
struct Program {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Program {
    fn new(script: &str, dir: &Path) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python3");
        let (input, output) = (process.stdin.take().expect("piped"), process.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, input, lines }
    }

    fn go_on(&mut self) {
        self.input.write_all(b"\n").expect("it reads");
    }

    #[track_caller]
    fn expect(&self, line: &str) {
        assert_eq!(self.lines.recv_timeout(LIMIT).as_deref(), Ok(line));
    }

    #[track_caller]
    fn waits(&self) {
        assert_eq!(self.lines.recv_timeout(WAITS).ok(), None, "it waits for a server");
    }

    fn is_ended(&mut self) -> bool {
        wait_until(LIMIT, || self.process.try_wait().ok().flatten()).is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
    }
}

/// The process that serves a mount.
trait Serving {
    /// Kills it, and keeps others from starting it again.
    fn leave(&mut self);
    /// Starts the next one.
    fn come_back(&mut self);
}

impl Serving for Server {
    fn leave(&mut self) {
        self.kill9();
    }

    fn come_back(&mut self) {
        self.restart();
    }
}

/// The node of a mount: the process that starts it again is stopped meanwhile.
struct Node<'a>(&'a Path);

impl Node<'_> {
    fn signal(&self, role: Role, signal: Signal) -> Vec<Pid> {
        let pids = processes_of(self.0, role);
        assert!(!pids.is_empty(), "there is no {role:?}");
        pids.iter().for_each(|pid| kill_process(*pid, signal).expect("it runs"));
        pids
    }
}

impl Serving for Node<'_> {
    fn leave(&mut self) {
        self.signal(Role::Starter, Signal::STOP);
        self.signal(Role::Node, Signal::KILL);
        wait_until(LIMIT, || processes_of(self.0, Role::Node).is_empty().then_some(())).expect("killed");
    }

    fn come_back(&mut self) {
        self.signal(Role::Starter, Signal::CONT);
    }
}

/// Runs a test on mounts of both kinds.
fn on_both_kinds(test: impl Fn(&Path, &mut dyn Serving)) {
    let (mut server, dir) = served();
    mount(&server, &dir, &[]);
    test(&dir, &mut server);
    json(&server, &["umount", text(&dir)]);
    server.terminate();

    let server = super::Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    let (store, key) = (server.ready().word("volume"), server.ready().word("credentials"));
    json(&server, &["mount", BUCKET, text(&dir), "--server", store, "--credentials", key]);
    test(&dir, &mut Node(&dir));
    json(&server, &["umount", text(&dir)]);
}

fn lock(dir: &Path, name: &str) -> Result<String, String> {
    let file = dir.join(name);
    let script = "import fcntl, os, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)";
    look(&["python3", "-c", script, text(&file)])
}

#[test]
fn only_closes_that_end_locks_wait_for_a_server() {
    need!(root_and_fuse());
    on_both_kinds(|dir, serving| {
        // Each program that this process starts closes an inherited descriptor of it.
        let inherited = File::create(dir.join("inherited")).expect("made");
        let mut program = Program::new(CLOSES, dir);
        program.expect("ready");
        serving.leave();
        look(&["true"]).expect("it starts and ends");
        program.go_on();
        program.go_on();
        program.expect("closed");
        program.go_on();
        program.waits();
        look(&["true"]).expect("it starts and ends");
        serving.come_back();
        program.expect("done");
        lock(dir, "ranges").expect("its lock ended with the close");
        lock(dir, "unlocked").expect("it was free");
        drop(inherited);
        program.go_on();
        assert!(program.is_ended());
    });
}

#[test]
fn what_waits_for_a_server_is_done_once_or_can_be_killed() {
    need!(root_and_fuse());
    on_both_kinds(|dir, serving| {
        let mut changes = Program::new(CHANGES, dir);
        changes.expect("ready");
        serving.leave();
        changes.go_on();
        changes.expect("waits");
        let mut killed = Program::new("import os, sys; os.mkdir(f'{sys.argv[1]}/unmade')", dir);
        changes.waits();
        assert!(killed.process.try_wait().expect("looked at").is_none(), "it waits, too");
        killed.process.kill().expect("it runs");
        assert!(killed.is_ended(), "it does not wait for a server");
        serving.come_back();
        changes.expect("done");
        assert!(!dir.join("unmade").exists());
        for number in 0..8 {
            assert!(dir.join(format!("new-{number}")).exists() && dir.join(format!("to-{number}")).exists());
        }
        let mut log = std::fs::read(dir.join("log")).expect("read");
        assert_eq!(log.len(), 64);
        log.sort_unstable();
        log.dedup();
        assert_eq!(log, b"01234567", "each was appended, once");
        let large = std::fs::read(dir.join("large")).expect("read");
        let expected = (0..8u8).flat_map(|number| std::iter::repeat_n(b'0' + number, 1 << 20));
        assert!(large.iter().copied().eq(expected), "each was written at its place");
        changes.go_on();
        assert!(changes.is_ended());
    });
}
