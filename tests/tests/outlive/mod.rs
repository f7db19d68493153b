//! A mount that outlives its server: the server is killed with -9, stopped and upgraded under programs that never see
//! an error.
//!
//! - The holder keeps the mount; the next server answers the requests in progress.
//! - Programs know the correct result of each call. A wrong result fails the test at once.
//! - 10 crashes within `cargo verify`, 100 with `cargo verify --full outlive`, which prints the pauses.

mod blocks;
mod containers;
mod locks;
mod log;
mod names;
mod objects;
mod pauses;
mod tools;
mod undelivered;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use crate::support::access::root_client;
use crate::support::agree::both_agree;
use crate::support::cli::check_store;
use crate::support::postgres::{Postgres, installed};
use crate::support::*;
use locks::Locks;
use pauses::{CallTimes, Pauses};

const BUCKET: &str = "work";

/// How a server ends and another starts.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// SIGKILL, then a start.
    Killed,
    /// SIGTERM, then a start.
    Ended,
    /// `amphora upgrade`: another program in the same process.
    Upgraded,
}

#[test]
fn no_program_notices_that_the_server_was_killed() {
    need!(root_and_fuse());
    let rng = Rng::new("outlive::no_program_notices_that_the_server_was_killed");
    let mut under_test = MountUnderTest::new();
    let tools = Tools { fsx: tool("fsx"), postgres: installed().ok() };
    let missing = [("fsx", tools.fsx.is_none()), ("postgresql", tools.postgres.is_none())];
    let pauses = under_test.run(&rng, tools, |_| Change::Killed, amount(10, 100));
    under_test.end();
    pauses.print("kill -9");
    if let Some((name, _)) = missing.iter().find(|(_, missing)| *missing) {
        skip!("all went well, but {name} is missing: run tests/setup.sh");
    }
}

#[test]
fn no_program_notices_an_upgrade_or_an_orderly_restart() {
    need!(root_and_fuse());
    let rng = Rng::new("outlive::no_program_notices_an_upgrade_or_an_orderly_restart");
    let mut under_test = MountUnderTest::new();
    let turns = |number: usize| if number.is_multiple_of(2) { Change::Upgraded } else { Change::Ended };
    let pauses = under_test.run(&rng, Tools::default(), turns, amount(6, 60));
    under_test.end();
    pauses.print("upgrade and restart");
}

/// A server is killed at the first requests that it receives, which other tests seldom do.
#[test]
fn no_program_notices_servers_that_are_killed_as_they_begin() {
    need!(root_and_fuse());
    let mut rng = Rng::new("outlive::no_program_notices_servers_that_are_killed_as_they_begin");
    let mut under_test = MountUnderTest::new();
    let source = under_test.server.home().path().join("source");
    std::fs::write(&source, rng.bytes(blocks::BYTES)).expect("what programs write");
    let files = [0, 1, 2, 3].map(|number| under_test.root.join(number.to_string()));
    let going = AtomicBool::new(true);
    std::thread::scope(|threads| {
        let mut program_run = ProgramRun { under_test: &mut under_test, going: &going };
        let (source, going) = (&source, &going);
        let running = files.iter().map(|file| threads.spawn(move || blocks::copy(source, file, going))).collect();
        program_run.kill_at_start(&mut rng, amount(6, 60));
        program_run.finish(running);
    });
    under_test.end();
}

#[test]
fn an_unmount_works_after_any_process_died() {
    need!(root_and_fuse());
    let mut under_test = MountUnderTest::new();
    let file = under_test.root.join("f");
    std::fs::write(&file, "kept").expect("written");
    under_test.server.kill9();
    // Without a server the program waits; it must not get an answer that the file is absent.
    let waiting = std::thread::spawn(move || std::fs::read(file));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "the read ended without a server");
    under_test.server.restart();
    assert_eq!(waiting.join().expect("it ends").expect("the file is read"), b"kept");
    under_test.end();
}

/// Programs that are not installed on every machine.
#[derive(Default)]
struct Tools {
    fsx: Option<PathBuf>,
    postgres: Option<PathBuf>,
}

/// A server with a holder, and a mount.
struct MountUnderTest {
    root: PathBuf,
    mount: Option<Mounted>,
    server: Server,
}

impl MountUnderTest {
    fn new() -> Self {
        let server = Options::default().holder().start();
        make_bucket(&server, BUCKET, &[]);
        let mount = Mounted::held(&server, BUCKET, "m");
        let root = mount.path().to_owned();
        for dir in [server.home().path(), &root] {
            std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
        }
        Self { root, mount: Some(mount), server }
    }

