//! Branches compared with a map of maps.

use std::collections::BTreeMap;

use super::*;
use crate::clock::Timestamp;
use crate::meta::{Durability, Meta, Pair, Read, Txn, memory};
use crate::record::key::{self, Branch, CloneGroup, tag};
use crate::tests::random::Choices;

const CLONE_GROUP: CloneGroup = 7;
const NAMES: [&str; 12] = ["", "a", "a/", "aa", "ab", "a\u{1}", "b", "b-", "b/", "b0", "é", "z"];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct State {
    meta: Meta,
    lines: Ancestries,
    live: BTreeMap<Branch, Model>,
    frozen: BTreeMap<Branch, Model>,
    choices: Choices,
}

fn base(name: &str) -> Vec<u8> {
    key::dirent(CLONE_GROUP, 9, name)
}

fn some_base(choices: &mut Choices) -> Vec<u8> {
    base(NAMES[choices.below(NAMES.len())])
}

impl State {
    fn new() -> Self {
        let meta = Meta::new(memory::open().unwrap());
        let first =
            meta.write(Durability::Buffered, |txn| Ok(first_branch(txn, CLONE_GROUP, Timestamp(0)))).wait().unwrap();
        let live = BTreeMap::from([(first, Model::new())]);
        Self { meta, lines: Ancestries::default(), live, frozen: BTreeMap::new(), choices: Choices::new() }
    }

    fn ancestry(&self, branch: Branch) -> Ancestry {
        self.lines.ancestry(&*self.meta.snapshot(), CLONE_GROUP, branch).unwrap()
    }

