//! Pages of keys with prefix, delimiter and continuation (S3 API, ListObjectsV2).

use crate::error::Result;
use crate::record::inode::Inode;
use crate::store::List;

use super::cursor::{Cursor, after};
use super::read::Tree;

/// A page of keys.
#[derive(Default)]
pub(crate) struct Page {
    /// Keys with their inodes.
    pub keys: Vec<(String, u64, Inode)>,
    /// Common prefixes.
    pub prefixes: Vec<String>,
    /// The last of both, if there is more.
    pub next: Option<String>,
}

impl Page {
    fn len(&self) -> usize {
        self.keys.len() + self.prefixes.len()
    }
}

/// Lists a page of keys.
pub(crate) fn list_keys(tree: Tree<'_>, list: &List) -> Result<Page> {
    let mut page = Page::default();
    if list.limit == 0 {
        return Ok(page);
    }
    let mut cursor = Cursor::new(tree, &start(list))?;
    let mut last = String::new();
    while let Some(item) = cursor.next()? {
        if !item.key.starts_with(&list.prefix) {
            break;
        }
        if page.len() == list.limit {
            page.next = Some(last);
            break;
        }
        match common_prefix(&item.key, list) {
            Some(prefix) => {
                cursor.seek(&beyond(&prefix))?;
                last.clone_from(&prefix);
                page.prefixes.push(prefix);
            }
            None => {
                last.clone_from(&item.key);
                page.keys.push((item.key, item.ino, item.inode));
            }
        }
    }
    Ok(page)
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

/// The smallest string above all that begin with `prefix`: its last character raised by one.
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
    // A prefix of the highest character alone: nothing sorts above it but longer runs of it.
    format!("{prefix}{}", "\u{10FFFF}".repeat(16))
}
