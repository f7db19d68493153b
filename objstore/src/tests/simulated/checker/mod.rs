//! Comparison of everything observable in a store, through both handles, with what the model allows.

mod bucket;
mod look;

use std::collections::BTreeMap;

use super::content::{Contents, End, FileId};
use super::model::{Lock, State};
use super::process::Process;
use crate::error::Result;
use crate::record::settings::LifecycleRule;
use crate::store::{Mode, Versioning};
use crate::tests::test_store::name;

/// What is seen of a store.
#[derive(Default)]
pub(super) struct Seen {
    buckets: BTreeMap<String, SeenBucket>,
    accounts: BTreeMap<String, usize>,
    grants: BTreeMap<(String, String), Mode>,
    /// What accounts may do, without what they own.
    allowed: BTreeMap<(String, String), Mode>,
}

struct SeenBucket {
    snapshot: bool,
    quota: Option<u64>,
    versioning: Versioning,
    /// Whether it has object lock.
    locking: bool,
    /// Whether it retains what is new, and if so whether by compliance.
    retention: Option<bool>,
    rules: Vec<LifecycleRule>,
    used_bytes: u64,
    objects: BTreeMap<String, SeenObject>,
    /// Of each key, the current one too, newest first.
    versions: BTreeMap<String, Vec<SeenVersion>>,
    uploads: BTreeMap<String, SeenUpload>,
    paths: BTreeMap<String, SeenNode>,
}

struct SeenUpload {
    id: String,
    /// Size and entity tag.
    parts: BTreeMap<u32, (u64, String)>,
}

struct SeenVersion {
    /// Whether its id is `null`.
    null: bool,
    /// Nothing of a delete marker.
    object: Option<SeenObject>,
}

struct SeenObject {
    bytes: Vec<u8>,
    etag: String,
    note: Option<String>,
    /// The day from which lifecycle rules count.
    written: u64,
    lock: Lock,
}

enum SeenNode {
    File(SeenFile),
    Folder,
    Link(String),
}

struct SeenFile {
    bytes: Vec<u8>,
    mode: u32,
    links: u32,
    xattr: Option<Vec<u8>>,
    generation: u64,
    /// The path it knows itself by.
    known: Option<String>,
}

impl Seen {
    /// Looks at everything. An error is a failure of the store: nothing here may be damaged.
    pub(super) fn of(process: &Process) -> Result<Self> {
        let mut seen = Self::default();
        let store = process.store.clone();
        let buckets = store.buckets(None, usize::MAX)?;
        for bucket in &buckets {
            seen.buckets.insert(bucket.name.to_string(), SeenBucket::of(process, bucket)?);
        }
        for snapshot in store.snapshots(None, None, usize::MAX)? {
            let shown = store.bucket(&name(&snapshot.name))?;
            let of = SeenBucket::of(process, &shown)?;
            seen.buckets.insert(snapshot.name, of);
        }
        store.root_key()?;
        for account in store.accounts()?.into_iter().filter(|account| !account.root) {
            let keys = store.keys(Some(&account.name))?;
            for held in &keys {
                // Its seal opens.
                store.identify(&held.id)?;
            }
            for bucket in &buckets {
                let mode = store.access(&account, &bucket.name)?;
                seen.allowed.extend(mode.map(|mode| ((bucket.name.to_string(), account.name.clone()), mode)));
            }
            seen.accounts.insert(account.name, keys.len());
        }
        for grant in store.grants(None, None)? {
            seen.grants.insert((grant.bucket.to_string(), grant.account), grant.mode);
        }
        Ok(seen)
    }

    /// What of this `state` does not allow.
    pub(super) fn fault(&self, state: &State, contents: &Contents, end: End) -> Option<String> {
        if !self.buckets.keys().eq(state.buckets.keys()) {
            let (seen, said) = (self.buckets.keys(), state.buckets.keys());
            return Some(format!("there are the buckets {seen:?}, not {said:?}"));
        }
        if self.accounts != state.accounts || self.grants != state.grants || self.allowed != state.grants {
            return Some(format!("accounts {:?}, grants {:?}: {:?}", self.accounts, self.grants, self.allowed));
        }
        self.buckets.iter().find_map(|(name, seen)| {
            let fault = seen.fault(&state.buckets[name], contents, end)?;
            Some(format!("{name}: {fault}"))
        })
    }

    /// What a state is in which lifecycle rules were carried out in part, as far as they were here.
    pub(super) fn partly_expired(&self, before: &State, after: &State) -> Option<State> {
        let expired = after.expired.as_ref()?;
        let shape = |bucket: &str, key: &str| {
            let seen = self.buckets.get(bucket);
            let current = seen.is_some_and(|seen| seen.objects.contains_key(key));
            let versions = seen.and_then(|seen| seen.versions.get(key)).map_or(0, Vec::len);
            (seen.is_some_and(|seen| seen.paths.contains_key(key)), versions.saturating_sub(usize::from(current)))
        };
        let upload =
            |bucket: &str, key: &str| self.buckets.get(bucket).is_some_and(|seen| seen.uploads.contains_key(key));
        Some(expired.so_far(before, shape, upload))
    }

    /// Lets a state that was found say what was found. All of it is on disk, but for a file that was written since the
    /// store was opened.
    pub(super) fn settle(&self, state: &mut State, contents: &mut Contents, written: Option<FileId>) {
        for (name, bucket) in &mut state.buckets {
            self.buckets[name].settle(bucket, contents, written);
        }
        state.lose_process();
        state.expired = None;
    }
}
