//! The tree compared with a plain map of keys, and with a naive tree when a mount takes part.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::name::BucketName;
use crate::store::{List, Listing};
use crate::tests::random::Choices;
use crate::tests::test_store::{self, TestStore, find};
use crate::volume::{Kind, Make, Rename, RenameMode, Volume};

/// Components around `/` in byte order, some of which a mount cannot name.
fn components() -> Vec<String> {
    let mut components: Vec<String> =
        ["a", "b", "", ".", "..", "a-", "a.", "a0", "-", "0", "aa", "ab", "é", "\u{10FFFF}", "\u{1}", "\u{D7FF}"]
            .map(str::to_owned)
            .to_vec();
    components.extend(["n".repeat(300), "n".repeat(255)]);
    components
}

fn some_key(choices: &mut Choices) -> String {
    let components = components();
    loop {
        let depth = 1 + choices.below(3);
        let parts: Vec<&str> = (0..depth).map(|_| choices.of(&components).as_str()).collect();
        let key = parts.join("/") + if choices.once_in(6) { "/" } else { "" };
        if !key.is_empty() {
            return key;
        }
    }
}

/// A naive listing (S3 API, ListObjectsV2).
fn naive(keys: &[String], list: &List) -> (Vec<String>, Vec<String>, Option<String>) {
    let (mut found, mut prefixes, mut last) = (Vec::new(), Vec::<String>::new(), None);
    let after = list.after.as_deref().unwrap_or("");
    for key in keys.iter().filter(|key| key.starts_with(&list.prefix) && key.as_str() > after) {
        let rest = &key[list.prefix.len()..];
        let delimiter = list.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        let prefix = delimiter.and_then(|delimiter| Some(list.prefix.len() + rest.find(delimiter)? + delimiter.len()));
        let prefix = prefix.map(|end| key[..end].to_owned());
        if prefix.is_some() && (prefix.as_deref() == Some(after) || prefixes.last() == prefix.as_ref()) {
            continue;
        }
        if found.len() + prefixes.len() == list.limit {
            return (found, prefixes, last.filter(|_| list.limit > 0));
        }
        last = Some(prefix.clone().unwrap_or_else(|| key.clone()));
        match prefix {
            Some(prefix) => prefixes.push(prefix),
            None => found.push(key.clone()),
        }
    }
    (found, prefixes, None)
}

fn some_list(choices: &mut Choices, keys: &[String]) -> List {
    let cut = |choices: &mut Choices| {
        let key = if keys.is_empty() || choices.once_in(4) { some_key(choices) } else { choices.of(keys).clone() };
        let ends: Vec<usize> = key.char_indices().map(|(at, _)| at).chain([key.len()]).collect();
        key[..*choices.of(&ends)].to_owned()
    };
    let delimiters = ["/", "/", "/", "b", "//", "a/", "é", "\u{10FFFF}", "n", ".", "\u{D7FF}", ""];
    List {
        prefix: if choices.once_in(2) { String::new() } else { cut(choices) },
        delimiter: (!choices.once_in(3)).then(|| (*choices.of(&delimiters)).to_owned()),
        after: choices.once_in(3).then(|| cut(choices)).filter(|after| !after.is_empty()),
        limit: if choices.once_in(20) { 0 } else { 1 + choices.below(12) },
    }
}

fn compare_listing(test: &TestStore, bucket: &BucketName, keys: &[String], choices: &mut Choices) {
    let mut list = some_list(choices, keys);
    for _ in 0..200 {
        let Listing { objects, prefixes, next } = test.store.list_objects(bucket, &list).unwrap();
        let found = (objects.into_iter().map(|object| object.key).collect::<Vec<_>>(), prefixes, next.clone());
        assert_eq!(found, naive(keys, &list), "{list:?} of {keys:?}");
        let Some(next) = next else { return };
        list.after = Some(next);
    }
}

