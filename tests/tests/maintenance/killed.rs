//! Backups and restores during which the server is killed: nothing incomplete is visible, and repeating them succeeds.

use std::process::{Child, Stdio};
use std::time::Duration;

use super::{count, tree};
use crate::support::access::{root_client, write};
use crate::support::cli::{check_store, json};
use crate::support::*;

fn begin(server: &Server, args: &[&str]) -> Child {
    server.cli(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started")
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_only_complete_backups_and_buckets() {
    let mut rng = Rng::new("maintenance::killed");
    let mut server = Server::start();
    json(&server, &["bucket", "create", "docs", "--versioning"]);
    let client = root_client(&server);
    for at in 0..300_u32 {
        let length = if at % 10 == 0 { 1_500_000 } else { rng.below(60_000) };
        write(&client, "docs", &format!("{}/key-{at}", at % 7), &rng.bytes(length)).await;
    }
    let expected = tree::of_s3(&client, "docs").await;
    let to = server.home().path().join("backups").to_str().expect("a path of ours").to_owned();
    let (mut backups, mut restores) = (0, 0);
    for cycle in 0..amount(5, 100) {
        write(&root_client(&server), "docs", "changing", &rng.bytes(400_000)).await;
        let mut backup = begin(&server, &["backup", "docs", &to]);
        std::thread::sleep(Duration::from_millis(rng.below(if cycle == 0 { 1500 } else { 300 }) as u64));
        server.kill9();
        backup.wait().expect("it ends with its server");
        server.restart();
        let listed = cli::cli(&server, &["backup", "list", &to, "--output", "json"]);
        if listed.status.success() {
            backups += 1;
            assert_eq!(json(&server, &["backup", "verify", &to])["clean"], true, "cycle {cycle}");
        }
        json(&server, &["backup", "docs", &to]);
        assert_eq!(count(&json(&server, &["snapshot", "list"])), 1, "one snapshot stays");

        let mut restore = begin(&server, &["restore", &to, "docs", "--as", "again"]);
        std::thread::sleep(Duration::from_millis(rng.below(2500) as u64));
        server.kill9();
        restore.wait().expect("it ends with its server");
        if cycle % 2 == 1 {
            check_store(&server);
        }
        server.restart();
        let buckets = json(&server, &["bucket", "list"]);
        match buckets.to_string().contains("\"again\"") {
            true => restores += 1,
            false => drop(json(&server, &["restore", &to, "docs", "--as", "again"])),
        }
        let client = root_client(&server);
        let (was, is) = (tree::of_s3(&client, "docs").await, tree::of_s3(&client, "again").await);
        assert_eq!(was, is, "cycle {cycle}");
        assert!(expected.iter().all(|line| is.contains(line)));
        json(&server, &["bucket", "delete", "again", "--force"]);
    }
    print_summary(backups, restores);
    server.terminate();
    check_store(&server);
}

#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn print_summary(backups: usize, restores: usize) {
    println!("after a kill there was a folder of backups {backups} times, and the restored bucket {restores} times");
}
