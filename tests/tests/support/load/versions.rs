//! A writer of keys with versioning: it knows every version by its id.

use aws_sdk_s3::Client;

use super::{Answer, Content, ExpectedEnd, REQUEST_LIMIT, VERSIONED_BUCKET, answer};
use crate::support::Rng;

const KEYS: usize = 3;
/// A key with more versions gets some removed.
const VERSIONS_MAX: usize = 6;

/// The versions of a key by their ids, newest first: ids decrease with time. `None` is a delete marker.
type Versions = Vec<(String, Option<Content>)>;

/// A request.
#[derive(Clone, Debug)]
enum Change {
    Put(Content),
    Mark,
    Remove(String),
}

#[derive(Default)]
struct History {
    versions: Versions,
    pending: Option<Change>,
}

/// The writer.
pub struct VersionedKeys {
    number: u64,
    keys: Vec<History>,
    done: usize,
}

impl VersionedKeys {
    pub fn new(number: u64) -> Self {
        Self { number, keys: (0..KEYS).map(|_| History::default()).collect(), done: 0 }
    }

    /// The number of keys that may have the old or the new state.
    pub fn open(&self) -> usize {
        self.keys.iter().filter(|key| key.pending.is_some()).count()
    }

    /// The number of requests acknowledged since the last call.
    pub fn take_done(&mut self) -> usize {
        std::mem::take(&mut self.done)
    }

    fn key(&self, at: usize) -> String {
        format!("w{}/{at}", self.number)
    }

    /// Writes until the server ends, or refuses.
    pub async fn work(mut self, client: Client, mut rng: Rng, expected_end: ExpectedEnd) -> Self {
        loop {
            let at = rng.below(KEYS);
            let (name, history) = (self.key(at), &mut self.keys[at]);
            let change = history.generate(&mut rng);
            history.pending = Some(change.clone());
            let asked = tokio::time::timeout(REQUEST_LIMIT, request(&client, &name, &change, expected_end)).await;
            match asked.expect("a request is answered, or its connection ends") {
                Ok(id) if !expected_end.is_cut() => history.acknowledge(id),
                _ => return self,
            }
            self.done += 1;
        }
    }

    /// Asserts that each key has exactly the acknowledged versions, each with its content. The request that was in
    /// progress may have had its effect.
    pub async fn compare(&mut self, client: &Client, cycle: usize) {
        for at in 0..KEYS {
            let name = self.key(at);
            let seen = list(client, &name).await;
            let history = &mut self.keys[at];
            let is_known = |versions: &Versions| versions.iter().map(|(id, _)| id).eq(seen.iter());
            let before = history.versions.clone();
            let pending = history.pending.take();
            let mut possible = vec![before.clone()];
            match &pending {
                Some(Change::Remove(id)) => {
                    possible.push(before.iter().filter(|(known, _)| known != id).cloned().collect());
                }
                Some(Change::Put(_) | Change::Mark) if seen.first() != before.first().map(|(id, _)| id) => {
                    let content = if let Some(Change::Put(content)) = pending { Some(content) } else { None };
                    let newest = seen.first().map(|id| (id.clone(), content));
                    possible.push(newest.into_iter().chain(before.iter().cloned()).collect());
                }
                _ => {}
            }
            let found = possible.into_iter().find(|versions| is_known(versions));
            history.versions = found.unwrap_or_else(|| {
                panic!(
                    "cycle {cycle}: {name} has the versions {seen:?}; expected {before:?}, with or without {pending:?}"
                )
            });
            for (id, content) in &history.versions {
                whole(client, &name, id, *content, cycle).await;
            }
        }
    }
}

impl History {
    fn generate(&self, rng: &mut Rng) -> Change {
        let crowd = self.versions.len() > VERSIONS_MAX;
        match rng.below(10) {
            0..3 if !self.versions.is_empty() => Change::Remove(rng.pick(&self.versions).0.clone()),
            _ if crowd => Change::Remove(rng.pick(&self.versions).0.clone()),
            3 => Change::Mark,
            _ => {
                let longest = *rng.pick(&[4096, 60_000, 300_000]);
                Change::Put(Content { len: 1 + rng.below(longest), seed: rng.roll() })
            }
        }
    }

    fn acknowledge(&mut self, id: String) {
        match self.pending.take() {
            Some(Change::Put(content)) => self.versions.insert(0, (id, Some(content))),
            Some(Change::Mark) => self.versions.insert(0, (id, None)),
            Some(Change::Remove(id)) => self.versions.retain(|(known, _)| *known != id),
            None => {}
        }
    }
}

/// Sends a request; returns the id of the created version.
async fn request(client: &Client, key: &str, change: &Change, expected_end: ExpectedEnd) -> Result<String, Answer> {
    let id = match change {
        Change::Put(content) => {
            let put = client.put_object().bucket(VERSIONED_BUCKET).key(key).body(content.bytes().into());
            answer(put.send().await, expected_end)?.version_id
        }
        Change::Mark => {
            answer(client.delete_object().bucket(VERSIONED_BUCKET).key(key).send().await, expected_end)?.version_id
        }
        Change::Remove(id) => {
            let delete = client.delete_object().bucket(VERSIONED_BUCKET).key(key).version_id(id);
            answer(delete.send().await, expected_end)?.version_id
        }
    };
    Ok(id.expect("a bucket with versioning returns a version id"))
}

/// The ids of all versions and markers of a key, the newest first.
async fn list(client: &Client, key: &str) -> Vec<String> {
    let listed = client.list_object_versions().bucket(VERSIONED_BUCKET).prefix(key).send().await.expect("a listing");
    let versions = listed.versions().iter().map(|version| version.version_id());
    let markers = listed.delete_markers().iter().map(|marker| marker.version_id());
    let mut ids: Vec<_> = versions.chain(markers).map(|id| id.expect("an id").to_owned()).collect();
    ids.sort();
    ids
}

async fn whole(client: &Client, key: &str, id: &str, content: Option<Content>, cycle: usize) {
    let got = client.get_object().bucket(VERSIONED_BUCKET).key(key).version_id(id).send().await;
    let Some(content) = content else {
        let refused = got.map(drop).expect_err("a delete marker has no content");
        let status = refused.raw_response().map(|raw| raw.status().as_u16());
        return assert_eq!(status, Some(405), "cycle {cycle}: marker {id} of {key}");
    };
    let got = got.unwrap_or_else(|error| panic!("cycle {cycle}: {key} version {id}: {error:?}"));
    let seen = got.body.collect().await.expect("a body").to_vec();
    assert!(seen == content.bytes(), "cycle {cycle}: version {id} of {key} has other content than was put");
}
