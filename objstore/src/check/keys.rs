//! Directories that correspond to keys: those that are one, or contain one at any depth.

use std::collections::{HashMap, HashSet};

use crate::tree::Tree;

/// For each directory that leads to a key, its parent. `folders` has directories with their parents, parents first;
/// `files` is the number of files in a directory.
pub(super) fn parents_of_leading(tree: Tree<'_>, folders: &[(u64, u64)], files: &HashMap<u64, u64>) -> Vec<u64> {
    let above: HashMap<u64, u64> = folders.iter().map(|(parent, dir)| (*dir, *parent)).collect();
    let mut leading = HashSet::new();
    let mut parents = Vec::new();
    for (_, dir) in folders {
        // An unreadable directory counts as a key, which is how a repair creates it.
        let explicit = || tree.inode(*dir).ok().flatten().is_none_or(|(_, inode)| !inode.implicit);
        let mut at = *dir;
        if files.get(&at).is_some_and(|files| *files > 0) || explicit() {
            while let Some(parent) = above.get(&at)
                && leading.insert(at)
            {
                parents.push(*parent);
                at = *parent;
            }
        }
    }
    parents
}
