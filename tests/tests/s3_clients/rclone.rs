//! rclone: folders synced both ways, files in parts, copies within the server, and streams.

use std::path::PathBuf;
use std::process::Command;

use super::files::{bytes, same, tree, write};
use crate::support::program::{client, fail, succeed};
use crate::support::*;

/// The size of the large file: small, so that its few parts are written quickly.
const PARTS: [&str; 3] = ["--s3-upload-cutoff=10Mi", "--s3-chunk-size=5Mi", "--s3-copy-cutoff=10Mi"];
const LARGE: usize = 23 << 20;

struct Rclone<'a> {
    program: PathBuf,
    server: &'a Server,
}

impl Rclone<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = client(&self.program, self.server);
        command.env("RCLONE_CONFIG", self.server.home().path().join("rclone.conf"));
        for (name, value) in [("TYPE", "s3"), ("PROVIDER", "Other"), ("ENV_AUTH", "true"), ("REGION", "us-east-1")] {
            command.env(format!("RCLONE_CONFIG_S_{name}"), value);
        }
        command.env("RCLONE_CONFIG_S_ENDPOINT", self.server.s3());
        command.args(args).args(PARTS).args(["--retries=1", "--low-level-retries=1"]);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> String {
        succeed(&mut self.command(args))
    }

    /// Names, sizes and times, sorted.
    #[track_caller]
    fn listing(&self, path: &str) -> Vec<String> {
        let text = self.run(&["lsf", "-R", "--files-only", "--format=pst", path]);
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

fn sync_both_ways(program: PathBuf, server: &Server) {
    let rclone = Rclone { program, server };
    let home = server.home().path();
    tree(&home.join("here"), LARGE);
    std::fs::write(home.join("rclone.conf"), "").expect("an empty configuration");

    rclone.run(&["mkdir", "s:shop"]);
    rclone.run(&["sync", "here", "s:shop/tree"]);
    rclone.run(&["check", "here", "s:shop/tree"]);
    rclone.run(&["check", "--download", "here", "s:shop/tree"]);
    assert_eq!(rclone.listing("here"), rclone.listing("s:shop/tree"), "sizes and times");
    let again = run(&mut rclone.command(&["sync", "-v", "here", "s:shop/tree"]), LIMIT).expect("ends");
    assert!(again.stderr.contains("There was nothing to transfer"), "{again}");

    // A change of each kind: a file is added, changed, renamed, deleted.
    write(&home.join("here/new/file"), b"new");
    write(&home.join("here/a b.txt"), b"changed");
    std::fs::remove_file(home.join("here/d/medium")).expect("removed");
    fail(&mut rclone.command(&["check", "here", "s:shop/tree"]));
    rclone.run(&["sync", "here", "s:shop/tree"]);
    rclone.run(&["check", "here", "s:shop/tree"]);
    assert_eq!(rclone.listing("here"), rclone.listing("s:shop/tree"), "after the changes");

    rclone.run(&["sync", "s:shop/tree", "there"]);
    same(&home.join("here"), &home.join("there"));
    assert_eq!(rclone.listing("here"), rclone.listing("there"), "times came back");

    // A copy within the server; the large file is copied in parts.
    rclone.run(&["mkdir", "s:copies"]);
    rclone.run(&["copy", "s:shop/tree", "s:copies/tree"]);
    rclone.run(&["check", "--download", "s:shop/tree", "s:copies/tree"]);
    rclone.run(&["moveto", "s:copies/tree/large", "s:copies/moved"]);
    assert_eq!(rclone.listing("s:copies").iter().filter(|line| line.starts_with("tree/large")).count(), 0);
    rclone.run(&["copyto", "s:copies/moved", "moved"]);
    assert!(std::fs::read(home.join("moved")).expect("downloaded") == bytes(LARGE), "the moved file changed");

    assert_eq!(rclone.run(&["cat", "--offset=1", "--count=3", "s:shop/tree/new/file"]), "ew", "a range");
    rclone.run(&["deletefile", "s:copies/moved"]);
    rclone.run(&["purge", "s:copies"]);
    rclone.run(&["purge", "s:shop"]);
    assert_eq!(rclone.run(&["lsf", "s:"]), "", "no bucket is left");
}

/// The time limit of one command.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

#[test]
fn folders_sync_both_ways() {
    sync_both_ways(need!(required("rclone")), &Server::start());
}

/// rclone sends `x-amz-acl: private` with every write.
#[test]
fn folders_sync_both_ways_with_the_distributions_version() {
    sync_both_ways(need!(packaged("rclone")), &Server::start());
}

#[test]
fn folders_sync_both_ways_over_tls() {
    sync_both_ways(need!(required("rclone")), &Options::default().tls().start());
}

#[test]
fn a_stream_of_unknown_length_is_put() {
    let program = need!(required("rclone"));
    let server = Server::start();
    let rclone = Rclone { program, server: &server };
    let home = server.home().path();
    std::fs::write(home.join("rclone.conf"), "").expect("an empty configuration");
    write(&home.join("stream"), &bytes(12 << 20));
    rclone.run(&["mkdir", "s:shop"]);
    let rcat = rclone.command(&[]);
    let words: Vec<_> = rcat.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let line = format!("cat stream | \"$0\" rcat s:shop/stream {}", words.join(" "));
    let mut piped = Command::new("sh");
    piped.args(["-c", &line]).arg(rcat.get_program()).current_dir(home);
    piped.envs(rcat.get_envs().filter_map(|(name, value)| Some((name, value?))));
    succeed(&mut piped);
    rclone.run(&["copyto", "s:shop/stream", "back"]);
    same(&home.join("stream"), &home.join("back"));
}
