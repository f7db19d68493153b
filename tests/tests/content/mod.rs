//! Content in a bucket of another S3 store (`--content-url`): what was acknowledged is there when the server was killed and
//! its local content deleted. The other store is an Amphora of its own.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::support::access::root_client;
use crate::support::cli::cli;
use crate::support::elsewhere::elsewhere;
use crate::support::load::{ExpectedEnd, Load};
use crate::support::*;

fn lose_local_content(server: &Server) {
    std::fs::remove_dir_all(server.home().data_dir().join("content")).expect("the local copy is deleted");
}

fn check_records(server: &Server) {
    let dir = server.home().data_dir();
    let checked = cli(server, &["check", "--metadata-only", dir.to_str().expect("UTF-8")]);
    assert!(checked.status.success(), "{checked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_objects_survive_kills_without_the_local_content() {
    let cycles = amount(6, 100);
    let mut rng = Rng::new("content::objects");
    let elsewhere = elsewhere("objects");
    let mut server = elsewhere.options.clone().start();
    let mut load = Load::new(&server, 4, 2);
    for cycle in 0..cycles {
        let round = load.begin(&root_client(&server), &mut rng, ExpectedEnd::Killed);
        tokio::time::sleep(Duration::from_millis(300 + rng.below(500) as u64)).await;
        server.kill9();
        load.end(round).await;
        if cycle % 2 == 0 {
            lose_local_content(&server);
        }
        server.restart();
        load.compare(&root_client(&server), cycle).await;
        progress("kill -9 under S3 load, content in S3", cycle + 1, cycles);
    }
    assert!(load.counts.done > cycles, "{:?}: too little load", load.counts);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_records(&server);
}

fn written(path: &Path, len: usize, seed: u8) -> File {
    let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path).expect("made");
    file.write_all(&pattern(len, seed)).expect("written");
    file
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8 ^ seed).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "programs sync their files")]
fn what_fsync_acknowledged_survives_the_loss_of_the_local_content() {
    need!(root_and_fuse());
    let elsewhere = elsewhere("mounted");
    let mut server = elsewhere.options.clone().start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    let at = |name: &str| mount.path().join(name);
    let large = written(&at("large"), 3_000_000, 1);
    large.sync_all().expect("synced");
    large.write_all_at(&[9; 8192], 1_000_000).expect("written");
    large.sync_data().expect("synced");
    let short = written(&at("short"), 1_000_000, 2);
    short.sync_all().expect("synced");
    short.set_len(300_000).expect("cut");
    short.write_all_at(&[4; 10], 400_000).expect("written");
    short.sync_all().expect("synced");
    std::fs::write(at("small"), "small").expect("written");
    File::open(at("small")).expect("there").sync_all().expect("synced");
    written(&at("renamed.tmp"), 200_000, 3).sync_all().expect("synced");
    std::fs::rename(at("renamed.tmp"), at("renamed")).expect("renamed");
    File::open(mount.path()).expect("a directory").sync_all().expect("synced");
    let mut expected_large = pattern(3_000_000, 1);
    expected_large[1_000_000..1_008_192].fill(9);
    let mut expected_short = pattern(1_000_000, 2);
    expected_short.truncate(300_000);
    expected_short.resize(400_000, 0);
    expected_short.extend([4; 10]);
    for round in 0..2 {
        server.kill9();
        mount.break_off();
        lose_local_content(&server);
        server.restart();
        let again = Mounted::new(&server, "files", &format!("again{round}"));
        let read = |name: &str| std::fs::read(again.path().join(name)).expect("readable");
        assert!(read("large") == expected_large, "large differs");
        assert!(read("short") == expected_short, "short differs");
        assert!(read("renamed") == pattern(200_000, 3), "renamed differs");
        assert_eq!(read("small"), b"small");
        again.unmount(&server);
    }
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_records(&server);
}

#[test]
fn programs_go_on_over_a_kill_with_what_they_did_not_sync() {
    need!(root_and_fuse());
    let elsewhere = elsewhere("held");
    let mut server = elsewhere.options.clone().holder().start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::held(&server, "files", "m");
    let file = written(&mount.path().join("log"), 700_000, 1);
    for round in 0..3_u8 {
        file.write_all_at(&[round; 5000], 100_000 * u64::from(round)).expect("written");
        server.kill9();
        server.restart();
    }
    let mut expected = pattern(700_000, 1);
    for round in 0..3_u8 {
        let from = 100_000 * usize::from(round);
        expected[from..from + 5000].fill(round);
    }
    let mut found = vec![0; 700_000];
    file.read_exact_at(&mut found, 0).expect("read");
    assert!(found == expected, "what was written and not synced is lost");
    drop(file);
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
}

#[test]
fn a_bucket_belongs_to_one_store_and_a_store_to_its_bucket() {
    let elsewhere = elsewhere("claimed");
    let mut server = elsewhere.options.clone().start();
    let other = elsewhere.options.clone().try_start().expect_err("the bucket belongs to the first store");
    assert!(other.contains("belongs to another store"), "{other}");
    assert_eq!(server.terminate().code(), Some(0));
    *server.options() = Options::default();
    let without = server.try_restart().expect_err("its content is elsewhere");
    assert!(without.contains("set --content-url"), "{without}");
    let wrong = Options::default()
        .args(["--content-url=s3://nobodys-bucket/x", "--content-endpoint=http://127.0.0.1:9"])
        .env("AWS_ACCESS_KEY_ID", "A")
        .env("AWS_SECRET_ACCESS_KEY", "hidden-secret")
        .try_start();
    let wrong = wrong.expect_err("nothing answers there");
    assert!(wrong.contains("is the S3 store available?") && !wrong.contains("hidden-secret"), "{wrong}");
    drop(elsewhere.server);
}
