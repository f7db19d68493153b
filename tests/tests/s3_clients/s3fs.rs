//! s3fs, a third-party mount: what programs store through it, and what it shows of other clients' objects.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::files::{bytes, same, tree};
use crate::support::program::{client, succeed};
use crate::support::*;

/// A mount by s3fs; dropping it unmounts.
struct Mount(PathBuf);

impl Mount {
    #[track_caller]
    fn new(program: &Path, server: &Server, name: &str) -> Self {
        let dir = server.home().path().join(name);
        std::fs::create_dir(&dir).expect("a folder");
        let mut command = client(program, server);
        let url = format!("url={}", server.s3());
        command.arg("shop").arg(&dir).args(["-o", &url]);
        for option in ["use_path_request_style", "multipart_size=10", "retries=1", "nonempty", "enable_noobj_cache"] {
            command.args(["-o", option]);
        }
        succeed(&mut command);
        let mounted = wait_until(Duration::from_secs(20), || is_mounted(&dir).then_some(()));
        assert!(mounted.is_some(), "s3fs did not mount");
        Self(dir)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After a failed test the mount may be busy.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn is_mounted(dir: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == dir.to_str())
}

#[test]
fn files_are_stored_read_in_part_moved_and_removed() {
    need!(root_and_fuse());
    let program = need!(required("s3fs"));
    let server = Server::start();
    make_bucket(&server, "shop", &[]);
    let home = server.home().path();
    tree(&home.join("here"), 23 << 20);
    let mount = Mount::new(&program, &server, "one");
    let within = |args: &[&str]| succeed(Command::new(args[0]).args(&args[1..]).current_dir(home));
    within(&["cp", "-r", "here", "one/tree"]);
    same(&home.join("here"), &home.join("one/tree"));
    // Another mount starts with an empty cache.
    let other = Mount::new(&program, &server, "two");
    same(&home.join("here"), &home.join("two/tree"));
    let part = within(&["sh", "-c", "tail -c +10000001 two/tree/large | head -c 100 | od -An -tx1 -v | tr -d ' \\n'"]);
    let expected = bytes(23 << 20)[10_000_000..10_000_100].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(part.trim(), expected, "a range");
    // s3fs renames by a multipart copy within the server, and then changes the middle of the file.
    within(&["mv", "one/tree/large", "one/moved"]);
    within(&["sh", "-c", "printf changed | dd of=one/moved bs=1 seek=12000000 conv=notrunc 2>/dev/null"]);
    let mut changed = bytes(23 << 20);
    changed[12_000_000..12_000_007].copy_from_slice(b"changed");
    drop(other);
    let other = Mount::new(&program, &server, "three");
    assert!(std::fs::read(home.join("three/moved")).expect("read") == changed, "the changed file");
    within(&["rm", "-r", "one/tree"]);
    within(&["rm", "one/moved"]);
    assert_eq!(within(&["ls", "-A", "one"]), "");
    drop((mount, other));
}
