//! The effect of lifecycle rules on the model.
//!
//! - A pass removes in steps, each a transaction. So after a crash, each key may be at any stage of its rules.

use std::collections::{BTreeMap, BTreeSet};

use super::bucket::By;
use super::{Bucket, Node, State, Version};
use crate::tests::simulated::content::Contents;
use crate::tests::simulated::operation::Rule;

/// The stages of each bucket, from what was there to what is left.
#[derive(Clone, Default)]
pub(in super::super) struct Expired(pub(in super::super) BTreeMap<String, Vec<Bucket>>);

impl Expired {
    /// The state that `before` is with each key at the last stage that looks as it is found: whether it has a current
    /// object, and how many versions below that; and whether there is an upload for it.
    pub(in super::super) fn so_far(
        &self,
        before: &State,
        shape: impl Fn(&str, &str) -> (bool, usize),
        upload: impl Fn(&str, &str) -> bool,
    ) -> State {
        let mut found = before.clone();
        for (name, stages) in &self.0 {
            let (first, bucket) = (&stages[0], found.bucket(name));
            let keys = first.names.keys().chain(first.versions.keys());
            let keys: BTreeSet<&String> =
                keys.filter(|key| !matches!(first.names.get(*key), Some(Node::Folder(_)))).collect();
            for key in keys {
                let looks = |stage: &&Bucket| (stage.names.contains_key(key), stage.versions_of(key).len());
                if let Some(stage) = stages.iter().rev().find(|stage| looks(stage) == shape(name, key)) {
                    bucket.take_key(key, stage);
                }
            }
            bucket.uploads.retain(|key, _| upload(name, key));
            bucket.sweep();
        }
        found
    }
}

impl Bucket {
    fn versions_of(&self, key: &str) -> &[Version] {
        self.versions.get(key).map_or(&[], Vec::as_slice)
    }

    /// Lets a key be what it is at another stage.
    fn take_key(&mut self, key: &str, stage: &Self) {
        if !stage.names.contains_key(key) && self.names.contains_key(key) {
            self.unname(key, By::S3);
        }
        for file in stage.versions_of(key).iter().filter_map(|version| version.file) {
            // A copy, if other names lead to what a name led to.
            self.files.entry(file).or_insert_with(|| stage.files[&file].clone());
        }
        match stage.versions.get(key) {
            Some(versions) => self.versions.insert(key.to_owned(), versions.clone()),
            None => self.versions.remove(key),
        };
    }
}

/// At the first midnight that so many days are over.
fn is_due(since: u64, days: u64, today: u64) -> bool {
    today > since + days
}

impl State {
    pub(super) fn expire(&mut self, contents: &mut Contents) {
        let mut expired = Expired::default();
        let day = self.day;
        for (name, bucket) in &mut self.buckets {
            let Some(rule) = bucket.rule else { continue };
            let mut stages = vec![bucket.clone()];
            bucket.expire_keys(contents, rule, day);
            stages.push(bucket.clone());
            for stage in [Bucket::expire_versions, Bucket::expire_markers, Bucket::expire_uploads] {
                stage(bucket, rule, day);
                stages.push(bucket.clone());
            }
            expired.0.insert(name.clone(), stages);
        }
        self.expired = Some(expired);
    }
}

impl Bucket {
    fn expire_keys(&mut self, contents: &mut Contents, rule: Rule, day: u64) {
        let Some(days) = rule.expire else { return };
        let due = |bucket: &Self, key: &str| {
            let file = bucket.file_at(key).map(|file| &bucket.files[&file]);
            key.starts_with(rule.prefix) && file.is_some_and(|file| is_due(file.written, days, day))
        };
        let keys: Vec<String> = self.names.keys().filter(|key| due(self, key)).cloned().collect();
        keys.iter().for_each(|key| self.delete(contents, key, day));
    }

    fn expire_versions(&mut self, rule: Rule, day: u64) {
        let Some((days, kept)) = rule.noncurrent else { return };
        let keys: Vec<String> = self.versions.keys().filter(|key| key.starts_with(rule.prefix)).cloned().collect();
        for key in keys {
            // Newest first: what is above, when that was made, how many of content stay.
            let mut above = self.file_at(&key).map(|file| self.files[&file].written);
            let (mut newer, mut left) = (0, Vec::new());
            for version in self.versions[&key].iter().rev() {
                let (since, made, locked) = self.ages(version, above, day);
                let due = since.is_some_and(|since| is_due(since, days, day)) && newer >= kept && !locked;
                if !due {
                    newer += usize::from(version.file.is_some());
                    left.insert(0, *version);
                }
                above = Some(made);
            }
            self.versions.insert(key.clone(), left);
            if self.versions[&key].is_empty() {
                self.versions.remove(&key);
            }
        }
        self.sweep();
    }

    /// Since when a version is not current, when it was made, and whether it is locked.
    fn ages(&self, version: &Version, above: Option<u64>, day: u64) -> (Option<u64>, u64, bool) {
        match version.file.map(|file| &self.files[&file]) {
            Some(file) => (Some(version.since), file.written, file.lock.protects(day)),
            None => (above, version.since, false),
        }
    }

    fn expire_markers(&mut self, rule: Rule, day: u64) {
        let names = &self.names;
        self.versions.retain(|key, versions| {
            let current = matches!(names.get(key), Some(Node::File(_)));
            let lone = versions.len() == 1 && versions[0].file.is_none() && !current;
            let due = rule.markers || rule.expire.is_some_and(|days| is_due(versions[0].since, days, day));
            !(lone && due && key.starts_with(rule.prefix))
        });
    }

    fn expire_uploads(&mut self, rule: Rule, day: u64) {
        let Some(days) = rule.uploads else { return };
        self.uploads.retain(|key, upload| !(key.starts_with(rule.prefix) && is_due(upload.begun, days, day)));
    }
}