#[test]
fn s3_alone_agrees_with_a_map_of_keys() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("model");
    let mut choices = Choices::new();
    let mut model: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for step in 0..2500 {
        let held: Vec<String> = model.keys().cloned().collect();
        let key =
            if held.is_empty() || choices.once_in(2) { some_key(&mut choices) } else { choices.of(&held).clone() };
        if choices.below(100) < if step % 1000 < 600 { 60 } else { 25 } {
            let len = choices.below(20);
            let info = test.put(&bucket, &key, &choices.bytes(len)).unwrap();
            model.insert(key, (info.size, info.etag));
        } else {
            let existed = test.delete(&bucket, &key).unwrap().existed;
            assert_eq!(existed, model.remove(&key).is_some(), "{key:?}");
        }
        let keys: Vec<String> = model.keys().cloned().collect();
        compare_listing(&test, &bucket, &keys, &mut choices);
        if step % 50 == 0 {
            let all = test.store.list_objects(&bucket, &List { limit: usize::MAX, ..List::default() }).unwrap().objects;
            let all: BTreeMap<_, _> = all.into_iter().map(|object| (object.key, (object.size, object.etag))).collect();
            assert_eq!(all, model);
            test.audit();
        }
    }
    for key in model.into_keys() {
        test.delete(&bucket, &key).unwrap();
    }
    test.audit_collected();
    let empty = crate::store::Usage { objects: Some(0), hidden: Some(0), ..crate::store::Usage::default() };
    assert_eq!(test.store.usage(&bucket).unwrap(), empty);
}

/// A node of the naive tree.
#[derive(Clone, Debug)]
enum Node {
    File(u64),
    Other,
    Dir { explicit: bool, names: BTreeMap<String, usize> },
}

/// The naive tree: what each sort name in each directory leads to.
#[derive(Clone)]
struct Naive {
    nodes: Vec<Node>,
}

const ROOT: usize = 0;

impl Naive {
    fn new() -> Self {
        Self { nodes: vec![Node::Dir { explicit: true, names: BTreeMap::new() }] }
    }

    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn is_dir(&self, node: usize) -> bool {
        matches!(self.nodes[node], Node::Dir { .. })
    }

    fn names(&self, dir: usize) -> &BTreeMap<String, usize> {
        match &self.nodes[dir] {
            Node::Dir { names, .. } => names,
            other => panic!("{other:?} is no directory"),
        }
    }

    fn names_mut(&mut self, dir: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.nodes[dir] {
            Node::Dir { names, .. } => names,
            other => panic!("{other:?} is no directory"),
        }
    }

    fn explicit(&mut self, dir: usize) -> &mut bool {
        match &mut self.nodes[dir] {
            Node::Dir { explicit, .. } => explicit,
            other => panic!("{other:?} is no directory"),
        }
    }

    /// All keys with their sizes; of directories none is compared.
    fn keys(&self) -> BTreeMap<String, Option<u64>> {
        fn walk(tree: &Naive, dir: usize, above: &str, keys: &mut BTreeMap<String, Option<u64>>) {
            for (name, node) in tree.names(dir) {
                let key = format!("{above}{name}");
                match &tree.nodes[*node] {
                    Node::File(size) => drop(keys.insert(key, Some(*size))),
                    Node::Other => {}
                    Node::Dir { explicit, .. } => {
                        walk(tree, *node, &key, keys);
                        if *explicit {
                            keys.insert(key, None);
                        }
                    }
                }
            }
        }
        let mut keys = BTreeMap::new();
        walk(self, ROOT, "", &mut keys);
        keys
    }

    /// All directories with the path a mount reaches them by.
    fn dirs(&self) -> Vec<(String, usize)> {
        let mut dirs = vec![(String::new(), ROOT)];
        let mut at = 0;
        while at < dirs.len() {
            let (path, dir) = dirs[at].clone();
            for (name, node) in self.names(dir) {
                let shown = name.trim_end_matches('/');
                if self.is_dir(*node) && crate::name::mountable(shown) {
                    dirs.push((format!("{path}/{shown}"), *node));
                }
            }
            at += 1;
        }
        dirs
    }

    /// What a mount finds: the sort name and the node.
    fn entry(&self, dir: usize, name: &str) -> Option<(String, usize)> {
        let names = self.names(dir);
        [format!("{name}/"), name.to_owned()].into_iter().find_map(|sort| names.get(&sort).map(|node| (sort, *node)))
    }

    fn within(&self, below: usize, above: usize) -> bool {
        below == above
            || self.is_dir(above)
                && self.names(above).values().any(|node| self.is_dir(*node) && self.within(below, *node))
    }

    fn split(key: &str) -> (Vec<String>, Option<String>) {
        let mut parts: Vec<String> = key.split('/').map(str::to_owned).collect();
        let last = parts.pop().filter(|last| !last.is_empty());
        (parts, last)
    }

