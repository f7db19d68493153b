//! fsx: random reads, writes, truncations, mappings and holes on one file of a mount, compared with a copy in memory.
//!
//! - The crate does not use O_DIRECT: [`super::exerciser`] does, and so does the original, where it is installed.

use std::process::Command;

use super::{checked_out, mounted};
use crate::support::*;

/// The time limit of one run.
const LIMIT: u64 = 200;

const CONFIG: &str = "\
flen = 1048576
[opsize]
max = 131072
[weights]
close_open = 1
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 3
sendfile = 2
posix_fadvise = 1
copy_file_range = 2
";

here_and_elsewhere! {
    fn random_operations_are_clean() {
        need!(root_and_fuse());
        let fsx = need!(required("fsx"));
        let (seeds, operations) = amount((4, 5_000), (20, 20_000));
        let first = Rng::new("workloads::fsx").seed();
        let (mount, server) = mounted();
        let config = server.home().path().join("fsx.toml");
        std::fs::write(&config, CONFIG).expect("the config is written");
        for seed in (0..seeds).map(|number| first.wrapping_add(number)) {
            let mut command = Command::new(&fsx);
            command.arg("-f").arg(&config).args(["-N", &operations.to_string(), "-S", &seed.to_string(), "-P"]);
            command.arg(server.home().path()).arg(mount.path().join(format!("file-{seed}")));
            let output = run(&mut command, limit(LIMIT)).expect("fsx ends").ok();
            assert!(output.contains("All operations completed A-OK!"), "seed {seed}: {output}");
        }
    }
}

here_and_elsewhere! {
    /// The program of xfstests, built as its README says; with and without O_DIRECT, each with mappings.
    fn the_original_fsx_passes() {
        need!(root_and_fuse());
        let fsx = need!(checked_out("AMPHORA_FSX", "the C fsx"));
        let (seeds, operations) = amount((4, 5_000), (20, 20_000));
        let first = Rng::new("workloads::fsx::original").seed() % (1 << 30);
        let (mount, server) = mounted();
        let direct = ["-Z", "-r", "4096", "-w", "4096", "-t", "4096"];
        for seed in (0..seeds).map(|number| first + number) {
            for words in [&[][..], &direct] {
                let mut command = Command::new(&fsx);
                command.args(["-q", "-N", &operations.to_string(), "-S", &seed.to_string(), "-l", "1048576", "-P"]);
                command.arg(server.home().path()).args(words).arg(mount.path().join(format!("file-{seed}")));
                let output = run(&mut command, limit(LIMIT)).expect("fsx ends").ok();
                assert!(output.contains("A-OK!"), "seed {seed} {words:?}: {output}");
            }
        }
    }
}
