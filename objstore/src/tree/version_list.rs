//! Pages of versions (S3 API, ListObjectVersions): current keys and version records, merged.

use super::cursor::{Cursor, Item};
use super::list::{beyond, common_prefix, start};
use super::read::Tree;
use super::types::ListVersions;
use super::versions::{Noncurrent, order_of, order_of_id, version_id};
use crate::error::Result;
use crate::name::Key;
use crate::record::inode::Inode;
use crate::record::key::{self, tag};

/// Versions read at a time.
const CHUNK: usize = 256;

/// A version or delete marker in a listing.
pub(crate) struct Listed {
    /// The key.
    pub key: String,
    /// The version's id.
    pub id: String,
    /// Its order number among the versions of the key, which rises from the newest; zero for a current one that is
    /// `null`.
    order: u64,
    /// Its inode number.
    pub ino: u64,
    /// Its inode; `None` for a delete marker.
    pub inode: Option<Inode>,
    /// When a noncurrent version was created.
    pub created: i64,
    /// Whether it is the current one.
    pub latest: bool,
}

/// A page of versions.
#[derive(Default)]
pub(crate) struct VersionPage {
    /// Versions and delete markers.
    pub versions: Vec<Listed>,
    /// Common prefixes.
    pub prefixes: Vec<String>,
    /// The last key (or common prefix) and version, if there is more.
    pub next: Option<(String, Option<String>)>,
}

impl VersionPage {
    fn len(&self) -> usize {
        self.versions.len() + self.prefixes.len()
    }
}

/// The two walks, each with its next item.
struct Merge<'a> {
    tree: Tree<'a>,
    cursor: Cursor<'a>,
    current: Option<Item>,
    others: std::collections::VecDeque<Noncurrent>,
    from: Option<Vec<u8>>,
}

impl<'a> Merge<'a> {
    fn new(tree: Tree<'a>, from: &str) -> Result<Self> {
        let cursor = Cursor::new(tree, from)?;
        let mut merge = Self { tree, cursor, current: None, others: Default::default(), from: None };
        merge.seek(from)?;
        Ok(merge)
    }

    fn seek(&mut self, from: &str) -> Result<()> {
        self.cursor.seek(from)?;
        self.current = self.cursor.next()?;
        self.others.clear();
        let mut first = key::by_id(tag::VERSION, self.tree.ancestry.clone_group);
        first.extend_from_slice(from.as_bytes());
        self.from = Some(first);
        Ok(())
    }

    fn peek_other(&mut self) -> Result<Option<&Noncurrent>> {
        if self.others.is_empty()
            && let Some(from) = self.from.take()
        {
            let end = key::after_prefix(&key::by_id(tag::VERSION, self.tree.ancestry.clone_group));
            let versions = self.tree.versions(&from, &end, CHUNK)?;
            if let Some(last) = versions.last().filter(|_| versions.len() == CHUNK) {
                self.from =
                    Some(key::after_prefix(&key::version(self.tree.ancestry.clone_group, &last.key, last.order)));
            }
            self.others = versions.into();
        }
        Ok(self.others.front())
    }

    /// The next version: the current one before the others of its key.
    fn next(&mut self) -> Result<Option<Listed>> {
        let other = self.peek_other()?.map(|other| other.key.clone());
        let current_first = match (&self.current, &other) {
            (Some(current), Some(other)) => current.key <= *other,
            (current, _) => current.is_some(),
        };
        if current_first {
            let Some(item) = self.current.take() else { return Ok(None) };
            self.current = self.cursor.next()?;
            return Ok(Some(listed_current(item)));
        }
        match self.others.pop_front() {
            Some(other) => self.listed(other).map(Some),
            None => Ok(None),
        }
    }

    fn listed(&self, other: Noncurrent) -> Result<Listed> {
        let inode = match other.version.ino {
            0 => None,
            ino => Some(self.tree.linked_inode(ino)?.1),
        };
        let id = other.id();
        let Noncurrent { key, order, version } = other;
        Ok(Listed { key, id, order, ino: version.ino, inode, created: version.created, latest: false })
    }
}

fn listed_current(item: Item) -> Listed {
    let order = order_of(&item.inode);
    let (id, created) = (version_id(order), item.inode.mtime);
    Listed { key: item.key, id, order, ino: item.ino, created, inode: Some(item.inode), latest: true }
}

/// Lists a page of versions.
pub(crate) fn list_versions(tree: Tree<'_>, request: &ListVersions) -> Result<VersionPage> {
    let list = &request.list;
    let mut page = VersionPage::default();
    if list.limit == 0 {
        return Ok(page);
    }
    let mut skip = Skip::new(tree, request)?;
    let from = match &skip {
        Some(skip) => skip.key.clone().max(list.prefix.clone()),
        None => start(list),
    };
    let mut merge = Merge::new(tree, &from)?;
    let mut last_key = None;
    while let Some(mut version) = merge.next()? {
        // The newest version of a key without a current one is the delete marker.
        version.latest |= version.inode.is_none() && last_key.as_ref() != Some(&version.key);
        last_key = Some(version.key.clone());
        if !version.key.starts_with(&list.prefix) {
            break;
        }
        if passed(&mut skip, &version) {
            continue;
        }
        if page.len() == list.limit {
            page.next = Some(last_of(&page));
            break;
        }
        match common_prefix(&version.key, list) {
            Some(prefix) => {
                merge.seek(&beyond(&prefix))?;
                page.prefixes.push(prefix);
            }
            None => page.versions.push(version),
        }
    }
    Ok(page)
}

/// The version to continue after.
struct Skip {
    key: String,
    id: String,
    order: u64,
    /// Whether it still exists. A client that deletes page by page has just deleted it.
    present: bool,
}

impl Skip {
    fn new(tree: Tree<'_>, request: &ListVersions) -> Result<Option<Self>> {
        let Some((id, key)) = request.after_version.clone().zip(request.list.after.clone()) else { return Ok(None) };
        if common_prefix(&key, &request.list).as_ref() == Some(&key) {
            return Ok(None);
        }
        let order = order_of_id(&id)?;
        let present = match key.parse::<Key>() {
            Ok(key) => tree.version(&key, &id)?.is_some(),
            Err(_) => false,
        };
        Ok(Some(Self { key, id, order, present }))
    }
}

/// Whether the version precedes the place to continue after. If that is gone, its order number decides; for a deleted
/// `null` version nothing does, and then a version is shown twice rather than not at all.
fn passed(skip: &mut Option<Skip>, version: &Listed) -> bool {
    let Some(at) = skip else { return false };
    if version.key != at.key {
        *skip = None;
        return false;
    }
    if !at.present {
        return version.order != 0 && version.order <= at.order;
    }
    if version.id == at.id {
        *skip = None;
    }
    true
}

/// The last item of a page, by key.
fn last_of(page: &VersionPage) -> (String, Option<String>) {
    let version = page.versions.last().map(|version| (version.key.clone(), Some(version.id.clone())));
    let prefix = page.prefixes.last().map(|prefix| (prefix.clone(), None));
    version.into_iter().chain(prefix).max_by(|a, b| a.0.cmp(&b.0)).unwrap_or_default()
}
