//! An owner that is stopped for longer than its lease, and a PostgreSQL that dies: S3 clients and programs on a mount.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use rustix::process::{Pid, Signal, kill_process};

use super::report;
use super::shared::Shared;
use crate::support::access::root_client;
use crate::support::*;

const BUCKET: &str = "zombies";
const KEY: &str = "key";

async fn put(client: &Client, body: &str) -> bool {
    let put = client.put_object().bucket(BUCKET).key(KEY).body(body.as_bytes().to_vec().into());
    put.send().await.is_ok()
}

/// The object, if the server answers with one.
async fn get(client: &Client) -> Option<String> {
    let got = client.get_object().bucket(BUCKET).key(KEY).send().await.ok()?;
    let body = got.body.collect().await.ok()?;
    String::from_utf8(body.into_bytes().to_vec()).ok()
}

fn signal(server: &Server, signal: Signal) {
    let pid = server.pid().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("it runs");
    kill_process(pid, signal).expect("signalled");
}

/// Whether no thread of a stopped process runs any more: a request that one still had would be answered rightly.
fn is_stopped(server: &Server) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid().expect("it runs"))).into_iter().flatten();
    let mut states = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("stat")).unwrap_or_default());
    states.all(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_owner_answers_nothing_that_is_old_once_it_continues() {
    let shared = need!(Shared::new());
    stopped_owners(&shared.options(), amount(1, 30)).await;
}

/// Owners that are stopped for longer than their lease, and continue.
pub(super) async fn stopped_owners(options: &tests::server::Options, rounds: usize) {
    let mut owner = options.clone().start();
    make_bucket(&owner, BUCKET, &[]);
    let mut standby = options.clone().start_standby();
    for round in 0..rounds {
        let zombie = root_client(&owner);
        assert!(put(&zombie, &format!("old {round}")).await);
        signal(&owner, Signal::STOP);
        wait_until(Duration::from_secs(10), || is_stopped(&owner).then_some(())).expect("it stops");
        let stopped = Instant::now();
        // These wait in the stopped server's sockets, and are answered first when it continues.
        let early: Vec<_> = (0..4)
            .map(|number| {
                let zombie = zombie.clone();
                tokio::spawn(async move {
                    if number % 2 == 0 {
                        get(&zombie).await
                    } else {
                        put(&zombie, "of the zombie").await.then(String::new)
                    }
                })
            })
            .collect();
        standby.await_owner();
        report(&format!("takeover from a stopped owner after {:?}", stopped.elapsed()));
        let next = root_client(&standby);
        let new = format!("new {round}");
        assert!(put(&next, &new).await);
        signal(&owner, Signal::CONT);
        for answer in early {
            assert_eq!(answer.await.expect("it ends"), None, "a request to the zombie was answered");
        }
        for _ in 0..20 {
            let late = get(&zombie).await;
            assert!(late.is_none(), "the zombie answered {late:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let waits = || owner.readyz().filter(|it| it.starts_with("HTTP/1.1 503") && it.contains("owns the log"));
        wait_until(Duration::from_secs(30), waits).expect("the zombie becomes a standby");
        assert_eq!(get(&next).await.as_deref(), Some(&new[..]));
        std::mem::swap(&mut owner, &mut standby);
        // The log line of its earlier start does not count for the next takeover.
        standby.forget_ready();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_that_dies_and_returns_costs_a_pause_and_nothing_acknowledged() {
    let shared = need!(Shared::new());
    let mut owner = shared.options().start();
    make_bucket(&owner, BUCKET, &[]);
    for round in 0..amount(2, 30) {
        let client = root_client(&owner);
        for number in 0..20 {
            assert!(put(&client, &format!("{round}-{number}")).await);
        }
        shared.postgres.kill9();
        let killed = Instant::now();
        // Refused, or without an answer: perhaps written.
        for number in 20..23 {
            assert!(!put(&client, &format!("{round}-{number}")).await, "nothing is acknowledged without PostgreSQL");
        }
        shared.postgres.start();
        owner.await_owner();
        report(&format!("PostgreSQL was killed and started: ready again after {:?}", killed.elapsed()));
        let found = get(&root_client(&owner)).await.expect("an object");
        // The last one that was acknowledged, or a later one.
        let mut possible = (19..23).map(|number| format!("{round}-{number}"));
        assert!(possible.any(|body| body == found), "{found} after {round}-19 was acknowledged");
    }
    assert_eq!(owner.terminate().code(), Some(0));
}

/// Appends numbered lines, some of them synced, and writes small files, until `end`; returns how many and the slowest.
#[expect(clippy::disallowed_methods, reason = "what a program does on a mount")]
fn use_mount(dir: &Path, end: Instant) -> std::io::Result<(usize, Duration)> {
    let mut log = File::options().create(true).append(true).open(dir.join("log"))?;
    let (mut count, mut slowest) = (0, Duration::ZERO);
    while Instant::now() < end {
        let begun = Instant::now();
        writeln!(log, "{count}")?;
        if count % 10 == 0 {
            log.sync_data()?;
        }
        std::fs::write(dir.join(format!("file-{}", count % 50)), count.to_string())?;
        slowest = slowest.max(begun.elapsed());
        count += 1;
    }
    Ok((count, slowest))
}

#[test]
fn programs_on_a_mount_see_a_pause_and_no_error_while_postgresql_is_gone() {
    need!(root_and_fuse());
    let shared = need!(Shared::new());
    let mut server = shared.options().holder().start();
    make_bucket(&server, BUCKET, &[]);
    let mounted = Mounted::held(&server, BUCKET, "mnt");
    for _ in 0..amount(1, 20) {
        let dir = mounted.path().to_owned();
        let program = std::thread::spawn(move || use_mount(&dir, Instant::now() + Duration::from_secs(8)));
        std::thread::sleep(Duration::from_secs(2));
        shared.postgres.kill9();
        shared.postgres.start();
        server.await_owner();
        let (count, slowest) = program.join().expect("it ends").expect("no call fails");
        report(&format!("{count} appends and files through the end of PostgreSQL; the slowest took {slowest:?}"));
        let log = std::fs::read_to_string(mounted.path().join("log")).expect("read");
        let expected: String = (0..count).map(|number| format!("{number}\n")).collect();
        assert_eq!(log, expected, "each line is there once");
        std::fs::remove_file(mounted.path().join("log")).expect("removed");
    }
    mounted.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_promoted_standby_of_postgresql_has_everything_acknowledged() {
    let shared = need!(Shared::new());
    let (_folder, replica) = shared.postgres.replica();
    let url = shared.postgres.url_with(&replica);
    // Accepted without `--single-postgres`, since the standby is synchronous.
    let mut server = shared.options_with(&url).start();
    make_bucket(&server, BUCKET, &[]);
    let client = root_client(&server);
    for number in 0..50 {
        assert!(put(&client, &number.to_string()).await);
    }
    shared.postgres.kill9();
    let killed = Instant::now();
    replica.promote();
    assert!(!put(&client, "without PostgreSQL").await);
    // The promoted one has no standby, so the server refuses it and ends.
    let ended = wait_until(Duration::from_secs(60), || {
        server.log().contains("synchronous_standby_names is empty").then_some(())
    });
    ended.expect("it says why it does not continue");
    server.kill9();
    *server.options() = shared.options_with(&url).args(["--single-postgres"]);
    server.restart();
    report(&format!("the promoted standby of PostgreSQL serves after {:?}", killed.elapsed()));
    let found = get(&root_client(&server)).await.expect("an object");
    assert!(["49", "without PostgreSQL"].contains(&&found[..]), "{found}");
}
