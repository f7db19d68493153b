//! Servers whose metadata is in PostgreSQL or in S3: each may die, be stopped or be replaced, and another one continues.
//!
//! - Content is in a bucket of another Amphora. The data folder of a dead server is deleted.

mod authority;
mod checked;
mod handover;
mod in_s3;
mod migrate;
mod mounts;
mod refusals;
mod shared;
mod suite;
mod zombies;

use std::time::{Duration, Instant};

use self::shared::Shared;
use crate::support::access::root_client;
use crate::support::load::{ExpectedEnd, Load};
use crate::support::*;

/// The lease of an owner, and the time that a busy machine may add to a takeover.
const UNPLANNED_MAX: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_objects_survive_the_owner_and_its_data_folder() {
    let shared = need!(Shared::new());
    objects_survive_their_owner(&shared.options(), amount(2, 100)).await;
}

/// Owners that are killed under load, each with its data folder.
async fn objects_survive_their_owner(options: &tests::server::Options, cycles: usize) {
    let mut rng = Rng::new("takeover::objects");
    let mut owner = options.clone().start();
    let mut load = Load::new(&owner, 4, 1);
    let mut standby = options.clone().start_standby();
    let mut slowest = Duration::ZERO;
    for cycle in 0..cycles {
        let round = load.begin(&root_client(&owner), &mut rng, ExpectedEnd::Killed);
        tokio::time::sleep(Duration::from_millis(500 + rng.below(1000) as u64)).await;
        owner.kill9();
        let killed = Instant::now();
        load.end(round).await;
        std::fs::remove_dir_all(owner.home().data_dir()).expect("the data folder of the dead server");
        standby.await_owner();
        slowest = slowest.max(killed.elapsed());
        assert!(killed.elapsed() < UNPLANNED_MAX, "the takeover took {:?}", killed.elapsed());
        load.compare(&root_client(&standby), cycle).await;
        owner.restart_as_standby();
        std::mem::swap(&mut owner, &mut standby);
        progress("kill -9 of the owner", cycle + 1, cycles);
    }
    report(&format!("kill -9 of the owner, {cycles} times: {:?}; slowest takeover {slowest:?}", load.counts));
    assert!(load.counts.done > cycles * 5, "{:?}: too little load", load.counts);
    assert_eq!((owner.terminate().code(), standby.terminate().code()), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_handover_loses_nothing_and_takes_a_moment() {
    let shared = need!(Shared::new());
    planned_takeovers(&shared.options()).await;
}

/// Owners that are stopped in turn, and an upgrade in place.
async fn planned_takeovers(options: &tests::server::Options) {
    let mut owner = options.clone().start();
    make_bucket(&owner, "kept", &[]);
    let mut standby = options.clone().start_standby();
    let waiting = wait_until(Duration::from_secs(20), || standby.readyz().filter(|it| it.contains("standby")));
    let waiting = waiting.expect("the standby answers");
    assert!(waiting.starts_with("HTTP/1.1 503") && waiting.contains("owns the log"), "{waiting}");
    for round in 0..3 {
        let (key, body) = (format!("key-{round}"), format!("body {round}"));
        let put = root_client(&owner).put_object().bucket("kept").key(&key).body(body.clone().into_bytes().into());
        put.send().await.expect("put");
        let begun = Instant::now();
        assert_eq!(owner.terminate().code(), Some(0));
        let ended = begun.elapsed();
        standby.await_owner();
        report(&format!("planned takeover: ended after {ended:?}, ready after {:?}", begun.elapsed()));
        let got = root_client(&standby).get_object().bucket("kept").key(&key).send().await.expect("got");
        assert_eq!(got.body.collect().await.expect("a body").into_bytes(), body.as_bytes());
        assert!(standby.readyz().expect("an answer").contains("ready"));
        owner.restart_as_standby();
        std::mem::swap(&mut owner, &mut standby);
    }
    // A standby ends at once, and an upgrade in place keeps the log although a standby waits for it.
    wait_until(Duration::from_secs(20), || standby.readyz()).expect("it waits");
    assert_eq!(standby.terminate().code(), Some(0));
    standby.restart_as_standby();
    wait_until(Duration::from_secs(20), || standby.readyz()).expect("it waits again");
    owner.upgrade();
    assert!(owner.readyz().expect("an answer").starts_with("HTTP/1.1 200"));
    assert!(standby.readyz().expect("an answer").starts_with("HTTP/1.1 503"));
}

#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn report(text: &str) {
    println!("{text}");
}
