//! Check of path lengths: each directory's recorded bound is at least the longest path below it (decision 0068).
//!
//! - A bound may be too high, since deletions do not lower it. A bound that is too low is damage: a rename could make a
//!   key that is too long.

use std::collections::HashMap;

use super::fix::Fix;
use super::{Checked, Report, Root};
use crate::record::inode::Inode;

/// Bytes past which a path is not followed up: names that lead in a circle would be, for ever.
const FOLLOWED_MAX: usize = 1 << 16;

/// The longest paths below directories.
#[derive(Default)]
pub(super) struct Reaches {
    /// The directory that each directory lies in, and the length of its name there, with the `/`.
    above: HashMap<u64, (u64, usize)>,
    longest: HashMap<u64, usize>,
}

impl Reaches {
    /// Takes a name in. `below` is the directory that it leads to.
    pub(super) fn add(&mut self, parent: u64, sort_name: &str, below: Option<u64>) {
        if let Some(below) = below {
            self.above.insert(below, (parent, sort_name.len()));
        }
        let longest = self.longest.entry(parent).or_default();
        *longest = sort_name.len().max(*longest);
    }

    /// Adds the paths of more than one name, once all names are there.
    pub(super) fn climb(&mut self) {
        let lengths: Vec<(u64, usize)> = self.longest.iter().map(|(dir, length)| (*dir, *length)).collect();
        for (mut dir, mut length) in lengths {
            while let Some((parent, name)) = self.above.get(&dir).copied() {
                length += name;
                let longest = self.longest.entry(parent).or_default();
                if *longest >= length || length > FOLLOWED_MAX {
                    break;
                }
                *longest = length;
                dir = parent;
            }
        }
    }

    /// Compares a directory's bound; one that has none is looked at by each rename.
    pub(super) fn check(&self, store: &Checked<'_>, root: &Root, ino: u64, inode: &Inode, report: &mut Report) {
        let length = self.longest.get(&ino).copied().unwrap_or_default();
        let is_known = inode.is_dir() && inode.reach > 0;
        if is_known && length > inode.reach as usize {
            let what = &root.what;
            report.problem(format!(
                "{what}: inode {ino}: a path below it has {length} bytes, but its record says {} at most",
                inode.reach
            ));
            store.fix(Fix::Reach { tree: root.seat(), ino, length: u32::try_from(length).unwrap_or(u32::MAX) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(names: &[(u64, &str, Option<u64>)]) -> Vec<(u64, usize)> {
        let mut reaches = Reaches::default();
        names.iter().for_each(|(parent, name, below)| reaches.add(*parent, name, *below));
        reaches.climb();
        let mut found: Vec<_> = reaches.longest.into_iter().collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn the_longest_path_below_each_directory_is_found_in_any_order() {
        let names = [(1, "a/", Some(2)), (2, "bb/", Some(3)), (3, "file", None), (1, "longest", None), (2, "x", None)];
        let expected = [(1, 9), (2, 7), (3, 4)];
        assert_eq!(longest(&names), expected);
        let backwards: Vec<_> = names.iter().rev().copied().collect();
        assert_eq!(longest(&backwards), expected);
    }

    #[test]
    fn directories_that_lead_in_a_circle_come_to_an_end() {
        let found = longest(&[(2, "a/", Some(3)), (3, "b/", Some(2)), (3, "file", None)]);
        assert!(found.iter().all(|(_, length)| *length <= FOLLOWED_MAX), "{found:?}");
    }
}
