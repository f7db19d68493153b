//! SQLite with one database on two mounts, each of another node: rollback journals, whose locks exclude across machines.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::{BUCKET, Remote};
use crate::support::*;

/// The time limit of one process, in seconds.
const LIMIT: u64 = 240;

#[test]
fn two_nodes_write_one_database() {
    need!(root_and_fuse());
    let sqlite = need!(required("sqlite3"));
    let mut server = Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    make_bucket(&server, BUCKET, &[]);
    let mounts = [Remote::new(&server, "a"), Remote::new(&server, "b")];
    let databases = mounts.each_ref().map(|mount| mount.dir.join("data.db"));
    let count = amount(40, 1_000);
    ask(&sqlite, &databases[0], "create table entry(who, step, primary key(who, step)) without rowid");
    ask(&sqlite, &databases[0], "create table total(count); insert into total values(0)");
    std::thread::scope(|threads| {
        for (who, database) in databases.iter().enumerate() {
            let script = server.home().path().join(format!("script-{who}"));
            std::fs::write(&script, transactions(who, count)).expect("the script is written");
            let sqlite = &sqlite;
            threads.spawn(move || ask(sqlite, database, &format!(".read {}", script.display())));
        }
    });
    for database in &databases {
        let found =
            ask(&sqlite, database, "pragma integrity_check; select count from total; select count(*) from entry");
        assert_eq!(found, format!("ok\n{0}\n{0}\n", 2 * count));
    }
    mounts.iter().for_each(|mount| mount.unmount(&server));
    drop(mounts);
    server.terminate();
}

fn transactions(who: usize, count: usize) -> String {
    let mut script = String::new();
    for step in 0..count {
        writeln!(script, "begin immediate; insert into entry values({who}, {step});").expect("to a string");
        writeln!(script, "update total set count = count + 1; commit;").expect("to a string");
    }
    script
}

pub(super) fn ask(sqlite: &Path, database: &Path, question: &str) -> String {
    let mut command = Command::new(sqlite);
    command.args(["-batch", "-bail", "-cmd", ".timeout 60000"]).arg(database).arg(question);
    run(&mut command, limit(LIMIT)).expect("sqlite3 ends").ok()
}
