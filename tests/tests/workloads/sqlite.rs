//! SQLite on a mount, used by two processes: with a write-ahead log, which they share through mapped memory, and with a
//! rollback journal; both use byte-range locks.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::mounted;
use crate::support::*;

/// The time limit of one process, in seconds.
const LIMIT: u64 = 120;

here_and_elsewhere! {
    fn two_processes_share_a_write_ahead_log() {
        need!(root_and_fuse());
        two_processes(&need!(required("sqlite3")), "wal", amount(500, 10_000));
    }
}

here_and_elsewhere! {
    fn two_processes_take_turns_with_a_rollback_journal() {
        need!(root_and_fuse());
        let sqlite = need!(required("sqlite3"));
        for mode in ["delete", "truncate", "persist"] {
            two_processes(&sqlite, mode, amount(100, 3_000));
        }
    }
}

fn two_processes(sqlite: &Path, mode: &str, count: usize) {
    let (mount, server) = mounted();
    let database = mount.path().join("data.db");
    let output = ask(sqlite, &database, &[&format!("pragma journal_mode={mode}")]);
    assert_eq!(output.trim(), mode);
    ask(sqlite, &database, &["create table entry(who, step, body, primary key(who, step)) without rowid"]);
    ask(sqlite, &database, &["create table total(count); insert into total values(0)"]);
    std::thread::scope(|threads| {
        for who in 0..2 {
            let script = server.home().path().join(format!("script-{who}"));
            std::fs::write(&script, transactions(who, mode, count)).expect("the script is written");
            let database = &database;
            threads.spawn(move || ask(sqlite, database, &[&format!(".read {}", script.display())]));
        }
    });
    let output = ask(sqlite, &database, &["pragma integrity_check", "select count from total"]);
    assert_eq!(output, format!("ok\n{}\n", 2 * count), "{mode}");
    let kept = ask(sqlite, &database, &["select count(*) from entry where length(body) = step * 37 % 5000"]);
    // Every fifth transaction deletes one of its own rows.
    assert_eq!(kept.trim(), (2 * (count - count / 5)).to_string(), "{mode}");
}

/// The transactions of one process.
fn transactions(who: usize, mode: &str, count: usize) -> String {
    // One process waits for the disk at each commit, the other at checkpoints.
    let synchronous = ["normal", "full"][who];
    let mut script = format!(".output /dev/null\npragma journal_mode={mode};\n.output\n");
    writeln!(script, "pragma synchronous={synchronous};").expect("to a string");
    for step in 0..count {
        let size = step * 37 % 5000;
        writeln!(script, "begin immediate;").expect("to a string");
        writeln!(script, "insert into entry values({who}, {step}, zeroblob({size}));").expect("to a string");
        writeln!(script, "update total set count = count + 1;").expect("to a string");
        if step % 5 == 4 {
            writeln!(script, "delete from entry where who = {who} and step = {};", step - 2).expect("to a string");
        }
        writeln!(script, "commit;").expect("to a string");
        if mode == "wal" && step % 50 == 0 {
            // The checkpoint's result differs from run to run, so it is not shown.
            writeln!(script, ".output /dev/null\npragma wal_checkpoint(passive);\n.output").expect("to a string");
        }
    }
    script
}

fn ask(sqlite: &Path, database: &Path, questions: &[&str]) -> String {
    let mut command = Command::new(sqlite);
    command.args(["-batch", "-bail"]).arg(database).arg(".timeout 60000").args(questions);
    run(&mut command, limit(LIMIT)).expect("sqlite3 ends").ok()
}