    fn put(&mut self, key: &str, size: u64) {
        let (dirs, last) = Self::split(key);
        let mut at = ROOT;
        for dir in dirs {
            let sort = format!("{dir}/");
            at = match self.names(at).get(&sort) {
                Some(node) => *node,
                None => {
                    let made = self.add(Node::Dir { explicit: false, names: BTreeMap::new() });
                    self.names_mut(at).insert(sort, made);
                    made
                }
            };
        }
        match last {
            Some(name) => {
                let file = self.add(Node::File(size));
                self.names_mut(at).insert(name, file);
            }
            None => *self.explicit(at) = true,
        }
    }

    fn delete(&mut self, key: &str) {
        let (dirs, last) = Self::split(key);
        let mut path = vec![(ROOT, String::new())];
        for dir in dirs {
            let (at, sort) = (path.last().unwrap().0, format!("{dir}/"));
            let Some(node) = self.names(at).get(&sort).copied() else { return };
            path.push((node, sort));
        }
        let at = path.last().unwrap().0;
        match last {
            Some(name) => match self.names(at).get(&name) {
                Some(node) if matches!(self.nodes[*node], Node::File(_)) => drop(self.names_mut(at).remove(&name)),
                _ => return,
            },
            None if at == ROOT || !*self.explicit(at) => return,
            None => *self.explicit(at) = false,
        }
        while let Some((dir, name)) = path.pop() {
            if dir == ROOT || *self.explicit(dir) || !self.names(dir).is_empty() {
                break;
            }
            let above = path.last().unwrap().0;
            self.names_mut(above).remove(&name);
        }
    }

    fn settle(&mut self, dir: usize) {
        if self.names(dir).is_empty() {
            *self.explicit(dir) = true;
        }
    }

    /// Whether the rename is done.
    fn rename(&mut self, from: (usize, &str), to: (usize, &str), mode: RenameMode) -> bool {
        let Some((source_name, source)) = self.entry(from.0, from.1) else { return false };
        let target = self.entry(to.0, to.1);
        match (mode, &target) {
            (RenameMode::NoReplace, Some(_)) | (RenameMode::Exchange, None) => return false,
            (_, Some((_, target))) if *target == source => return true,
            _ => {}
        }
        if self.is_dir(source) && self.within(to.0, source) {
            return false;
        }
        let sort =
            |tree: &Self, node: usize, name: &str| if tree.is_dir(node) { format!("{name}/") } else { name.to_owned() };
        if let (RenameMode::Exchange, Some((target_name, target))) = (mode, &target) {
            if self.is_dir(*target) && self.within(from.0, *target) {
                return false;
            }
            let hidden = |dir: usize, name: &str, node: usize| self.is_dir(node) && self.names(dir).contains_key(name);
            let mixed = self.is_dir(*target) != self.is_dir(source);
            if mixed && (hidden(from.0, from.1, source) || hidden(to.0, to.1, *target)) {
                return false;
            }
            self.names_mut(from.0).remove(&source_name);
            self.names_mut(to.0).remove(target_name);
            let (source_sort, target_sort) = (sort(self, source, to.1), sort(self, *target, from.1));
            self.names_mut(to.0).insert(source_sort, source);
            self.names_mut(from.0).insert(target_sort, *target);
        } else {
            if let Some((target_name, target)) = &target {
                let full = self.is_dir(*target) && !self.names(*target).is_empty();
                if self.is_dir(source) != self.is_dir(*target) || full {
                    return false;
                }
                self.names_mut(to.0).remove(target_name);
            }
            self.names_mut(from.0).remove(&source_name);
            let sort = sort(self, source, to.1);
            self.names_mut(to.0).insert(sort, source);
        }
        self.settle(from.0);
        self.settle(to.0);
        true
    }
}

/// Both, side by side.
struct Pair {
    test: TestStore,
    bucket: BucketName,
    volume: Volume,
    naive: Naive,
    pinned: Vec<u64>,
    choices: Choices,
    /// The last operation, for messages.
    last: String,
}

impl Pair {
    fn new(test: TestStore, choices: Choices) -> Self {
        let bucket = test.bucket("model");
        let volume = test.mount(&bucket);
        Self { test, bucket, volume, naive: Naive::new(), pinned: Vec::new(), choices, last: String::new() }
    }

