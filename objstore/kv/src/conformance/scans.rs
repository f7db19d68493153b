//! Scans in both directions, over committed data and the writes of an operation on top.

use std::collections::BTreeMap;
use std::sync::Arc;

use objstore_base::error::{Error, Result};
use objstore_testing::random::Choices;
use parking_lot::Mutex;

use super::{Fixture, Gate};
use crate::engine::Durability::Buffered;
use crate::txn::{Pair, Read, Txn};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn scans_match_a_model(fixture: &Fixture) {
    let state = Arc::new(Mutex::new((Choices::new(), Model::new())));
    for _ in 0..60 {
        let gate = Gate::close(&fixture.meta);
        let mut tickets = Vec::new();
        for _ in 0..8 {
            let state = Arc::clone(&state);
            tickets.push(fixture.meta.write(Buffered, move |txn| {
                let (random, model) = &mut *state.lock();
                change_and_compare(txn, random, model)
            }));
        }
        gate.open();
        for ticket in tickets {
            let outcome = ticket.wait();
            assert!(matches!(outcome, Ok(()) | Err(Error::Busy { .. })), "{outcome:?}");
        }
        let (random, model) = &mut *state.lock();
        compare(&*fixture.meta.snapshot(), random, model);
    }
}

fn key(random: &mut Choices) -> Vec<u8> {
    (0..=random.below(3)).map(|_| *random.of(b"abcdef")).collect()
}

fn change(txn: &mut dyn Txn, random: &mut Choices, changed: &mut Model) {
    for _ in 0..random.below(8) {
        let key = key(random);
        if random.below(5) < 2 {
            txn.delete(key.clone());
            changed.remove(&key);
        } else {
            let value = random.below(1000).to_string().into_bytes();
            txn.put(key.clone(), value.clone());
            changed.insert(key, value);
        }
    }
}

/// Nested attempts, half of which are rolled back.
fn attempt(txn: &mut dyn Txn, random: &mut Choices, changed: &mut Model, depth: usize) {
    for _ in 0..random.below(depth) {
        let (mark, before) = (txn.mark(), changed.clone());
        change(txn, random, changed);
        attempt(txn, random, changed, depth - 1);
        change(txn, random, changed);
        if random.below(2) == 0 {
            txn.roll_back(mark);
            *changed = before;
            compare(txn, random, changed);
        }
    }
}

/// One random operation; one in four fails and must have no effect.
fn change_and_compare(txn: &mut dyn Txn, random: &mut Choices, model: &mut Model) -> Result<()> {
    let mut changed = model.clone();
    change(txn, random, &mut changed);
    attempt(txn, random, &mut changed, 3);
    compare(txn, random, &changed);
    if random.below(4) == 0 {
        return Err(Error::Busy { what: "the test".into() });
    }
    *model = changed;
    Ok(())
}

fn compare(view: &dyn Read, random: &mut Choices, model: &Model) {
    for _ in 0..6 {
        let (from, to) = (key(random), key(random));
        let (from, to) = if random.below(4) == 0 { (Vec::new(), vec![0xff]) } else { (from, to) };
        let limit = random.below(20);
        let within = || model.iter().filter(|(key, _)| **key >= from && **key < to);
        let expected: Vec<_> = within().take(limit).collect();
        let found = view.scan(&from, &to, limit).unwrap();
        assert!(same(&found, &expected), "{from:?}..{to:?} limit {limit}: {found:?}, not {expected:?}");
        let expected: Vec<_> = within().rev().take(limit).collect();
        let found = view.scan_back(&from, &to, limit).unwrap();
        assert!(same(&found, &expected), "{from:?}..{to:?} back, limit {limit}: {found:?}, not {expected:?}");
        assert_eq!(view.get(&from).unwrap_or_default().as_deref(), model.get(&from).map(Vec::as_slice));
    }
}

fn same(found: &[Pair], expected: &[(&Vec<u8>, &Vec<u8>)]) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(pair, (key, value))| pair.key == **key && pair.value == **value)
}

pub(crate) fn long_scans_cross_chunks(fixture: &Fixture) {
    let key = |number: u16| [&b"k"[..], &number.to_be_bytes()].concat();
    fixture
        .meta
        .write(Buffered, move |txn| {
            (0..5000).for_each(|number| txn.put(key(number), b"beneath".into()));
            Ok(())
        })
        .wait()
        .unwrap();
    let scanned = fixture.meta.write(Buffered, move |txn| {
        (0..4000).for_each(|number| txn.delete(key(number)));
        txn.put(key(2000), b"above".into());
        txn.put(key(6000), b"above".into());
        let up = txn.scan(b"k", b"l", usize::MAX)?;
        let down = txn.scan_back(b"k", b"l", usize::MAX)?;
        Ok((up, down, txn.scan(b"k", b"l", 2)?, txn.scan_back(b"k", &key(4000), 2)?))
    });
    let (up, mut down, first, last) = scanned.wait().unwrap();
    let expected: Vec<_> = [2000].into_iter().chain(4000..5000).chain([6000]).map(key).collect();
    assert_eq!(up.iter().map(|pair| pair.key.to_vec()).collect::<Vec<_>>(), expected);
    down.reverse();
    assert_eq!(down, up);
    assert_eq!(first, up[..2]);
    assert_eq!(last, up[..1]);
}
