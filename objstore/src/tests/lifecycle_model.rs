//! Random lifecycle rules on random versions: the worker's result equals that of a model.

use std::collections::{BTreeMap, BTreeSet};

use super::lifecycle::{DAY, Set, rule};
use super::random::Choices;
use super::test_store::{TestStore, key};
use crate::clock::Clock;
use crate::store::*;

/// A version of a key in the reference model; versions are ordered from the newest.
#[derive(Clone, Debug)]
struct Kept {
    /// The id of the version or delete marker.
    id: String,
    marker: bool,
    made: i64,
    size: u64,
    tagged: bool,
}

/// The expected result of a pass: which versions of a key remain, and whether the current one expires.
fn remaining(key: &str, versions: &[Kept], rules: &[LifecycleRule], now: i64) -> (Vec<String>, bool) {
    let due = |from: i64, days: Option<u32>| days.is_some_and(|days| from + i64::from(days) * DAY <= now);
    let fits = |rule: &LifecycleRule, version: &Kept| {
        let filter = rule.filter.clone().unwrap();
        let narrow = !filter.tags.is_empty() || filter.size_above.is_some();
        rule.enabled
            && key.starts_with(filter.prefix.as_deref().unwrap_or_default())
            && !(version.marker && narrow)
            && (filter.tags.is_empty() || version.tagged)
            && filter.size_above.is_none_or(|above| version.size > above)
    };
    let expires = |version: &Kept| rules.iter().any(|rule| fits(rule, version) && due(version.made, rule.expire_days));
    let lone = versions.len() == 1 && versions[0].marker;
    if lone {
        let goes = rules.iter().any(|rule| fits(rule, &versions[0]) && rule.expire_markers == Some(true));
        let left = if goes || expires(&versions[0]) { Vec::new() } else { vec![versions[0].id.clone()] };
        return (left, false);
    }
    let expired = versions.first().is_some_and(|newest| !newest.marker && expires(newest));
    let mut left: Vec<String> = versions.first().map(|newest| newest.id.clone()).into_iter().collect();
    // A pass examines current objects first, so one that expired counts as a noncurrent version.
    let mut newer = u32::from(expired);
    for (at, version) in versions.iter().enumerate().skip(1) {
        let since = versions[at - 1].made;
        let goes = |rule: &LifecycleRule| {
            fits(rule, version) && due(since, rule.noncurrent_days) && newer >= rule.noncurrent_kept.unwrap_or(0)
        };
        if !rules.iter().any(goes) {
            left.push(version.id.clone());
            newer += u32::from(!version.marker);
        }
    }
    (left, expired)
}

fn random_rules(random: &mut Choices) -> Vec<LifecycleRule> {
    let count = random.below(4);
    let rules = (0..count).map(|_| {
        let mut one = rule(|_| ());
        one.enabled = random.below(5) > 0;
        let mut filter = LifecycleFilter::default();
        if random.below(2) == 0 {
            filter.prefix = Some(["", "a", "b/", "b/2"][random.below(4)].into());
        }
        match random.below(4) {
            0 => filter.tags = [("t".to_owned(), "1".to_owned())].into(),
            1 => filter.size_above = Some(2),
            _ => {}
        }
        let narrow = !filter.tags.is_empty() || filter.size_above.is_some();
        one.filter = Some(filter);
        match random.below(3) {
            0 => one.expire_days = Some(1 + random.below(4) as u32),
            1 if !narrow => one.expire_markers = Some(true),
            _ => {}
        }
        if random.below(2) == 0 {
            one.noncurrent_days = Some(1 + random.below(4) as u32);
            one.noncurrent_kept = (random.below(2) == 0).then(|| 1 + random.below(3) as u32);
        }
        one
    });
    rules.collect()
}

#[test]
fn the_worker_leaves_what_a_model_of_the_rules_leaves() {
    let mut seeds = Choices::new();
    for seed in (0..8).map(|_| seeds.below_u64(u64::MAX)) {
        let mut random = Choices::with(seed);
        let clock = Set::new();
        let test = TestStore::with_clock(clock.clone());
        let bucket = test.bucket("model");
        test.keep_versions(&bucket, Versioning::Enabled);
        let mut model: BTreeMap<&str, Vec<Kept>> = BTreeMap::new();
        let keys = ["a", "a1", "b/1", "b/2", "b/22", "c"];
        for round in 0..6 {
            for _ in 0..8 {
                let at = keys[random.below(keys.len())];
                let size = random.below(5) as u64;
                let made = clock.now().0;
                if random.below(4) == 0 {
                    let deleted = test.delete(&bucket, at).unwrap();
                    let id = format!("marker {}", deleted.version.unwrap());
                    model.entry(at).or_default().insert(0, Kept { id, marker: true, made, size: 0, tagged: false });
                } else {
                    let put = test.put(&bucket, at, &vec![1; size as usize]).unwrap();
                    let tagged = random.below(3) == 0;
                    if tagged {
                        let tags = [("t".to_owned(), "1".to_owned())].into();
                        test.run(test.store.set_tags(&bucket, &key(at), None, tags)).unwrap();
                    }
                    let id = put.version.unwrap();
                    model.entry(at).or_default().insert(0, Kept { id, marker: false, made, size, tagged });
                }
                if random.below(3) == 0 {
                    clock.pass(1);
                }
            }
            let rules = random_rules(&mut random);
            test.set_rules(&bucket, rules.clone());
            // Changes are whole days apart, and passes lie half a day beside them: nothing is due just now.
            clock.pass_half_a_day();
            let now = clock.now().0;
            let found_before: BTreeSet<(String, String)> = test.all_versions(&bucket).into_iter().collect();
            test.expire();
            let mut expected = BTreeSet::new();
            for (at, versions) in &mut model {
                let (left, expired) = remaining(at, versions, &rules, now);
                versions.retain(|version| left.contains(&version.id));
                if expired {
                    let marker =
                        test.all_versions(&bucket).into_iter().find(|(key, id)| key == at && id.starts_with("marker"));
                    let (_, id) = marker.unwrap_or_else(|| panic!("seed {seed} round {round}: {at} did not expire"));
                    versions.insert(0, Kept { id, marker: true, made: now, size: 0, tagged: false });
                }
                expected.extend(versions.iter().map(|version| ((*at).to_owned(), version.id.clone())));
            }
            let found: BTreeSet<(String, String)> = test.all_versions(&bucket).into_iter().collect();
            assert_eq!(found, expected, "seed {seed} round {round}\nbefore {found_before:?}\nrules {rules:#?}");
            clock.pass_half_a_day();
        }
        test.audit_collected();
    }
}
