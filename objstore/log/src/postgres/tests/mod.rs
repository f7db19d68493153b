//! Tests against an installed PostgreSQL, which they start in a temporary folder. Without one they are skipped, and
//! print the reason.

#![expect(clippy::print_stdout, reason = "the harness shows it")]

mod cluster;
mod failures;
mod refusals;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;

use self::cluster::{Cluster, need_cluster};
use super::*;
use crate::conformance::{Fixture, GUARANTEES};

fn claim(server: &str) -> Claim {
    Claim { server: server.to_owned(), lease: Duration::from_secs(600) }
}

fn settings(cluster: &Cluster, shard: u32) -> Settings {
    let mut settings = Settings::parse(&cluster.url(), &|_| None).unwrap();
    (settings.shard, settings.copies) = (shard, Copies::Single);
    settings
}

fn body(number: u64) -> Bytes {
    Bytes::from(format!("entry {number}"))
}

fn append(log: &dyn Log, epoch: Epoch, number: u64) -> Result<()> {
    let (answer, answered) = mpsc::channel();
    let batch = Batch { epoch, first: number, bodies: vec![body(number)] };
    log.append(batch, Box::new(move |outcome| answer.send(outcome).unwrap()));
    answered.recv().unwrap()
}

#[test]
fn a_log_in_postgresql_keeps_every_guarantee() {
    let cluster = Arc::new(need_cluster!(&[]));
    for connections in [1, 4] {
        for (at, (name, guarantee)) in GUARANTEES.iter().enumerate() {
            println!("{name}, {connections} connections");
            let mut settings = settings(&cluster, (at * 10 + connections) as u32);
            (settings.connections, settings.partition_entries) = (connections, 8);
            let open = || Arc::new(Postgres::open(settings.clone()).unwrap());
            let (clock, shard) = (Arc::clone(&cluster), settings.shard);
            let pass = move |time: Duration| {
                let back = format!("renewed - {} * interval '1 ms'", time.as_millis());
                clock.sql(&format!("UPDATE amphora.owner SET renewed = {back} WHERE shard = {shard}"));
                let seen = back.replace("renewed", "seen");
                clock.sql(&format!("UPDATE amphora.standby SET seen = {seen} WHERE shard = {shard}"));
            };
            guarantee(&Fixture { log: open(), other: open(), pass: Box::new(pass) });
        }
    }
}

#[test]
fn a_connection_that_misses_a_partition_costs_no_append() {
    let cluster = need_cluster!(&[]);
    let mut settings = settings(&cluster, 4);
    settings.partition_entries = 2;
    let log = Postgres::open(settings).unwrap();
    let epoch = log.fence(&claim("a")).unwrap().epoch;
    append(&log, epoch, 1).unwrap();
    let batch = move |first| Batch { epoch, first, bodies: vec![body(first)] };
    for round in 1..=400 {
        let missed = log.call(|inner| async move {
            let (session, next) = (inner.appending().await?, round * 2);
            // It reads the list of partitions for the first time while the next one is attached.
            let wait = tokio::time::sleep(Duration::from_micros(round * 37 % 5_000));
            let taken = async { (wait.await, inner.insert(&session, &batch(1)).await).1 };
            let (made, taken) = tokio::join!(inner.make_partitions(next), taken);
            assert_eq!((made, taken), (Ok(()), Err(Error::Taken { number: 1 })));
            let missed = inner.insert(&session, &batch(next)).await?.is_some();
            if missed {
                inner.append(&session, &batch(next)).await?;
                assert!(!session.is_open(), "it is not used again");
            }
            Ok(missed)
        });
        if missed.unwrap() {
            println!("a connection missed a partition in round {round}");
            return;
        }
    }
    println!("no connection of this PostgreSQL missed a partition");
}

#[test]
fn partitions_are_made_ahead_and_dropped_behind() {
    let cluster = need_cluster!(&[]);
    let mut settings = settings(&cluster, 3);
    settings.partition_entries = 10;
    let log = Postgres::open(settings).unwrap();
    let other = Postgres::open(self::settings(&cluster, 33)).unwrap();
    let epoch = log.fence(&claim("a")).unwrap().epoch;
    append(&other, other.fence(&claim("a")).unwrap().epoch, 1).unwrap();
    let partitions = || {
        let tables =
            "SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE relkind = 'r' ORDER BY 1";
        cluster.sql(tables)
    };
    for number in 1..=35 {
        append(&log, epoch, number).unwrap();
    }
    let made = partitions();
    assert!((0..=3).all(|index| made.lines().any(|name| name == format!("log_3_{index}"))), "{made}");
    log.trim(epoch, 29).unwrap();
    let left = partitions();
    let left: Vec<_> = left.lines().filter(|name| *name != "log_3_4").collect();
    assert_eq!(left, ["log_33_0", "log_3_2", "log_3_3"]);
    assert_eq!(log.read_from(29, Limit::default()).unwrap().len(), 7);
    assert_eq!(append(&log, epoch, 5), Err(Error::Taken { number: 5 }), "its partition is gone");
    append(&log, epoch, 36).unwrap();
}
