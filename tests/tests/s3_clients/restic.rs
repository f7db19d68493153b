//! restic: a repository in a bucket, through backups, a check of all its data, a restore and a prune.

use std::path::PathBuf;
use std::process::Command;

use super::files::{bytes, same, tree, write};
use crate::support::program::{client, fail, succeed};
use crate::support::*;

struct Restic<'a> {
    program: PathBuf,
    server: &'a Server,
}

impl Restic<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = client(&self.program, self.server);
        command.env("RESTIC_REPOSITORY", format!("s3:{}/vault/repo", self.server.s3()));
        command.env("RESTIC_PASSWORD", "of the tests").env("RESTIC_CACHE_DIR", self.server.home().path().join("cache"));
        if let Some(authority) = self.server.authority() {
            command.arg("--cacert").arg(authority);
        }
        command.args(args);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> String {
        succeed(&mut self.command(args))
    }
}

fn backup_and_restore(program: PathBuf, server: &Server) {
    let restic = Restic { program, server };
    let home = server.home().path();
    tree(&home.join("source"), 30 << 20);

    // restic creates the bucket as well.
    restic.run(&["init"]);
    fail(&mut restic.command(&["init"]));
    restic.run(&["backup", "source"]);
    write(&home.join("source/d/medium"), &bytes(300_000));
    write(&home.join("source/second"), &bytes(5 << 20));
    restic.run(&["backup", "source"]);
    std::fs::remove_file(home.join("source/large")).expect("removed");
    restic.run(&["backup", "source"]);
    let snapshots: serde_json::Value = serde_json::from_str(&restic.run(&["snapshots", "--json"])).expect("JSON");
    assert_eq!(snapshots.as_array().map(Vec::len), Some(3), "{snapshots}");
    restic.run(&["check", "--read-data"]);

    restic.run(&["restore", "latest", "--target", "restored"]);
    same(&home.join("source"), &home.join("restored/source"));

    let pruned = restic.run(&["forget", "--keep-last", "1", "--prune"]);
    assert!(pruned.contains("remove 2 snapshots"), "{pruned}");
    restic.run(&["check", "--read-data"]);
    restic.run(&["restore", "latest", "--target", "again"]);
    same(&home.join("source"), &home.join("again/source"));
    let snapshots: serde_json::Value = serde_json::from_str(&restic.run(&["snapshots", "--json"])).expect("JSON");
    assert_eq!(snapshots.as_array().map(Vec::len), Some(1), "{snapshots}");
}

#[test]
fn a_repository_is_backed_up_checked_restored_and_pruned() {
    backup_and_restore(need!(required("restic")), &Server::start());
}

#[test]
fn a_repository_of_the_distributions_version() {
    backup_and_restore(need!(packaged("restic")), &Server::start());
}

#[test]
fn a_repository_over_tls() {
    backup_and_restore(need!(required("restic")), &Options::default().tls().start());
}
