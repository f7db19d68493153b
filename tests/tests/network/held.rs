//! Real programs that lock on two nodes under faults: no lock is held twice, and what was done under one stays.
//!
//! - SQLite writes one database on both mounts, a transaction for each process (fcntl(2)).
//! - A shell counts in a file on both mounts, under flock(1).

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::faults::Fault;
use super::sqlite::ask;
use super::{BUCKET, Remote};
use crate::support::cli::check_store;
use crate::support::*;

/// Counts in a file of a folder, under a lock.
const COUNT: &str = r#"flock "$0/lock" sh -c 'read n < "$0"; echo $((n + 1)) > "$0"' "$0/counter""#;

/// Writes transactions until the faults are over. Returns how many.
fn write(sqlite: &Path, dir: &Path, who: usize, going: &AtomicBool) -> usize {
    let turns = (0..).take_while(|_| going.load(Ordering::SeqCst));
    turns.fold(0, |done, step| {
        let entry = format!("begin immediate; insert into entry values({who}, {step});");
        ask(sqlite, &dir.join("data.db"), &format!("{entry} update total set count = count + 1; commit;"));
        done + 1
    })
}

/// Counts until the faults are over. Returns how often.
fn count(dir: &Path, going: &AtomicBool) -> usize {
    let turns = (0..).take_while(|_| going.load(Ordering::SeqCst));
    turns.fold(0, |done: usize, _: usize| {
        let mut shell = Command::new("sh");
        drop(run(shell.args(["-ec", COUNT]).arg(dir), limit(120)).expect("it ends").ok());
        done + 1
    })
}

#[test]
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn no_program_that_locks_notices_faults_and_no_lock_is_held_twice() {
    need!(root_and_fuse());
    let sqlite = need!(required("sqlite3"));
    let mut rng = Rng::new("network::held::no_program_that_locks_notices_faults_and_no_lock_is_held_twice");
    let mut server = Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    make_bucket(&server, BUCKET, &[]);
    let mounts = [Remote::new(&server, "a"), Remote::new(&server, "b")];
    let dirs = mounts.each_ref().map(|mount| mount.dir.as_path());
    ask(&sqlite, &dirs[0].join("data.db"), "create table entry(who, step, primary key(who, step)) without rowid");
    ask(&sqlite, &dirs[0].join("data.db"), "create table total(count); insert into total values(0)");
    std::fs::write(dirs[0].join("counter"), "0\n").expect("written");
    let going = AtomicBool::new(true);
    let done = std::thread::scope(|threads| {
        let (going, sqlite) = (&going, &sqlite);
        let writing = [0, 1].map(|who| threads.spawn(move || write(sqlite, dirs[who], who, going)));
        let counting = dirs.map(|dir| threads.spawn(move || count(dir, going)));
        for number in 0..amount(8, 100) {
            let fault = Fault::any(&mut rng);
            println!("{number}: {fault:?}");
            fault.happens(&mut server, &mounts[rng.below(2)], &mounts, &mut rng);
            std::thread::sleep(Duration::from_millis(300));
        }
        going.store(false, Ordering::SeqCst);
        [writing, counting].map(|programs| programs.map(|program| program.join().expect("it saw no fault")))
    });
    println!("transactions and counts of both: {done:?}");
    let [written, counted] = done.map(|both| both.iter().sum::<usize>());
    assert!(written > 1 && counted > 1);
    for dir in dirs {
        let question = "pragma integrity_check; select count from total; select count(*) from entry";
        assert_eq!(ask(&sqlite, &dir.join("data.db"), question), format!("ok\n{written}\n{written}\n"));
        assert_eq!(std::fs::read_to_string(dir.join("counter")).expect("read"), format!("{counted}\n"));
    }
    mounts.iter().for_each(|mount| mount.unmount(&server));
    drop(mounts);
    server.terminate();
    check_store(&server);
}
