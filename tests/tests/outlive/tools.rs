//! Third-party programs that run while the server changes.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::postgres::Postgres;
use crate::support::*;

/// The time limit of one run of a program, in seconds.
const LIMIT: u64 = 240;

/// fsx, one seed after the other.
pub fn fsx(program: &Path, dir: &Path, going: &AtomicBool) {
    let mut seed = 0_u32;
    while going.load(Ordering::Relaxed) {
        seed += 1;
        let mut command = Command::new(program);
        command.args(["-N", "1500", "-S", &seed.to_string(), "-P"]).arg(dir).arg(dir.join("file"));
        let output = run(&mut command, limit(LIMIT)).expect("fsx ends").ok();
        assert!(output.contains("All operations completed A-OK!"), "seed {seed}: {output}");
    }
}

/// pgbench, one run after the other.
pub fn bench(cluster: &Postgres, going: &AtomicBool) {
    let mut done = cluster.audit();
    while going.load(Ordering::Relaxed) {
        let output = run(&mut cluster.bench(4, 3), limit(LIMIT)).expect("pgbench ends").ok();
        assert!(output.contains("number of failed transactions: 0 "), "{output}");
        done += Postgres::transactions(&output);
        assert_eq!(cluster.audit(), done, "the transactions in the tables");
    }
    let log = cluster.log();
    let cry = log.lines().find(|line| ["ERROR:", "FATAL:", "PANIC:"].iter().any(|word| line.contains(word)));
    assert_eq!(cry, None, "the log of PostgreSQL");
}
