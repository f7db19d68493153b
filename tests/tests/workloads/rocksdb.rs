//! RocksDB's own benchmark on a mount, with plain, direct and mapped I/O; then its check of every block.

use std::path::Path;
use std::process::Command;

use super::mounted;
use crate::support::*;

/// The time limit of one run, in seconds.
const LIMIT: u64 = 120;

here_and_elsewhere! {
    fn db_bench_leaves_a_consistent_database() {
        need!(root_and_fuse());
        let bench = need!(required("db_bench"));
        let ldb = need!(required("ldb"));
        let (mount, _server) = mounted();
        let ways = [
            ("plain", &[][..]),
            ("direct", &["--use_direct_reads=true", "--use_direct_io_for_flush_and_compaction=true"]),
            ("mapped", &["--mmap_read=true", "--mmap_write=true"]),
        ];
        for (way, words) in ways {
            let database = mount.path().join(way);
            let count = amount(5_000, 1_000_000);
            drive(&bench, &database, "fillrandom,overwrite,readrandom,compact", count, words);
            // Few writes, since each waits for the disk.
            let synced = [words, &["--sync=true", "--use_existing_db=true"]].concat();
            drive(&bench, &database, "overwrite,deleterandom,readseq,verifychecksum", amount(500, 50_000), &synced);
            let mut check = Command::new(&ldb);
            check.arg(format!("--db={}", database.display())).arg("checkconsistency");
            let output = run(&mut check, limit(LIMIT)).expect("ldb ends").ok();
            assert!(output.contains("OK"), "{way}: {output}");
        }
    }
}

fn drive(bench: &Path, database: &Path, benchmarks: &str, count: u32, words: &[&str]) {
    let mut command = Command::new(bench);
    command.arg(format!("--db={}", database.display())).arg(format!("--benchmarks={benchmarks}"));
    command.arg(format!("--num={count}")).args(words);
    // A small memory table, so that tables are written, merged and deleted.
    command.args(["--value_size=400", "--threads=2", "--write_buffer_size=1048576", "--target_file_size_base=1048576"]);
    command.args(["--verify_checksum=true", "--paranoid_checks=true", "--compression_type=none"]);
    let output = run(&mut command, limit(LIMIT)).expect("db_bench ends");
    assert!(output.status.success(), "{output}");
    assert!(!output.stdout.contains("error") && !output.stderr.contains("orruption"), "{output}");
}