    fn some_name(&mut self) -> String {
        let names: Vec<String> = components().into_iter().filter(|name| crate::name::mountable(name)).take(7).collect();
        self.choices.of(&names).clone()
    }

    fn some_dir(&mut self) -> (u64, usize) {
        let (path, node) = self.choices.of(&self.naive.dirs()).clone();
        (find(&self.volume, &path).unwrap(), node)
    }

    /// A directory and a name in it that may be taken, more likely than not.
    fn some_place(&mut self) -> (u64, usize, String) {
        let (ino, node) = self.some_dir();
        let taken: Vec<String> =
            self.naive.names(node).keys().map(|name| name.trim_end_matches('/').to_owned()).collect();
        let taken: Vec<String> = taken.into_iter().filter(|name| crate::name::mountable(name)).collect();
        let name = if taken.is_empty() || self.choices.once_in(3) {
            self.some_name()
        } else {
            self.choices.of(&taken).clone()
        };
        (ino, node, name)
    }

    fn step(&mut self) {
        match self.choices.below(100) {
            0..18 => self.put(),
            18..30 => self.delete(),
            30..34 => self.copy(),
            34..46 => self.make(),
            46..52 => self.link(),
            52..60 => self.unlink(),
            60..64 => self.remove_dir(),
            64..90 => self.rename(),
            _ => self.pin(),
        }
    }

    fn some_key(&mut self) -> String {
        let keys: Vec<String> = self.naive.keys().into_keys().collect();
        if keys.is_empty() || self.choices.once_in(2) {
            some_key(&mut self.choices)
        } else {
            self.choices.of(&keys).clone()
        }
    }

    fn put(&mut self) {
        let key = self.some_key();
        let size = self.choices.below(9);
        self.last = format!("put {key:?}");
        self.test.put(&self.bucket, &key, &vec![1; size]).unwrap();
        self.naive.put(&key, size as u64);
    }

    fn delete(&mut self) {
        let key = self.some_key();
        let existed = self.naive.keys().contains_key(&key);
        self.last = format!("delete {key:?}");
        self.naive.delete(&key);
        assert_eq!(self.test.delete(&self.bucket, &key).unwrap().existed, existed, "{key:?}");
    }

    fn copy(&mut self) {
        let (from, to) = (self.some_key(), self.some_key());
        let source = self.naive.keys().get(&from).copied();
        let copied = self.test.copy((&self.bucket, &from), (&self.bucket, &to));
        assert_eq!(copied.is_ok(), source.is_some(), "{from:?} to {to:?}");
        if let Ok(info) = copied {
            self.naive.put(&to, info.size);
        }
    }

    fn make(&mut self) {
        let (parent, node, name) = self.some_place();
        let (what, made) = match self.choices.below(4) {
            0 => (Make::Symlink("anywhere".into()), Node::Other),
            1 => (Make::Special(Kind::Fifo, 0), Node::Other),
            2 => (Make::File, Node::File(0)),
            _ => (Make::Directory, Node::Dir { explicit: true, names: BTreeMap::new() }),
        };
        let free = self.naive.entry(node, &name).is_none();
        self.last = format!("make {name:?} in {node}");
        assert_eq!(test_store::make(&self.volume, parent, &name, what).is_ok(), free, "{name:?}");
        if free {
            let sort = if matches!(made, Node::Dir { .. }) { format!("{name}/") } else { name };
            let made = self.naive.add(made);
            self.naive.names_mut(node).insert(sort, made);
        }
    }

    fn link(&mut self) {
        let ((from, from_node, from_name), (to, to_node, to_name)) = (self.some_place(), self.some_place());
        let Some((_, node)) = self.naive.entry(from_node, &from_name) else { return };
        let ino = self.volume.lookup(from, &from_name).unwrap().ino;
        self.last = format!("link {from_name:?} in {from_node} to {to_name:?} in {to_node}");
        let linked = self.volume.link(ino, to, &to_name);
        self.volume.forget(ino, if linked.is_ok() { 2 } else { 1 });
        let allowed = !self.naive.is_dir(node) && self.naive.entry(to_node, &to_name).is_none();
        assert_eq!(linked.is_ok(), allowed);
        if allowed {
            self.naive.names_mut(to_node).insert(to_name, node);
        }
    }

