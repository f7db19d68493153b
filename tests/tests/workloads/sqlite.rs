//! SQLite with its write-ahead log on a mount: two processes share it through mapped memory and byte-range locks.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::mounted;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(120);
const TRANSACTIONS: usize = 500;

#[test]
fn two_processes_share_a_write_ahead_log() {
    need!(root_and_fuse());
    let sqlite = need!(required("sqlite3"));
    let (mount, server) = mounted();
    let database = mount.path().join("data.db");
    let mode = ask(&sqlite, &database, &["pragma journal_mode=wal"]);
    assert_eq!(mode.trim(), "wal");
    ask(&sqlite, &database, &["create table entry(who, step, body, primary key(who, step)) without rowid"]);
    ask(&sqlite, &database, &["create table total(count); insert into total values(0)"]);
    std::thread::scope(|threads| {
        for who in 0..2 {
            let script = server.home().path().join(format!("script-{who}"));
            std::fs::write(&script, transactions(who)).expect("the script is written");
            let (sqlite, database) = (&sqlite, &database);
            threads.spawn(move || ask(sqlite, database, &[&format!(".read {}", script.display())]));
        }
    });
    let told = ask(&sqlite, &database, &["pragma integrity_check", "select count from total"]);
    assert_eq!(told, format!("ok\n{}\n", 2 * TRANSACTIONS));
    let kept = ask(&sqlite, &database, &["select count(*) from entry where length(body) = step * 37 % 5000"]);
    // Every fifth transaction deletes one of its own.
    assert_eq!(kept.trim(), (2 * (TRANSACTIONS - TRANSACTIONS / 5)).to_string());
}

/// The transactions of one process.
fn transactions(who: usize) -> String {
    // One of the two waits for the disk at each commit, the other at checkpoints.
    let mut script = format!("pragma synchronous={};\n", ["normal", "full"][who]);
    for step in 0..TRANSACTIONS {
        let size = step * 37 % 5000;
        writeln!(script, "begin immediate;").expect("to a string");
        writeln!(script, "insert into entry values({who}, {step}, zeroblob({size}));").expect("to a string");
        writeln!(script, "update total set count = count + 1;").expect("to a string");
        if step % 5 == 4 {
            writeln!(script, "delete from entry where who = {who} and step = {};", step - 2).expect("to a string");
        }
        writeln!(script, "commit;").expect("to a string");
        if step % 50 == 0 {
            // Its answer tells how busy the log was, which differs from run to run.
            writeln!(script, ".output /dev/null\npragma wal_checkpoint(passive);\n.output").expect("to a string");
        }
    }
    script
}

fn ask(sqlite: &Path, database: &Path, questions: &[&str]) -> String {
    let mut command = Command::new(sqlite);
    command.args(["-batch", "-bail"]).arg(database).arg(".timeout 60000").args(questions);
    run(&mut command, LIMIT).expect("sqlite3 ends").ok()
}