    /// Runs all programs while the server changes `count` times.
    fn run(&mut self, rng: &Rng, tools: Tools, kind: impl Fn(usize) -> Change, count: usize) -> Pauses {
        let home = self.server.home().path().to_owned();
        let cluster = tools.postgres.map(|programs| Postgres::init(programs, &home, &self.root));
        cluster.iter().for_each(Postgres::start);
        cluster.iter().for_each(|cluster| cluster.load(1));
        let locks = Locks::take(&self.folder("locks"));
        let call_times = CallTimes::default();
        let mut times = Vec::new();
        let going = AtomicBool::new(true);
        // Folders first: a panic while they are made must not leave programs behind.
        let folders = ["log", "names-1", "names-2", "fsx", "pulse"].map(|name| self.folder(name));
        // The S3 client's folders: explicit directories, which S3 lists as the mount shows them.
        drop(["w0", "w0/d0", "w0/d1", "w0/d2"].map(|name| self.folder(name)));
        std::thread::scope(|threads| {
            let mut program_run = ProgramRun { under_test: self, going: &going };
            let [log, one, two, fsx, measured] = &folders;
            let going = &going;
            let (mut first, mut second, mut third, fifth) = (rng.fork(1), rng.fork(2), rng.fork(3), rng.fork(5));
            let client = root_client(&program_run.under_test.server);
            let mut running = vec![
                threads.spawn(move || log::append(log, &mut first, going)),
                threads.spawn(move || names::change(one, &mut second, going)),
                threads.spawn(move || names::change(two, &mut third, going)),
            ];
            let call_times = &call_times;
            running.push(threads.spawn(move || call_times.measure(measured, going)));
            running.push(threads.spawn(move || objects::write(client, fifth, going)));
            let program = tools.fsx.as_ref();
            running.extend(program.map(|program| threads.spawn(move || tools::fsx(program, fsx, going))));
            let cluster = cluster.as_ref();
            running.extend(cluster.map(|cluster| threads.spawn(move || tools::bench(cluster, going))));
            times = program_run.changes(&mut rng.fork(4), kind, count, &running, &locks);
            program_run.finish(running);
        });
        locks.release();
        log::compare(&folders[0]);
        if let Some(cluster) = cluster {
            cluster.check_and_stop();
        }
        call_times.pauses(&times)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let dir = self.root.join(name);
        std::fs::create_dir(&dir).expect("a folder for a program");
        dir
    }

    /// Compares the handles, unmounts, ends the server and checks the store.
    fn end(mut self) {
        let compared = both_agree(&self.server, BUCKET, &self.root);
        assert!(compared.files > 0, "{compared:?}");
        self.mount.take().expect("until now").unmount(&self.server);
        assert!(!is_mounted(&self.root), "unmounted");
        assert_eq!(self.server.terminate().code(), Some(0));
        check_store(&self.server);
    }
}

/// The time in which programs run. If it ends by a panic, the mount is broken, and programs must not continue to wait
/// for it.
struct ProgramRun<'a> {
    under_test: &'a mut MountUnderTest,
    going: &'a AtomicBool,
}

impl ProgramRun<'_> {
    /// Changes the server, and when each change began and was over.
    fn changes(
        &mut self,
        rng: &mut Rng,
        kind: impl Fn(usize) -> Change,
        count: usize,
        running: &[ScopedJoinHandle<'_, ()>],
        locks: &Locks,
    ) -> Vec<(Instant, Instant)> {
        let mut times = Vec::new();
        for number in 0..count {
            std::thread::sleep(Duration::from_millis(300 + rng.below(1_700) as u64));
            let change = kind(number);
            // A program ends early only by a panic, whose message is more precise than one from here.
            assert!(!running.iter().any(ScopedJoinHandle::is_finished), "a program failed; {number} changes were made");
            let begin = Instant::now();
            self.change(change);
            times.push((begin, Instant::now()));
            assert!(is_mounted(&self.under_test.root), "{change:?} took the mount along");
            locks.still_held();
        }
        times
    }

    fn change(&mut self, change: Change) {
        let server = &mut self.under_test.server;
        match change {
            Change::Killed => {
                server.kill9();
                server.restart();
            }
            Change::Ended => server.restart(),
            Change::Upgraded => server.upgrade(),
        }
    }

    /// Kills servers at about the time when they are ready, several between two that live longer.
    fn kill_at_start(&mut self, rng: &mut Rng, count: usize) {
        let server = &mut self.under_test.server;
        for _ in 0..count {
            server.kill9();
            let begin = Instant::now();
            server.restart();
            let took = begin.elapsed();
            std::thread::sleep(Duration::from_millis(30));
            server.kill9();
            for _ in 0..5 {
                let percent = u32::try_from(70 + rng.below(40)).expect("small");
                server.start_and_kill9(took * percent / 100);
            }
            server.restart();
        }
    }

    /// Lets the programs end; they compare what they find with what they did.
    fn finish(&self, running: Vec<ScopedJoinHandle<'_, ()>>) {
        std::thread::sleep(Duration::from_millis(500));
        self.going.store(false, Ordering::Relaxed);
        let ended = wait_until(limit(120), || running.iter().all(ScopedJoinHandle::is_finished).then_some(()));
        assert!(ended.is_some(), "a program hangs");
        running.into_iter().for_each(|program| program.join().expect("a program saw no error"));
    }
}

impl Drop for ProgramRun<'_> {
    fn drop(&mut self) {
        self.going.store(false, Ordering::Relaxed);
        if std::thread::panicking() {
            self.under_test.server.kill9();
            self.under_test.server.end_holder();
            self.under_test.mount.iter().for_each(Mounted::break_off);
        }
    }
}

fn is_mounted(dir: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("the table of mounts");
    table.lines().any(|line| line.split(' ').nth(4) == dir.to_str())
}
