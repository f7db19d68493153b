//! Examination of noncurrent versions and delete markers: all of a key, newest first.

use super::walk::{Change, View, Walked};
use super::{CHANGES_MAX, LOOKED_MAX};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::expiry::Subject;
use crate::name::Key;
use crate::record::inode::Inode;
use crate::record::key;
use crate::record::lifecycle::Last;
use crate::tree::{Noncurrent, protection};

/// The most versions of a key read to count the newer ones.
const COUNTED_MAX: usize = 256;

/// The versions of a key above the one being examined.
struct Above {
    key: Key,
    /// Whether there is a current object or a newer version.
    any: bool,
    /// Number of noncurrent versions with content that stay.
    newer: u32,
    /// The creation time of the next newer version.
    made: Timestamp,
}

impl View<'_> {
    /// Examines noncurrent versions and delete markers of keys below `area`.
    pub fn versions(&self, area: &str, last: Option<&Last>) -> Result<Walked> {
        let clone_group = self.tree.ancestry.clone_group;
        let prefix = key::versions_below(clone_group, area);
        let from = match last {
            Some(last) => key::after_prefix(&key::version(clone_group, &last.key, last.order)),
            None => prefix.clone(),
        };
        let versions = self.tree.versions(&from, &key::after_prefix(&prefix), LOOKED_MAX)?;
        let mut walked = Walked { more: versions.len() == LOOKED_MAX, ..Walked::default() };
        let mut above = last.map(|last| self.resumed(last)).transpose()?;
        for version in &versions {
            if walked.changes.len() == CHANGES_MAX {
                walked.more = true;
                break;
            }
            let mut now = match above.take().filter(|above| above.key.as_str() == version.key) {
                Some(above) => above,
                None => self.above(&version.key)?,
            };
            walked.looked_at += 1;
            walked.changes.extend(self.version_due(version, &mut now)?);
            walked.last = Some(Last {
                key: version.key.clone(),
                order: version.order,
                newer: now.newer,
                made: now.made.0,
                ..Last::default()
            });
            above = Some(now);
        }
        Ok(walked)
    }

    fn above(&self, name: &str) -> Result<Above> {
        let key: Key = name.parse()?;
        let current = self.tree.object(&key)?;
        let made = current.as_ref().map_or(Timestamp::default(), |(_, inode)| inode.written());
        Ok(Above { key, any: current.is_some(), newer: 0, made })
    }

    fn resumed(&self, last: &Last) -> Result<Above> {
        Ok(Above { key: last.key.parse()?, any: true, newer: last.newer, made: Timestamp(last.made) })
    }

    /// The change due for a version; also updates what lies above the next one.
    fn version_due(&self, found: &Noncurrent, above: &mut Above) -> Result<Option<Change>> {
        let (key, order) = (above.key.clone(), found.order);
        let created = Timestamp(found.version.created);
        if found.is_marker() {
            let due = if above.any {
                let since = above.made;
                let due = self.rules.noncurrent_due(Subject::marker(&found.key), since, above.newer);
                due.then_some(Change::Noncurrent { key, order, since })
            } else {
                self.lone_marker_due(found)?.then_some(Change::Marker { key, order })
            };
            (above.any, above.made) = (true, created);
            return Ok(due);
        }
        let (_, inode) = self.tree.linked_inode(found.version.ino)?;
        let due = self.version_goes(&found.key, &inode, created, above.newer);
        above.newer = above.newer.saturating_add(u32::from(!due));
        (above.any, above.made) = (true, inode.written());
        Ok(due.then_some(Change::Noncurrent { key, order, since: created }))
    }

    /// Whether a noncurrent version with content is due.
    pub fn version_goes(&self, key: &str, inode: &Inode, since: Timestamp, newer: u32) -> bool {
        protection(inode, self.rules.now).is_none()
            && self.rules.noncurrent_due(Subject::object(key, inode), since, newer)
    }

    /// Whether a delete marker is due: it is its key's only version, and a rule says so.
    pub fn lone_marker_due(&self, marker: &Noncurrent) -> Result<bool> {
        if !self.rules.lone_marker_due(&marker.key, Timestamp(marker.version.created)) {
            return Ok(false);
        }
        let from = key::versions(self.tree.ancestry.clone_group, &marker.key);
        let all = self.tree.versions(&from, &key::after_prefix(&from), 2)?;
        let alone = matches!(all.as_slice(), [only] if only.order == marker.order);
        Ok(alone && self.tree.find(&marker.key.parse()?)?.is_none())
    }

    /// A version with what lies above it: whether there is anything, and how many noncurrent versions with content, as
    /// far as rules need it and a bounded search finds them.
    pub fn version_at(&self, key: &Key, order: u64) -> Result<Option<(Noncurrent, bool, u32)>> {
        let clone_group = self.tree.ancestry.clone_group;
        let first = key::versions(clone_group, key.as_str());
        let place = key::version(clone_group, key.as_str(), order);
        let found = self.tree.versions(&place, &key::after_prefix(&first), 1)?.into_iter().next();
        let Some(found) = found.filter(|found| found.order == order) else { return Ok(None) };
        let limit = if self.rules.kept_max() == 0 { 1 } else { COUNTED_MAX };
        let above = self.tree.versions(&first, &place, limit)?;
        let newer = above.iter().filter(|version| !version.is_marker()).count();
        let any = !above.is_empty() || self.tree.object(key)?.is_some();
        Ok(Some((found, any, u32::try_from(newer).unwrap_or(u32::MAX))))
    }
}
