//! Generation of operations that, by the model, have to succeed or be refused without effect.

mod mounted;
mod objects;

use super::model::{Bucket, Folder, Node, State};
use super::operation::{At, Operation, Rule};
use crate::store::{Mode, Versioning};
use crate::tests::random::Choices;

const BUCKETS: [&str; 3] = ["alpha", "beta", "gamma"];
const CLONES: [&str; 2] = ["clone-one", "clone-two"];
const SNAPSHOTS: [&str; 2] = ["snap-one", "snap-two"];
const ACCOUNTS: [&str; 2] = ["ann", "bob"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const FOLDERS: [&str; 2] = ["x", "y"];
/// Draws operations.
pub(super) struct Generator<'a> {
    pub(super) state: &'a State,
    pub(super) choices: &'a mut Choices,
    /// Of the content it writes.
    pub(super) stamp: u64,
}

impl Generator<'_> {
    /// The next operation: the first drawn one that is possible.
    pub(super) fn operation(&mut self) -> Operation {
        loop {
            let drawn = match self.choices.below(42) {
                _ if self.buckets(false).is_empty() => self.of_store(),
                0 | 1 => self.of_store(),
                2 | 3 => self.of_branches(),
                4..=13 => self.of_objects(),
                14..=16 => self.of_uploads(),
                17..=24 => self.of_names(),
                25..=35 => self.of_files(),
                36 => self.bucket().map(|bucket| Operation::Look { bucket }),
                37 => Some(Operation::Collect),
                38 => self.of_days(),
                39 | 40 => self.of_versions(),
                _ => Some(match self.choices.below(6) {
                    0 => Operation::Reopen,
                    1 => Operation::Pass,
                    _ => Operation::Collect,
                })
                .filter(|_| self.choices.once_in(2)),
            };
            if let Some(operation) = drawn {
                return operation;
            }
        }
    }

    fn of_store(&mut self) -> Option<Operation> {
        let quota = Some(200_000).filter(|_| self.choices.once_in(3));
        let account = (*self.choices.of(&ACCOUNTS)).to_owned();
        let known = self.state.accounts.contains_key(&account);
        Some(match self.choices.below(8) {
            0 | 1 => {
                let versioned = self.choices.once_in(2);
                let locking = versioned && self.choices.once_in(2);
                let versioning = if versioned { Versioning::Enabled } else { Versioning::Disabled };
                Operation::CreateBucket { bucket: self.free(&BUCKETS)?, quota, versioning, locking }
            }
            2 if self.choices.once_in(3) => Operation::DeleteBucket { bucket: self.bucket()? },
            3 if self.choices.once_in(2) => Operation::SetQuota { bucket: self.bucket()?, quota },
            3 => self.rule()?,
            4 if !known => Operation::CreateAccount { account },
            4 if self.choices.once_in(4) => Operation::DeleteAccount { account },
            5 if known && self.choices.once_in(4) => Operation::RotateMaster,
            5 if known => Operation::RotateKey { account },
            6 if known => {
                let mode = *self.choices.of(&[Mode::Read, Mode::Write, Mode::ReadWrite, Mode::Owner]);
                let bucket = self.bucket()?;
                (!self.state.grants.contains_key(&(bucket.clone(), account.clone()))).then_some(())?;
                Operation::Grant { bucket, account, mode }
            }
            7 => {
                let granted: Vec<_> = self.state.grants.keys().cloned().collect();
                let (bucket, account) = self.one(&granted)?;
                Operation::Revoke { bucket, account }
            }
            _ => return None,
        })
    }

    /// Which versions a bucket keeps from now on, and for how long.
    fn of_versions(&mut self) -> Option<Operation> {
        let bucket = self.bucket()?;
        let held = &self.state.buckets[&bucket];
        if held.locking && !self.choices.once_in(4) {
            let compliance = Some(self.choices.once_in(2)).filter(|_| !self.choices.once_in(3));
            return Some(Operation::SetRetention { bucket, compliance });
        }
        let versioning = match held.versioning {
            Versioning::Disabled => *self.choices.of(&[Versioning::Enabled, Versioning::Suspended]),
            Versioning::Enabled => Versioning::Suspended,
            Versioning::Suspended => Versioning::Enabled,
        };
        Some(Operation::SetVersioning { bucket, versioning })
    }

    fn of_branches(&mut self) -> Option<Operation> {
        let snapshots: Vec<String> = self.buckets(true);
        Some(match self.choices.below(5) {
            0 | 1 => Operation::Snapshot { bucket: self.bucket()?, name: self.free(&SNAPSHOTS)? },
            2 => Operation::DeleteSnapshot { name: self.one(&snapshots)? },
            3 => Operation::Clone { source: self.one(&snapshots)?, bucket: self.free(&CLONES)? },
            _ => Operation::Clone { source: self.bucket()?, bucket: self.free(&CLONES)? },
        })
    }

    /// Time, and what falls due by it.
    fn of_days(&mut self) -> Option<Operation> {
        let ruled = self.state.buckets.values().any(|bucket| bucket.rule.is_some());
        match self.choices.below(3) {
            0 => Some(Operation::Day),
            _ => ruled.then_some(Operation::Expire),
        }
    }

    fn rule(&mut self) -> Option<Operation> {
        let bucket = self.bucket()?;
        // When a folder that S3 put was changed last the model does not say.
        let put = |node: &Node| *node == Node::Folder(Folder::Put);
        if self.state.buckets[&bucket].names.values().any(put) || self.choices.once_in(4) {
            return Some(Operation::SetRule { bucket, rule: None });
        }
        let noncurrent = (self.choices.below_u64(2), self.choices.below(3));
        let rule = Rule {
            prefix: self.choices.of::<&str>(&["", "", "x/"]),
            expire: self.sometimes(1),
            noncurrent: Some((noncurrent.0 + 1, noncurrent.1)).filter(|_| self.choices.once_in(2)),
            markers: false,
            uploads: self.sometimes(1),
        };
        // A rule may not have both.
        let markers = rule.expire.is_none() && self.choices.once_in(2);
        let rule = Rule { markers, ..rule };
        let says = rule.expire.is_some() || rule.noncurrent.is_some() || markers || rule.uploads.is_some();
        says.then_some(Operation::SetRule { bucket, rule: Some(rule) })
    }

    fn sometimes(&mut self, days: u64) -> Option<u64> {
        self.choices.once_in(2).then_some(days)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| self.choices.of(of).clone())
    }

    fn buckets(&self, snapshots: bool) -> Vec<String> {
        let held = self.state.buckets.iter().filter(|(_, held)| held.snapshot == snapshots);
        held.map(|(name, _)| name.clone()).collect()
    }

    fn bucket(&mut self) -> Option<String> {
        let buckets = self.buckets(false);
        self.one(&buckets)
    }

    fn free(&mut self, of: &[&str]) -> Option<String> {
        let free: Vec<&&str> = of.iter().filter(|name| !self.state.buckets.contains_key(**name)).collect();
        self.one(&free).map(|name| (*name).to_owned())
    }

    /// A path; its folder may be missing.
    fn path(&mut self, bucket: &str) -> At {
        let name = *self.choices.of(&NAMES);
        let path =
            if self.choices.once_in(3) { format!("{}/{name}", self.choices.of(&FOLDERS)) } else { name.to_owned() };
        At { bucket: bucket.to_owned(), path }
    }

    /// Whether nothing is there that S3 cannot replace.
    fn is_writable(&self, at: &At) -> bool {
        let held: &Bucket = &self.state.buckets[&at.bucket];
        matches!(held.names.get(&at.path), None | Some(Node::File(_)))
    }

    /// A path where a file is, or nothing.
    fn key(&mut self, bucket: &str) -> Option<At> {
        let at = self.path(bucket);
        self.is_writable(&at).then_some(at)
    }

    /// A path in a folder that is there.
    fn reachable(&mut self, bucket: &str) -> Option<At> {
        let at = self.path(bucket);
        let held = &self.state.buckets[bucket];
        at.path.split_once('/').is_none_or(|(folder, _)| held.names.contains_key(folder)).then_some(at)
    }

    /// One where nothing is.
    fn new_path(&mut self, bucket: &str) -> Option<At> {
        let at = self.reachable(bucket)?;
        (!self.state.buckets[bucket].names.contains_key(&at.path)).then_some(at)
    }

    /// A file there is.
    fn file(&mut self, bucket: &str) -> Option<At> {
        let names = self.state.buckets[bucket].names.iter();
        let files: Vec<&String> =
            names.filter(|(_, node)| matches!(node, Node::File(_))).map(|(path, _)| path).collect();
        self.one(&files).map(|path| At { bucket: bucket.to_owned(), path: path.clone() })
    }

    /// A file there is, in any bucket or snapshot.
    fn source(&mut self) -> Option<At> {
        let all: Vec<String> = self.state.buckets.keys().cloned().collect();
        let bucket = self.one(&all)?;
        self.file(&bucket)
    }

    fn empty_folder(&mut self, bucket: &str) -> Option<At> {
        let held = &self.state.buckets[bucket];
        let empty = |folder: &&&str| held.names.contains_key(**folder) && held.below(folder).next().is_none();
        let empty: Vec<&&str> = FOLDERS.iter().filter(empty).collect();
        self.one(&empty).map(|folder| At { bucket: bucket.to_owned(), path: (*folder).to_owned() })
    }
}

mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tests::simulated::content::Contents;

    /// What a schedule is to come to now and then, of what takes several operations to come to.
    fn of_note(state: &State, operation: &Operation) -> Vec<&'static str> {
        let bucket = |name: &str| state.buckets.get(name);
        let written = operation.written().and_then(|at| {
            let bucket = bucket(&at.bucket)?;
            let file = bucket.file_at(&at.path)?;
            Some((bucket, file, &bucket.files[&file]))
        });
        let mut found = Vec::new();
        if let Some((bucket, file, held)) = written {
            let several = bucket.versioned() && bucket.links(file) > 1;
            found.extend(several.then_some("a write to a file of several names, where versions are kept"));
            let suspended = bucket.versioning == Versioning::Suspended;
            found.extend((suspended && held.null).then_some("a write to the version null, where it is suspended"));
            found.extend((suspended && !held.null).then_some("a write to another, where it is suspended"));
            let under_way = held.lock.protects(state.day) && held.is_under_way();
            found.extend(under_way.then_some("a write to a version under way that is retained"));
        }
        match operation {
            Operation::Put { at, .. } | Operation::Delete { at } => {
                let suspended = bucket(&at.bucket).filter(|bucket| bucket.versioning == Versioning::Suspended);
                let before = suspended.and_then(|bucket| bucket.versions.get(&at.path));
                found.extend(before.map(|_| "S3 over older versions, where it is suspended"));
            }
            Operation::Link { .. } if state.refuses(operation) => found.push("a link that is refused"),
            Operation::SetVersioning { .. } if state.refuses(operation) => found.push("suspending that is refused"),
            Operation::Close { bucket: of } => {
                let held = bucket(of).and_then(|bucket| bucket.files.get(bucket.open.first()?));
                let ends = held.is_some_and(|held| held.begun.is_some_and(|until| until.is_some()));
                found.extend(ends.then_some("a close that retains"));
            }
            _ => {}
        }
        found
    }

    #[test]
    fn what_takes_several_operations_is_drawn_too() {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for seed in 0..400 {
            let (mut state, mut contents, mut choices) = (State::default(), Contents::default(), Choices::with(seed));
            for stamp in 0..72 {
                let operation = Generator { state: &state, choices: &mut choices, stamp }.operation();
                of_note(&state, &operation).into_iter().for_each(|what| *seen.entry(what).or_default() += 1);
                state.day += u64::from(matches!(operation, Operation::Day));
                if !state.refuses(&operation) {
                    state.apply(&mut contents, &operation);
                }
            }
        }
        assert_eq!(seen.len(), 8, "{seen:?}");
    }
}
