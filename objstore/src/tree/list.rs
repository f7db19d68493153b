//! Pages of keys with prefix, delimiter and continuation (S3 API, ListObjectsV2).

use super::types::List;
use crate::error::Result;
use crate::record::inode::InodeKind;
use crate::record::listed::ListingEntry;

use super::cursor::{Cursor, Name, after};
use super::read::Tree;

/// A page of keys.
#[derive(Default)]
pub(crate) struct Page {
    /// Keys.
    pub keys: Vec<String>,
    /// The attributes of each.
    pub shown: Vec<ListingEntry>,
    /// Common prefixes.
    pub prefixes: Vec<String>,
    /// The last key or prefix, if there is more.
    pub next: Option<String>,
}

impl Page {
    fn len(&self) -> usize {
        self.keys.len() + self.prefixes.len()
    }

    fn last(&self) -> Option<String> {
        self.keys.last().max(self.prefixes.last()).cloned()
    }
}

/// Lists a page of keys.
pub(crate) fn list_keys(tree: Tree<'_>, list: &List) -> Result<Page> {
    let mut page = Page::default();
    if list.limit == 0 {
        return Ok(page);
    }
    // Keys whose names carry no copy of attributes: their positions on the page, and their inodes.
    let (mut bare, mut inos) = (Vec::new(), Vec::new());
    let mut cursor = Cursor::new(tree, &start(list))?;
    while let Some(name) = cursor.next_name()? {
        if !name.key.starts_with(&list.prefix) {
            break;
        }
        let prefix = common_prefix(&name.key, list);
        if !is_listed(tree, &name, prefix.is_some())? {
            continue;
        }
        if page.len() == list.limit {
            page.next = page.last();
            break;
        }
        match prefix {
            Some(prefix) => {
                pass(&mut cursor, &name, &prefix)?;
                page.prefixes.push(prefix);
            }
            None => {
                if name.shown.is_none() {
                    bare.push(page.keys.len());
                    inos.push(name.dirent.ino);
                }
                page.shown.push(name.shown.unwrap_or_default());
                page.keys.push(name.key);
            }
        }
    }
    for ((at, ino), inode) in bare.into_iter().zip(&inos).zip(tree.listed_inodes(&inos)?) {
        page.shown[at] = inode.shown(*ino);
    }
    Ok(page)
}

/// Whether a name appears on the page: as a key, or as part of a common prefix.
fn is_listed(tree: Tree<'_>, name: &Name, as_prefix: bool) -> Result<bool> {
    if name.dirent.kind() != InodeKind::Directory {
        return Ok(true);
    }
    let inode = tree.listed_inode(name.dirent.ino)?;
    Ok(if as_prefix { inode.leads_to_a_key() } else { !inode.implicit })
}

/// Skips everything with the common prefix of `name`.
fn pass(cursor: &mut Cursor<'_>, name: &Name, prefix: &str) -> Result<()> {
    if name.key == prefix && name.dirent.kind() == InodeKind::Directory {
        cursor.leave();
        return Ok(());
    }
    cursor.advance(&beyond(prefix))
}

/// The first key that can be on the page.
pub(super) fn start(list: &List) -> String {
    let Some(marker) = &list.after else { return list.prefix.clone() };
    let passed = match common_prefix(marker, list) {
        Some(prefix) if prefix == *marker => beyond(&prefix),
        _ => after(marker),
    };
    passed.max(list.prefix.clone())
}

/// The part of a key up to and with the first delimiter after the prefix.
pub(crate) fn common_prefix(key: &str, list: &List) -> Option<String> {
    let delimiter = list.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
    let rest = key.strip_prefix(list.prefix.as_str())?;
    let at = rest.find(delimiter)?;
    Some(key[..list.prefix.len() + at + delimiter.len()].to_owned())
}

/// The smallest string greater than all with `prefix`: its last character raised by one.
pub(super) fn beyond(prefix: &str) -> String {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let raised = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            _ => char::from_u32(last as u32 + 1),
        };
        if let Some(raised) = raised {
            characters.push(raised);
            return characters.into_iter().collect();
        }
    }
    // For a prefix of the highest character alone, only longer runs of it are greater.
    format!("{prefix}{}", "\u{10FFFF}".repeat(16))
}