    fn unlink(&mut self) {
        let (parent, dir, name) = self.some_place();
        let found = self.naive.entry(dir, &name).filter(|(_, node)| !self.naive.is_dir(*node));
        self.last = format!("unlink {name:?} in {dir}");
        assert_eq!(self.volume.unlink(parent, &name).is_ok(), found.is_some(), "{name:?}");
        if let Some((sort, _)) = found {
            self.naive.names_mut(dir).remove(&sort);
            self.naive.settle(dir);
        }
    }

    fn remove_dir(&mut self) {
        let (parent, dir, name) = self.some_place();
        let empty = |node: usize| self.naive.is_dir(node) && self.naive.names(node).is_empty();
        let found = self.naive.entry(dir, &name).filter(|(_, node)| empty(*node));
        self.last = format!("rmdir {name:?} in {dir}");
        assert_eq!(self.volume.remove_dir(parent, &name).is_ok(), found.is_some(), "{name:?}");
        if let Some((sort, _)) = found {
            self.naive.names_mut(dir).remove(&sort);
            self.naive.settle(dir);
        }
    }

    fn rename(&mut self) {
        let ((from, from_node, from_name), (to, to_node, to_name)) = (self.some_place(), self.some_place());
        let mode =
            *self.choices.of(&[RenameMode::Replace, RenameMode::Exchange, RenameMode::Exchange, RenameMode::NoReplace]);
        let rename =
            Rename { from_parent: from, from_name: from_name.clone(), to_parent: to, to_name: to_name.clone(), mode };
        let done = self.volume.rename(rename);
        self.last = format!("{mode:?} {from_name:?} in {from_node} to {to_name:?} in {to_node}: {done:?}");
        let allowed = self.naive.rename((from_node, &from_name), (to_node, &to_name), mode);
        assert_eq!(done.is_ok(), allowed, "{mode:?} {from_name:?} to {to_name:?}: {done:?}");
    }

    fn pin(&mut self) {
        if self.pinned.len() > 5 || self.choices.once_in(3) {
            if let Some(ino) = self.pinned.pop() {
                self.volume.forget(ino, 1);
                self.test.store.core.meta.sync().wait().unwrap();
            }
            return;
        }
        let (parent, _, name) = self.some_place();
        if let Ok(found) = self.volume.lookup(parent, &name) {
            self.pinned.insert(0, found.ino);
        }
    }

    fn compare(&mut self) {
        let keys = self.naive.keys();
        let all = List { limit: usize::MAX, ..List::default() };
        let found = self.test.store.list_objects(&self.bucket, &all).unwrap().objects;
        assert_eq!(
            found.iter().map(|object| &object.key).collect::<Vec<_>>(),
            keys.keys().collect::<Vec<_>>(),
            "{}",
            self.last
        );
        for object in found {
            assert!(keys[&object.key].is_none_or(|size| size == object.size), "{}", object.key);
        }
        let keys: Vec<String> = keys.into_keys().collect();
        compare_listing(&self.test, &self.bucket, &keys, &mut self.choices);
        self.compare_directory().unwrap();
        for ino in &self.pinned {
            self.volume.attr(*ino).unwrap();
        }
        self.test.audit();
    }

    fn compare_directory(&mut self) -> Result<()> {
        let (ino, node) = self.some_dir();
        let shown: Vec<String> = self.volume.read_dir(ino)?.into_iter().map(|entry| entry.name).collect();
        let mut names: Vec<&String> = self.naive.names(node).keys().collect();
        names.retain(|name| name.ends_with('/') || !self.naive.names(node).contains_key(&format!("{name}/")));
        let names: Vec<&str> = names.into_iter().map(|name| name.strip_suffix('/').unwrap_or(name)).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| crate::name::mountable(name)).collect();
        assert_eq!(shown, names);
        Ok(())
    }
}

#[test]
fn s3_and_a_mount_agree_with_a_naive_tree() {
    let mut choices = Choices::new();
    for _ in 0..4 {
        let next = Choices::with(choices.below_u64(u64::MAX));
        let mut pair = Pair::new(TestStore::in_memory(), next);
        for _ in 0..500 {
            pair.step();
            pair.compare();
        }
        for ino in std::mem::take(&mut pair.pinned) {
            pair.volume.forget(ino, 1);
        }
        pair.test.store.core.meta.sync().wait().unwrap();
        pair.compare();
        pair.test.audit_collected();
    }
}
