//! S3 writers whose server is killed.

use std::time::Duration;

use crate::support::access::root_client;
use crate::support::cli::check_store;
use crate::support::load::{ExpectedEnd, Load};
use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_objects_survive_kills() {
    let cycles = amount(30, 700);
    let mut rng = Rng::new("kill::objects");
    let mut server = Server::start();
    let mut load = Load::new(&server, 5, 2);
    for cycle in 0..cycles {
        let round = load.begin(&root_client(&server), &mut rng, ExpectedEnd::Killed);
        tokio::time::sleep(Duration::from_millis(150 + rng.below(350) as u64)).await;
        server.kill9();
        load.end(round).await;
        if cycle % 5 == 4 {
            check_store(&server);
        }
        server.restart();
        load.compare(&root_client(&server), cycle).await;
        progress("kill -9 under S3 load", cycle + 1, cycles);
    }
    let counts = load.counts;
    assert!(counts.done > cycles && counts.open > cycles / 2, "{counts:?}: too little load");
    assert_eq!(server.terminate().code(), Some(0));
    check_store(&server);
    print_summary("kill -9 under S3 load", cycles, counts);
}

#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn print_summary(what: &str, cycles: usize, counts: crate::support::load::Counts) {
    println!("{what}, {cycles} times: {} requests acknowledged, {} under way", counts.done, counts.open);
}