    fn change<T: Send + 'static>(&self, change: impl FnOnce(&mut dyn Txn) -> crate::Result<T> + Send + 'static) -> T {
        self.meta.write(Durability::Buffered, change).wait().unwrap()
    }

    fn some_live(&mut self) -> Option<Branch> {
        let live: Vec<Branch> = self.live.keys().copied().collect();
        (!live.is_empty()).then(|| *self.choices.of(&live))
    }

    fn some_frozen(&mut self) -> Option<Branch> {
        let frozen: Vec<Branch> = self.frozen.keys().copied().collect();
        (!frozen.is_empty()).then(|| *self.choices.of(&frozen))
    }

    fn step(&mut self) {
        match self.choices.below(100) {
            0..45 => self.put(),
            45..75 => self.remove(),
            75..81 => self.snapshot(),
            81..85 => self.fork(),
            85..90 => self.clone_snapshot(),
            90..94 => self.kill(),
            94..97 => self.collect(),
            _ => self.compare(),
        }
    }

    fn put(&mut self) {
        let Some(branch) = self.some_live() else { return };
        let (base, value) = (some_base(&mut self.choices), self.choices.bytes(2));
        self.live.get_mut(&branch).unwrap().insert(base.clone(), value.clone());
        let ancestry = self.ancestry(branch);
        self.change(move |txn| {
            ancestry.put(txn, &base, value);
            Ok(())
        });
    }

    fn remove(&mut self) {
        let Some(branch) = self.some_live() else { return };
        let base = some_base(&mut self.choices);
        self.live.get_mut(&branch).unwrap().remove(&base);
        let ancestry = self.ancestry(branch);
        self.change(move |txn| ancestry.remove(txn, &base));
    }

    fn snapshot(&mut self) {
        let Some(branch) = self.some_live() else { return };
        let (frozen, live) = self.change(move |txn| snapshot_branch(txn, CLONE_GROUP, branch, Timestamp(0)));
        let model = self.live.remove(&branch).unwrap();
        self.frozen.insert(frozen, model.clone());
        self.live.insert(live, model);
    }

    fn fork(&mut self) {
        if self.live.len() > 6 {
            return;
        }
        let Some(branch) = self.some_live() else { return };
        let (clone, live) = self.change(move |txn| fork_branch(txn, CLONE_GROUP, branch, Timestamp(0)));
        let model = self.live.remove(&branch).unwrap();
        self.live.insert(clone, model.clone());
        self.live.insert(live, model);
    }

    fn clone_snapshot(&mut self) {
        let Some(branch) = self.some_frozen().filter(|_| self.live.len() < 7) else { return };
        let clone = self.change(move |txn| clone_branch(txn, CLONE_GROUP, branch, Timestamp(0)));
        self.live.insert(clone, self.frozen[&branch].clone());
    }

    fn kill(&mut self) {
        let many = self.live.len() > 1;
        let branch = if self.choices.once_in(2) { self.some_frozen() } else { self.some_live().filter(|_| many) };
        let Some(branch) = branch else { return };
        self.live.remove(&branch);
        self.frozen.remove(&branch);
        self.change(move |txn| kill_branch(txn, CLONE_GROUP, branch));
    }

    /// Collects as the collector does; then every version left is needed.
    fn collect(&mut self) {
        let unneeded = unneeded(&*self.meta.snapshot());
        self.change(move |txn| {
            unneeded.into_iter().for_each(|key| txn.delete(key));
            Ok(())
        });
        self.assert_minimal();
        self.compare();
    }

    /// Asserts that removing any remaining version would change what some branch sees.
    fn assert_minimal(&self) {
        let snapshot = self.meta.snapshot();
        let living: Vec<Ancestry> =
            self.live.keys().chain(self.frozen.keys()).map(|branch| self.ancestry(*branch)).collect();
        assert_eq!(unneeded(&*snapshot), Vec::<Vec<u8>>::new());
        for pair in versions(&*snapshot) {
            let (base, branch) = key::unbranched(&pair.key).unwrap();
            let nearest = |ancestry: &&Ancestry| {
                let mut own = versions(&*snapshot).into_iter().filter_map(|pair| {
                    let (found, branch) = key::unbranched(&pair.key)?;
                    (found == base && ancestry.sees(branch)).then_some((branch, pair.value.is_empty()))
                });
                own.next().is_some_and(|(found, _)| found == branch)
                    && (!pair.value.is_empty() || own.any(|(_, gone)| !gone))
            };
            assert!(living.iter().any(|ancestry| nearest(&ancestry)), "{:x?} is needed by nobody", pair.key);
        }
    }

    fn compare(&mut self) {
        let snapshot = self.meta.snapshot();
        for (branch, model) in self.live.iter().chain(&self.frozen) {
            let ancestry = self.lines.ancestry(&*snapshot, CLONE_GROUP, *branch).unwrap();
            for name in NAMES {
                let found = ancestry.get(&*snapshot, &base(name)).unwrap().map(|(_, value)| value.to_vec());
                assert_eq!(found.as_ref(), model.get(&base(name)), "{branch:x} {name:?}");
            }
            let (from, to) = (some_base(&mut self.choices), some_base(&mut self.choices));
            let limit = 1 + self.choices.below(14);
            let expected = in_range(model, &from, &to).take(limit);
            let expected: Vec<_> = expected.map(|(base, value)| (base.clone(), value)).collect();
            let found = ancestry.scan(&*snapshot, &from, &to, limit).unwrap();
            assert_eq!(
                found.iter().map(|seen| (seen.base.to_vec(), seen.value.to_vec())).collect::<Vec<_>>(),
                expected
            );
            let last =
                ancestry.last(&*snapshot, &from, &to).unwrap().map(|seen| (seen.base.to_vec(), seen.value.to_vec()));
            assert_eq!(last, in_range(model, &from, &to).next_back().map(|(base, value)| (base.clone(), value)));
        }
    }
}

fn in_range<'a>(model: &'a Model, from: &[u8], to: &[u8]) -> impl DoubleEndedIterator<Item = (&'a Vec<u8>, Vec<u8>)> {
    let range = (from < to).then(|| model.range(from.to_vec()..to.to_vec()));
    range.into_iter().flatten().map(|(base, value)| (base, value.clone()))
}

fn versions(read: &dyn Read) -> Vec<Pair> {
    read.scan(&[tag::DIRENT], &[tag::DIRENT + 1], usize::MAX).unwrap()
}

fn unneeded(read: &dyn Read) -> Vec<Vec<u8>> {
    let living = LiveBranches::of(read, CLONE_GROUP).unwrap();
    let pairs = versions(read);
    let split = |pair: &Pair| key::unbranched(&pair.key).map(|(base, branch)| (base.to_vec(), branch)).unwrap();
    let groups = pairs.chunk_by(|a, b| split(a).0 == split(b).0);
    let unneeded = groups.flat_map(|group| {
        let versions: Vec<_> = group.iter().map(|pair| (split(pair).1, pair.value.is_empty())).collect();
        let base = split(&group[0]).0;
        living.collectable(&versions).into_iter().map(move |branch| key::branched(&base, branch))
    });
    unneeded.collect()
}

#[test]
fn branches_agree_with_a_map_of_maps() {
    for _ in 0..20 {
        let mut state = State::new();
        for _ in 0..600 {
            state.step();
        }
        state.collect();
    }
}
