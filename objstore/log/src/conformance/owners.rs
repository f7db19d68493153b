//! Guarantees about owners: leases, epochs, takeovers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Fixture, LEASE, append, batch, claim, own, read};
use crate::error::Error;

pub(super) fn a_zombie_changes_nothing(Fixture { log, other, .. }: &Fixture) {
    let zombie = own(&**log).epoch;
    append(&**log, batch(zombie, 1, &["one", "two"])).unwrap();
    let tenure = own(&**other);
    assert!(tenure.epoch > zombie);
    let fenced = Err(Error::Fenced { epoch: zombie });
    for number in [3, 1] {
        assert_eq!(append(&**log, batch(zombie, number, &["late"])), fenced);
    }
    assert_eq!(log.renew(zombie), fenced);
    assert_eq!(log.release(zombie), fenced);
    assert_eq!(log.trim(zombie, 2), fenced);
    let tail = other.tail().unwrap();
    assert_eq!((tail.first, tail.next), (1, 3));
    append(&**other, batch(tenure.epoch, 3, &["three"])).unwrap();
    assert_eq!(append(&**log, batch(zombie, 4, &["late"])), fenced);
    let never = tenure.epoch + 1;
    assert_eq!(append(&**log, batch(never, 4, &["early"])), Err(Error::Fenced { epoch: never }));
    assert_eq!(read(&**log, 1).len(), 3);
}

pub(super) fn a_lease_keeps_other_servers_out(Fixture { log, other, pass }: &Fixture) {
    let first = own(&**log).epoch;
    let held = |remaining: std::ops::Range<Duration>| match other.fence(&claim("b")) {
        Err(Error::Held { server, remaining: left }) => assert!(server == "a" && remaining.contains(&left), "{left:?}"),
        outcome => panic!("{outcome:?}"),
    };
    let second = Duration::from_secs(1);
    held(LEASE / 2..LEASE + second);
    pass(LEASE * 2 / 3);
    held(second..LEASE / 2);
    log.renew(first).unwrap();
    pass(LEASE * 2 / 3);
    held(second..LEASE / 2);
    pass(LEASE / 2);
    let taken = other.fence(&claim("b")).unwrap();
    assert_eq!(log.renew(first), Err(Error::Fenced { epoch: first }));
    assert!(matches!(log.fence(&claim("a")), Err(Error::Held { .. })));
    other.release(taken.epoch).unwrap();
    append(&**other, batch(taken.epoch, 1, &["until the next owner"])).unwrap();
    let again = log.fence(&claim("a")).unwrap();
    assert_eq!((again.epoch, again.tail.next), (taken.epoch + 1, 2), "a released log is free at once");
    assert_eq!(log.fence(&claim("a")).unwrap().epoch, again.epoch + 1, "the same server need not wait");
}

pub(super) fn one_of_many_servers_becomes_the_owner(Fixture { log, other, .. }: &Fixture) {
    let outcomes: Vec<_> = std::thread::scope(|threads| {
        let servers: Vec<_> = (0..8)
            .map(|number| {
                let log = if number % 2 == 0 { log } else { other };
                threads.spawn(move || log.fence(&claim(&format!("server {number}"))))
            })
            .collect();
        servers.into_iter().map(|server| server.join().unwrap()).collect()
    });
    let epochs: Vec<_> = outcomes.iter().flatten().map(|tenure| tenure.epoch).collect();
    assert_eq!(epochs.len(), 1, "{outcomes:?}");
    assert!(
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(|error| matches!(error, Error::Held { .. }))
    );
}

pub(super) fn a_takeover_amid_appends_loses_and_adds_nothing(Fixture { log, other, .. }: &Fixture) {
    let zombie = own(&**log).epoch;
    let acknowledged = AtomicU64::new(0);
    let tenure = std::thread::scope(|threads| {
        let appends = threads.spawn(|| {
            for number in 1.. {
                match append(&**log, batch(zombie, number, &["x"])) {
                    Ok(()) => acknowledged.store(number, Ordering::SeqCst),
                    outcome => return outcome,
                }
            }
            Ok(())
        });
        while acknowledged.load(Ordering::SeqCst) < 20 {
            std::thread::yield_now();
        }
        let tenure = own(&**other);
        assert_eq!(appends.join().unwrap(), Err(Error::Fenced { epoch: zombie }));
        tenure
    });
    let acknowledged = acknowledged.load(Ordering::SeqCst);
    assert!(tenure.tail.next > acknowledged, "{acknowledged} were acknowledged, {tenure:?}");
    assert_eq!(other.tail().unwrap(), tenure.tail, "nothing was added after the takeover");
}

pub(super) fn followers_are_known_while_they_announce_themselves(Fixture { log, other, pass }: &Fixture) {
    let (short, long) = (Duration::from_secs(60), LEASE * 2);
    let epoch = own(&**log).epoch;
    append(&**log, batch(epoch, 1, &["one", "two", "three"])).unwrap();
    other.announce("b", 1).unwrap();
    other.announce("c", 3).unwrap();
    // The owner followed before.
    log.announce("a", 0).unwrap();
    let standing = log.standing(short).unwrap();
    let followers = |standing: &crate::Standing| {
        let shown = standing.followers.iter().map(|it| (it.server.clone(), it.at, it.behind));
        shown.collect::<Vec<_>>()
    };
    assert_eq!((standing.epoch, &*standing.server), (epoch, "a"));
    assert!(standing.lease > LEASE / 2 && standing.lease <= LEASE, "{:?}", standing.lease);
    assert_eq!(followers(&standing), [("c".to_owned(), 3, 0), ("b".to_owned(), 1, 2)]);
    pass(short * 2);
    other.announce("b", 3).unwrap();
    assert_eq!(followers(&other.standing(short).unwrap()), [("b".to_owned(), 3, 0)]);
    assert_eq!(other.standing(long).unwrap().followers.len(), 2);
    log.release(epoch).unwrap();
    assert_eq!(log.standing(short).unwrap().lease, Duration::ZERO);
    let taken = other.fence(&claim("b")).unwrap();
    let standing = log.standing(short).unwrap();
    assert_eq!((standing.epoch, &*standing.server, standing.followers.len()), (taken.epoch, "b", 0));
}
