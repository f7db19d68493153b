//! fsx: random reads, writes, truncations, mappings and holes on one file of a mount, compared with a copy in memory.

use std::process::Command;
use std::time::Duration;

use super::mounted;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(200);

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

#[test]
fn ten_thousand_operations_are_clean() {
    need!(root_and_fuse());
    let fsx = need!(required("fsx"));
    let seed = Dice::new("workloads::fsx").seed();
    let (mount, server) = mounted();
    let config = server.home().path().join("fsx.toml");
    std::fs::write(&config, CONFIG).expect("the config is written");
    let mut command = Command::new(fsx);
    command.arg("-f").arg(config).args(["-N", "10000", "-S", &seed.to_string(), "-P"]).arg(server.home().path());
    let told = run(command.arg(mount.path().join("file")), LIMIT).expect("fsx ends").ok();
    assert!(told.contains("All operations completed A-OK!"), "{told}");
}
