//! Measures a store whose log is in PostgreSQL beside a store with its own journal, in one run:
//!
//! ```text
//! cargo r --release -p objstore-kv --example shipped -- 'postgres:///postgres?user=postgres&host=%2Frun%2Fpostgresql' [CONNECTIONS]
//! ```
//!
//! Prints commits per second and latencies for callers that write small records synced, how fast the log is replayed
//! into an empty folder, and the time of a hard-linked copy of the tables. The database's shards 900 and above are used.

#![expect(clippy::print_stdout, reason = "its output is the measurement")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use objstore_base::error::Result;
use objstore_kv::fjall_engine::{self, Options, Place, Standby};
use objstore_kv::{Durability, Meta};
use objstore_log::postgres::{Copies, Postgres, Settings};
use objstore_log::{Claim, Log};

const SECONDS: u64 = 4;
const VALUE_BYTES: usize = 512;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(url) = arguments.next() else {
        println!("give the URL of a PostgreSQL, and perhaps a number of connections");
        return;
    };
    let connections: usize = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(1);
    let base = std::env::args().nth(3).and_then(|number| number.parse().ok()).unwrap_or(900);
    println!("| callers | fjall commits/s | p50 us | p99 us | shipped commits/s | p50 us | p99 us |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut last = None;
    for (at, callers) in (0_u32..).zip([1, 8, 64]) {
        let local = tempfile::tempdir().expect("a folder");
        let meta = Meta::new(fjall_engine::open(local.path(), Options::default()).expect("a store"));
        let alone = measure(&meta, callers);
        drop(meta);
        let log = open(&url, connections, base + at);
        let folder = tempfile::tempdir().expect("a folder");
        let meta = shipped(&log, folder.path()).expect("a shipped store");
        let with_log = measure(&meta, callers);
        println!("| {callers} | {alone} | {with_log} |");
        last = Some((log, meta, folder));
    }
    let (log, meta, folder) = last.expect("measured");
    link_tables(folder.path());
    let pairs = count(&meta);
    meta.close();
    drop(meta);
    let empty = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let again = shipped(&log, empty.path()).expect("it opens from the log");
    let took = begun.elapsed();
    let entries = log.tail().expect("the log answers").next - 1;
    assert_eq!(count(&again), pairs, "everything is there");
    let rate = |count: f64| (count / took.as_secs_f64()) as u64;
    println!(
        "replay: {entries} entries with {pairs} records in {} ms, {} entries/s, {} records/s",
        took.as_millis(),
        rate(entries as f64),
        rate(pairs as f64)
    );
}

fn open(url: &str, connections: usize, shard: u32) -> Arc<dyn Log> {
    let mut settings = Settings::parse(url, &|name| std::env::var_os(name)).expect("a URL");
    (settings.copies, settings.connections, settings.shard) = (Copies::Single, connections, shard);
    Arc::new(Postgres::open(settings).expect("PostgreSQL answers"))
}

fn shipped(log: &Arc<dyn Log>, folder: &Path) -> Result<Meta> {
    let claim = Claim { server: "measure".to_owned(), lease: Duration::from_secs(10) };
    let place = Place::new(Arc::clone(log), claim, Arc::new(|why| println!("the log was lost: {why}")));
    let mut standby = Standby::open(folder, Options::default(), place)?;
    while standby.follow()?.entries > 0 {}
    standby.claim()?;
    Ok(Meta::new(standby.into_engine()?))
}

fn count(meta: &Meta) -> usize {
    meta.snapshot().scan(&[1], &[0xff], usize::MAX).expect("it can be read").len()
}

/// Rate, median and 99th percentile of synced writes by so many threads.
fn measure(meta: &Meta, callers: usize) -> String {
    let end = Instant::now() + Duration::from_secs(SECONDS);
    let mut latencies: Vec<u64> = std::thread::scope(|threads| {
        let callers: Vec<_> =
            (0..callers as u64).map(|caller| threads.spawn(move || write(meta, caller, end))).collect();
        callers.into_iter().flat_map(|caller| caller.join().expect("a caller")).collect()
    });
    latencies.sort_unstable();
    let at = |part: usize| latencies.get(latencies.len() * part / 100).copied().unwrap_or(0);
    format!("{} | {} | {}", latencies.len() as u64 / SECONDS, at(50), at(99))
}

fn write(meta: &Meta, caller: u64, end: Instant) -> Vec<u64> {
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let key = [&b"k"[..], &caller.to_be_bytes(), &(latencies.len() as u64).to_be_bytes()].concat();
        let write = move |txn: &mut dyn objstore_kv::Txn| {
            txn.put(key, vec![caller as u8; VALUE_BYTES]);
            Ok(())
        };
        meta.transact(Durability::Synced, write).expect("a write");
        latencies.push(begun.elapsed().as_micros() as u64);
    }
    latencies
}

/// Hard-links every table of the store, as a checkpoint would.
fn link_tables(folder: &Path) {
    let target = tempfile::tempdir_in(folder).expect("a folder");
    let (begun, mut links, mut bytes) = (Instant::now(), 0_u64, 0);
    let mut folders = vec![folder.join("keyspaces")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let Ok(kind) = entry.metadata() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if entry.path().parent().is_some_and(|parent| parent.ends_with("tables")) {
                links += u64::from(std::fs::hard_link(entry.path(), target.path().join(links.to_string())).is_ok());
                bytes += kind.len();
            }
        }
    }
    println!("links: {links} tables of {} KiB in {} us", bytes >> 10, begun.elapsed().as_micros());
}
