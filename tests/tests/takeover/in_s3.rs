//! Servers whose log is in S3, beside their content: kill -9 and SIGSTOP of the owner, planned takeovers, an S3 store that
//! dies, checks, refusals; and the guarantees of a log on real servers.
//!
//! `AMPHORA_TEST_MINIO=FILE` names a program of MinIO, on which the guarantees are tested too.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use objstore::bucket::{Keys, Location, Options as BucketOptions};
use objstore::meta::log::conformance::{Fixture, GUARANTEES, WITHOUT_RENEWALS};
use objstore::meta::log::s3::{Clock, S3, Settings};

use super::shared::InS3;
use super::{objects_survive_their_owner, planned_takeovers, report, zombies};
use crate::support::access::root_client;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_objects_survive_the_owner_whose_log_is_in_s3() {
    let shared = need!(InS3::new("killed"));
    objects_survive_their_owner(&shared.options(), amount(2, 100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_owner_whose_log_is_in_s3_writes_nothing_once_it_continues() {
    let shared = need!(InS3::new("stopped"));
    zombies::stopped_owners(&shared.options(), amount(1, 30)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_takeover_with_the_log_in_s3_loses_nothing() {
    let shared = need!(InS3::new("planned"));
    planned_takeovers(&shared.options()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_s3_store_that_dies_and_returns_costs_a_pause_and_nothing_acknowledged() {
    let mut shared = need!(InS3::new("gone"));
    let mut owner = shared.options().start();
    make_bucket(&owner, "kept", &[]);
    for round in 0..amount(1, 20) {
        let client = root_client(&owner);
        let key = |number: usize| format!("{round}-{number}");
        let put = async |number: usize| {
            let put = client.put_object().bucket("kept").key(key(number)).body(b"x".to_vec().into());
            put.send().await.is_ok()
        };
        let mut acknowledged = Vec::new();
        for number in 0..20 {
            assert!(put(number).await);
            acknowledged.push(number);
        }
        shared.server().kill9();
        let killed = Instant::now();
        let without = put(20).await;
        assert!(!without, "nothing is acknowledged without the log");
        shared.server().restart();
        let serves = || owner.readyz().filter(|it| it.starts_with("HTTP/1.1 200"));
        wait_until(Duration::from_secs(60), serves).expect("it serves again");
        report(&format!("the S3 store of the log was killed and started: ready again after {:?}", killed.elapsed()));
        let client = root_client(&owner);
        for number in acknowledged {
            client.head_object().bucket("kept").key(key(number)).send().await.expect("it was acknowledged");
        }
    }
    owner.terminate();
}

#[test]
fn a_store_in_s3_alone_is_checked_and_what_would_spoil_it_is_refused() {
    let mut shared = need!(InS3::new("checked"));
    let mut server = shared.options().start();
    make_bucket(&server, "some", &[]);
    assert_eq!(server.terminate().code(), Some(0));
    std::fs::remove_dir_all(server.home().data_dir()).expect("the data folder");
    let (metadata, options) = (shared.metadata.clone(), shared.options());
    let elsewhere = shared.server();
    let key = elsewhere.credentials();
    let check = |metadata: &str| {
        let args = ["check", "--metadata-url", metadata, "--content-url", "s3://content/checked"];
        let mut command = server.cli(args.iter().chain(&["--content-endpoint", elsewhere.s3()]));
        command.env("AWS_ACCESS_KEY_ID", &key.access_key_id).env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key);
        run(&mut command, LIMIT).expect("it ends")
    };
    let checked = check(&metadata);
    assert!(checked.status.success(), "{checked}");
    let none = check("s3://content/no-log");
    assert!(!none.status.success() && none.stderr.contains("there is no log"), "{none}");
    let overlap =
        options.clone().env("AMPHORA_METADATA_URL", "s3://content/checked/log").try_start().expect_err("within");
    assert!(overlap.contains("--metadata-url and --content-url overlap"), "{overlap}");
    let missing = options.clone().env("AMPHORA_METADATA_URL", "s3://no-such-bucket/log").try_start().expect_err("none");
    assert!(missing.contains("the bucket does not exist"), "{missing}");
    let denied = options.clone().env("AWS_SECRET_ACCESS_KEY", "wrong-hush").try_start().expect_err("the wrong key");
    assert!(denied.contains("does not accept the credentials") && !denied.contains("hush"), "{denied}");
    server.restart();
    assert_eq!(server.terminate().code(), Some(0));
}

/// Runs the conformance suite on an S3 server, in a bucket that is there, but for [`WITHOUT_RENEWALS`].
fn keeps_every_guarantee(endpoint: &str, bucket: &str, keys: &Keys) {
    for (name, guarantee) in GUARANTEES.iter().filter(|(name, _)| *name != WITHOUT_RENEWALS) {
        report(name);
        let location = Location::parse(&format!("s3://{bucket}/{name}")).expect("a location");
        let bucket = BucketOptions {
            endpoint: Some(endpoint.to_owned()),
            keys: Some(keys.clone()),
            ..BucketOptions::new(location)
        };
        let (settings, passed) = (Settings { bucket }, Arc::new(AtomicU64::new(0)));
        let now = Arc::clone(&passed);
        let clock: Clock = Arc::new(move || Duration::from_millis(now.load(Ordering::SeqCst)));
        let open = || Arc::new(S3::open_with(&settings, Arc::clone(&clock)).expect("opened"));
        let (log, other) = (open(), open());
        let observers = [Arc::clone(&log), Arc::clone(&other)];
        let pass = move |time: Duration| {
            observers.iter().for_each(|log| log.observe().expect("observed"));
            passed.fetch_add(time.as_millis().try_into().expect("a short time"), Ordering::SeqCst);
        };
        guarantee(&Fixture { log, other, pass: Box::new(pass) });
    }
}

#[test]
fn a_log_on_this_server_keeps_every_guarantee() {
    let server = Server::start();
    make_bucket(&server, "logs", &[]);
    let key = server.credentials();
    keeps_every_guarantee(server.s3(), "logs", &Keys { id: key.access_key_id, secret: key.secret_access_key });
}

/// A running MinIO, which ends with the test.
struct Minio {
    child: Child,
    address: String,
    _data: tempfile::TempDir,
}

impl Drop for Minio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn minio() -> Result<Minio, String> {
    let given = std::env::var_os("AMPHORA_TEST_MINIO").map(PathBuf::from);
    let program = given.or_else(|| tool("minio")).ok_or("MinIO is not installed: AMPHORA_TEST_MINIO=FILE names it")?;
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    // A folder of MinIO's disk is a bucket.
    std::fs::create_dir_all(data.path().join("logs")).map_err(|error| error.to_string())?;
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(|it| it.to_string())?;
    let mut command = Command::new(program);
    command.args(["server", "--quiet", "--address", &port.to_string()]).arg(data.path());
    command.env("MINIO_ROOT_USER", "log-user").env("MINIO_ROOT_PASSWORD", "log-password");
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    let minio = Minio { child, address: format!("http://{port}"), _data: data };
    let answers = || std::net::TcpStream::connect(port).ok();
    wait_until(Duration::from_secs(30), answers).ok_or("MinIO does not answer")?;
    Ok(minio)
}

#[test]
fn a_log_on_minio_keeps_every_guarantee() {
    let minio = need!(minio());
    let keys = Keys { id: "log-user".into(), secret: "log-password".into() };
    keeps_every_guarantee(&minio.address, "logs", &keys);
}
