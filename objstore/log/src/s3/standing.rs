//! Announcements of the servers that follow the log: an object for each.
//!
//! - Their age needs no common clock. It is the longer of two: for how long this client has seen the same announcement, and
//!   how many revisions of the record came after it, of which an owner makes six within a lease.

use std::time::Duration;

use bytes::Bytes;
use objstore_bucket::Error as BucketError;

use super::record::Record;
use super::{S3, keys, unavailable};
use crate::error::Result;
use crate::standing::{Follower, Standing};

/// The most bytes of an announcement.
const BYTES_MAX: usize = 4096;
/// The most announcements that are read.
const SERVERS_MAX: usize = 64;
const TITLE: &str = "amphora standby 1";

/// An announcement that this client knows.
pub(super) struct Announced {
    etag: String,
    /// When this client saw it first.
    since: Duration,
}

/// The content of an announcement.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    at: u64,
    behind: u64,
    revision: u64,
}

impl Content {
    fn encode(&self) -> Bytes {
        format!("{TITLE}\nat {}\nbehind {}\nrevision {}\n", self.at, self.behind, self.revision).into()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let titled = lines.next() == Some(TITLE);
        let mut number = |name: &str| lines.next()?.strip_prefix(name)?.trim_start().parse().ok();
        let content = Self { at: number("at")?, behind: number("behind")?, revision: number("revision")? };
        titled.then_some(content)
    }
}

impl S3 {
    pub(super) fn announce_server(&self, server: &str, at: u64) -> Result<()> {
        let next = self.end()?.next;
        let revision = self.recent()?.revision;
        let content = Content { at, behind: (next - 1).saturating_sub(at), revision }.encode();
        let key = keys::standby(server);
        let known = self.announced.lock().get(server).map(|announced| announced.etag.clone());
        let mut written = match known {
            Some(etag) => self.data.replace(&key, content.clone(), &etag),
            None => self.data.put(&key, content.clone()),
        };
        if matches!(written, Err(BucketError::Conflict { .. } | BucketError::Missing { .. })) {
            written = match self.data.get(&key, BYTES_MAX) {
                Ok(there) => self.data.replace(&key, content, &there.etag),
                Err(BucketError::Missing { .. }) => self.data.put(&key, content),
                Err(error) => Err(error),
            };
        }
        let etag = written.map_err(|error| {
            self.announced.lock().remove(server);
            unavailable(error)
        })?;
        self.announced.lock().insert(server.to_owned(), Announced { etag, since: (self.clock)() });
        Ok(())
    }

    pub(super) fn standing_within(&self, within: Duration) -> Result<Standing> {
        let record = self.record()?;
        let mut followers = self.followers(&record).map_err(unavailable)?;
        followers.retain(|follower| follower.seen <= within && follower.server != record.server);
        followers.sort_by(|one, other| (one.behind, &one.server).cmp(&(other.behind, &other.server)));
        let lease = self.remaining(&record);
        Ok(Standing { epoch: record.epoch, server: record.server, lease, followers })
    }

    fn followers(&self, record: &Record) -> objstore_bucket::Result<Vec<Follower>> {
        let listed = self.data.list(keys::STANDBYS, None)?;
        let wanted: Vec<_> = listed.into_iter().take(SERVERS_MAX).map(|listed| (listed.key, BYTES_MAX)).collect();
        let mut followers = Vec::new();
        for ((key, _), object) in wanted.iter().zip(self.data.get_each(&wanted)) {
            let object = match object {
                Ok(object) => object,
                Err(BucketError::Missing { .. }) => continue,
                Err(error) => return Err(error),
            };
            let (Some(server), Some(content)) = (keys::server(key), Content::decode(&object.bytes)) else { continue };
            let seen = self.age(record, &server, object.etag, content.revision);
            followers.push(Follower { server, at: content.at, behind: content.behind, seen });
        }
        Ok(followers)
    }

    /// For how long the announcement with this entity tag is known, at least.
    fn age(&self, record: &Record, server: &str, etag: String, revision: u64) -> Duration {
        let now = (self.clock)();
        let mut announced = self.announced.lock();
        // Bounded by the servers that are listed, and those that were removed since this client began.
        if announced.len() > 16 * SERVERS_MAX {
            announced.clear();
        }
        let known = announced.entry(server.to_owned()).or_insert_with(|| Announced { etag: etag.clone(), since: now });
        if known.etag != etag {
            *known = Announced { etag, since: now };
        }
        let revisions = u32::try_from(record.revision.saturating_sub(revision)).unwrap_or(u32::MAX);
        now.saturating_sub(known.since).max((record.lease / 6).saturating_mul(revisions))
    }

    /// Removes the announcements that are older than `age`.
    pub(super) fn remove_announcements(&self, age: Duration) -> objstore_bucket::Result<()> {
        let Ok(record) = self.recent() else { return Ok(()) };
        let old = self.followers(&record)?.into_iter().filter(|follower| follower.seen > age);
        let old: Vec<_> = old.map(|follower| keys::standby(&follower.server)).collect();
        self.data.remove(&old)
    }
}

impl S3 {
    /// Reads the record and the announcements, so that their ages are counted from now on. For tests, whose clocks
    /// stand still between calls.
    ///
    /// # Errors
    /// Those of [`crate::Log::standing`].
    pub fn observe(&self) -> Result<()> {
        self.standing_within(Duration::MAX).map(drop)
    }
}
