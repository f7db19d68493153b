//! PostgreSQL dies, is replaced by its standby, stops answering, or acknowledges what its standby does not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::cluster::{Cluster, need_cluster};
use super::{append, body, claim, settings};
use crate::appender::Appender;
use crate::batch::Limit;
use crate::error::Error;
use crate::log::Log;
use crate::owner::Tenure;
use crate::postgres::{Copies, Postgres, Settings};

/// Appends until `end` ends it from outside; returns the last acknowledged number, and the failure.
fn append_until(log: Arc<Postgres>, tenure: Tenure, end: impl FnOnce()) -> (u64, Error) {
    let appender = Appender::new(log, tenure.epoch, tenure.tail.next);
    let (begin, done) = (tenure.tail.next, AtomicU64::new(0));
    std::thread::scope(|threads| {
        let appending = threads.spawn(|| {
            for number in begin.. {
                // Every third one is waited for, so that several are under way.
                let pushed = appender.push(number, body(number));
                if let Err(error) = pushed.and_then(|()| if number % 3 == 0 { appender.wait(number) } else { Ok(()) }) {
                    return error;
                }
                done.store(number, Ordering::SeqCst);
            }
            unreachable!()
        });
        while done.load(Ordering::SeqCst) < begin + 200 {
            assert!(!appending.is_finished(), "{:?}", appender.failure());
            std::thread::sleep(Duration::from_millis(1));
        }
        end();
        let failure = appending.join().unwrap();
        (appender.acknowledged(), failure)
    })
}

/// Owns the log of a PostgreSQL that has just started; the client may first have to notice that its connection ended.
fn fence_soon(log: &dyn Log) -> Tenure {
    let begun = Instant::now();
    loop {
        match log.fence(&claim("a")) {
            Ok(tenure) => return tenure,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
    }
}

fn assert_kept(log: &dyn Log, acknowledged: u64, tenure: &Tenure) {
    assert!(tenure.tail.next > acknowledged, "{acknowledged} were acknowledged, {tenure:?}");
    let mut number = 1;
    while number < tenure.tail.next {
        let page = log.read_from(number, Limit { entries: 1000, bytes: 1 << 20 }).unwrap();
        assert!(!page.is_empty());
        for entry in page {
            assert_eq!((entry.number, &entry.body), (number, &body(number)));
            number += 1;
        }
    }
}

#[test]
fn acknowledged_appends_survive_a_kill_of_postgresql() {
    let cluster = need_cluster!(&[]);
    for connections in [1, 4] {
        let mut settings = settings(&cluster, connections);
        settings.connections = connections as usize;
        let log = Arc::new(Postgres::open(settings).unwrap());
        for _ in 0..2 {
            let tenure = log.fence(&claim("a")).unwrap();
            let (acknowledged, failure) = append_until(Arc::clone(&log), tenure, || cluster.kill9());
            assert!(matches!(failure, Error::Indeterminate { .. } | Error::Unavailable { .. }), "{failure:?}");
            cluster.restart();
            let next = fence_soon(&*log);
            assert_kept(&*log, acknowledged, &next);
            let zombie = append(&*log, tenure.epoch, next.tail.next);
            assert_eq!(zombie, Err(Error::Fenced { epoch: tenure.epoch }));
        }
    }
}

#[test]
fn acknowledged_appends_survive_the_primary_and_its_zombie_owner_is_fenced_by_the_standby() {
    let primary = need_cluster!(&[]);
    let standby = primary.standby();
    let replicated = |url: &str| Settings::parse(url, &|_| None).unwrap();
    let refused = Postgres::open(replicated(&primary.url())).err().expect("no standby is synchronous yet").to_string();
    assert!(refused.contains("synchronous_standby_names is empty"), "{refused}");
    primary.set("synchronous_standby_names = '*'");
    let mut both = replicated(&primary.url_with(&standby));
    let begun = Instant::now();
    let log = loop {
        // The setting takes effect a moment after the reload.
        match Postgres::open(both.clone()) {
            Ok(log) => break Arc::new(log),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
    };
    let tenure = log.fence(&claim("a")).unwrap();
    let (acknowledged, _) = append_until(Arc::clone(&log), tenure, || primary.kill9());
    let failed = Instant::now();
    standby.promote();
    let unreplicated = Postgres::open(both.clone()).err().expect("the promoted one is alone");
    assert!(matches!(unreplicated, Error::Unusable { .. }), "{unreplicated}");
    both.copies = Copies::Single;
    let (next, zombie) = (Postgres::open(both.clone()).unwrap(), Postgres::open(both).unwrap());
    let taken = next.fence(&claim("a")).unwrap();
    println!("the log was taken over {} ms after the death of its primary", failed.elapsed().as_millis());
    assert_eq!(taken.tail.id, tenure.tail.id);
    assert_kept(&next, acknowledged, &taken);
    assert_eq!(append(&zombie, tenure.epoch, taken.tail.next), Err(Error::Fenced { epoch: tenure.epoch }));
    append(&next, taken.epoch, taken.tail.next).unwrap();
}

#[test]
fn what_only_the_primary_has_is_not_acknowledged() {
    let cluster = need_cluster!(&[]);
    let mut settings = settings(&cluster, 1);
    let log = Postgres::open(settings.clone()).unwrap();
    settings.answer_within = Duration::from_secs(2);
    let hasty = Postgres::open(settings).unwrap();
    let epoch = log.fence(&claim("a")).unwrap().epoch;
    append(&log, epoch, 1).unwrap();
    append(&hasty, epoch, 2).unwrap();
    cluster.set("synchronous_standby_names = 'missing'");
    let waits = || cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0";
    std::thread::scope(|threads| {
        // The setting takes effect a moment after the reload.
        let appending = threads.spawn(|| (3..).find_map(|number| append(&log, epoch, number).err()).unwrap());
        let begun = Instant::now();
        while !waits() {
            assert!(begun.elapsed() < Duration::from_secs(60) && !appending.is_finished());
        }
        cluster.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        let outcome = appending.join().unwrap();
        assert!(matches!(outcome, Error::Indeterminate { .. }), "{outcome:?}");
    });
    let late = append(&hasty, epoch, 10_000);
    assert!(matches!(&late, Err(Error::Indeterminate { why }) if why.contains("in time")), "{late:?}");
    let late = hasty.renew(epoch);
    assert!(matches!(late, Err(Error::Indeterminate { .. })), "{late:?}");
}
