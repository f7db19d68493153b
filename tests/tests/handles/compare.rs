//! Comparison of everything that both handles show with the model.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use super::both::{Both, METADATA};
use super::model::{Model, Name, Tag};
use super::step::{NOWHERE, Refusal, fresh};
use crate::support::*;

/// How long the kernel may take to drop a file without a name.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// Compares what each step can have changed: all names and attributes, and the content of `touched` and one other file.
pub fn after_step(both: &mut Both, model: &mut Model, rng: &mut Rng, touched: &[&str]) {
    usage(both, model);
    listing(both, model);
    page(both, model, rng);
    mount(both, model);
    held(both, model);
    let random = fresh(rng);
    let known = model.names.len().checked_sub(1).map(|last| rng.below(last + 1));
    let known = known.and_then(|at| model.names.keys().nth(at)).cloned();
    let names = touched.iter().copied().chain(known.as_deref()).chain([random.as_str()]);
    for name in names.map(|name| name.trim_end_matches('/')) {
        content(both, model, name);
        object(both, model, name);
        object(both, model, &format!("{name}/"));
    }
}

/// Compares everything.
pub fn whole(both: &mut Both, model: &mut Model) {
    usage(both, model);
    listing(both, model);
    mount(both, model);
    let names: Vec<_> = model.names.keys().cloned().collect();
    for name in names {
        content(both, model, name.trim_end_matches('/'));
        object(both, model, &name);
    }
}

/// Compares the usage, which counts what can be reached, once the kernel has dropped the rest.
fn usage(both: &mut Both, model: &Model) {
    let mut last = 0;
    let settled = wait_until(SETTLE_LIMIT, || {
        last = both.used_bytes();
        (last == model.used()).then_some(())
    });
    assert!(settled.is_some(), "{last} bytes are used, {} in the model", model.used());
}

/// Compares the listing of everything: keys in byte order, sizes, entity tags, and times as the mount shows them.
fn listing(both: &Both, model: &mut Model) {
    let listed = both.list("", None, "", 1000);
    let keys: Vec<_> = listed.contents().iter().map(|object| object.key().expect("a key")).collect();
    let expected: Vec<_> = model.keys().map(|(key, id)| (key.to_owned(), id)).collect();
    assert_eq!(keys, expected.iter().map(|(key, _)| key).collect::<Vec<_>>(), "the listing");
    for (object, (key, id)) in listed.contents().iter().zip(expected) {
        let Some(id) = id else { continue };
        let len = model.files[&id].content.len();
        assert_eq!(object.size(), i64::try_from(len).ok(), "size of {key} in the listing");
        tag(model, id, &key, object.e_tag());
        if model.shown(&key).as_deref() == Some(&key) {
            let mtime = both.path(&key).symlink_metadata().expect("shown").mtime();
            assert_eq!(
                object.last_modified().map(aws_sdk_s3::primitives::DateTime::secs),
                Some(mtime),
                "time of {key}"
            );
        }
    }
}

/// Compares an entity tag with the known one; if none is known, asserts that it differs from earlier ones, and records
/// it.
fn tag(model: &mut Model, id: u64, key: &str, seen: Option<&str>) {
    let seen = seen.expect("an entity tag").to_owned();
    match &model.files[&id].tag {
        Tag::Known(known) => assert_eq!(*known, seen, "entity tag of {key}"),
        Tag::Other(former) => {
            assert!(!former.contains(&seen), "the content of {key} changed and its entity tag {seen} did not");
            model.files.get_mut(&id).expect("named").tag = Tag::Known(seen);
        }
    }
}

/// Compares a page with a prefix, a delimiter and a start.
fn page(both: &Both, model: &Model, rng: &mut Rng) {
    let prefix = *rng.pick(&["", "a", "a/", "a/b", "é/", "a.b/a"]);
    let delimiter = *rng.pick(&[None, Some("/"), Some("/"), Some(".")]);
    let after = if rng.chance(50) { String::new() } else { fresh(rng) };
    let limit = 1 + rng.below(12);
    let listed = both.list(prefix, delimiter, &after, i32::try_from(limit).expect("small"));
    let mut entries = BTreeMap::new();
    for (key, _) in model.keys().filter(|(key, _)| key.starts_with(prefix) && *key > after.as_str()) {
        let group = delimiter.and_then(|delimiter| Some((key[prefix.len()..].find(delimiter)?, delimiter)));
        match group.map(|(at, delimiter)| &key[..prefix.len() + at + delimiter.len()]) {
            Some(group) => drop(entries.insert(group, true)),
            None => drop(entries.insert(key, false)),
        }
    }
    let truncated = entries.len() > limit;
    let entries: Vec<_> = entries.into_iter().take(limit).collect();
    let of = |groups: bool| entries.iter().filter(move |(_, group)| *group == groups).map(|(key, _)| *key);
    let what = format!("prefix {prefix:?} delimiter {delimiter:?} after {after:?} limit {limit}");
    let keys: Vec<_> = listed.contents().iter().filter_map(|object| object.key()).collect();
    let prefixes: Vec<_> = listed.common_prefixes().iter().filter_map(|group| group.prefix()).collect();
    assert_eq!(keys, of(false).collect::<Vec<_>>(), "keys of the page with {what}");
    assert_eq!(prefixes, of(true).collect::<Vec<_>>(), "common prefixes of the page with {what}");
    assert_eq!(listed.is_truncated(), Some(truncated), "end of the page with {what}");
}

/// Compares the whole tree of the mount: names, types, sizes, links, permissions and times.
fn mount(both: &Both, model: &Model) {
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(both.path(&folder)).unwrap_or_else(|error| panic!("reading {folder:?}: {error}"));
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
        let mut seen: Vec<_> = names.collect();
        seen.sort();
        let mut expected: Vec<_> =
            model.children(&folder).map(|(key, _)| key[folder.len()..].trim_end_matches('/').to_owned()).collect();
        expected.sort();
        // A key with the same name as a directory is not shown.
        expected.dedup();
        assert_eq!(seen, expected, "the names in {folder:?}");
        for name in seen {
            let key = model.shown(&format!("{folder}{name}")).expect("listed");
            attributes(both, model, &key);
            if key.ends_with('/') {
                folders.push(key);
            }
        }
    }
}

fn attributes(both: &Both, model: &Model, key: &str) {
    let path = both.path(key.trim_end_matches('/'));
    let stat = path.symlink_metadata().unwrap_or_else(|error| panic!("stat of {key:?}: {error}"));
    match &model.names[key] {
        Name::Directory { .. } => assert!(stat.is_dir(), "{key:?} is a directory"),
        Name::Link(target) => {
            assert_eq!(std::fs::read_link(&path).expect("a symbolic link").to_str(), Some(target.as_str()));
            assert_eq!(target, NOWHERE);
        }
        Name::File(id) => {
            let file = &model.files[id];
            assert!(stat.is_file(), "{key:?} is a file");
            assert_eq!(stat.len(), file.content.len() as u64, "size of {key:?} on the mount");
            assert_eq!(stat.nlink(), model.links(*id) as u64, "links of {key:?}");
            let mode = file.mode.unwrap_or(stat.mode() & 0o7777);
            assert_eq!(stat.permissions().mode() & 0o7777, mode, "permissions of {key:?}");
            assert_eq!(stat.mtime(), file.mtime.unwrap_or(stat.mtime()), "time of {key:?} on the mount");
        }
    }
}

/// Compares the content at a path.
fn content(both: &Both, model: &Model, path: &str) {
    let seen = std::fs::read(both.path(path)).map_err(|error| {
        Refusal::from(rustix::io::Errno::from_raw_os_error(error.raw_os_error().expect("of the system")))
    });
    let expected = model.existing_file(path).map(|id| &model.files[&id].content);
    match (&seen, expected) {
        (Ok(seen), Ok(expected)) => {
            assert!(seen == expected, "content of {path:?} on the mount{}", differ(seen, expected));
        }
        (seen, expected) => assert_eq!(seen.as_ref().err(), expected.err().as_ref(), "reading {path:?} on the mount"),
    }
}

/// Compares the answers to HEAD and GET of a key.
fn object(both: &Both, model: &mut Model, key: &str) {
    let expected = model.keys().find(|(listed, _)| *listed == key).map(|(_, id)| id);
    let head = both.head(key);
    assert_eq!(head.is_some(), expected.is_some(), "HEAD of {key:?} finds it");
    let Some(id) = expected else {
        assert_eq!(both.get(key).err(), Some(Refusal::s3("NoSuchKey")), "GET of {key:?}");
        return;
    };
    let (head, (seen, seen_tag)) = (head.expect("checked"), both.get(key).expect("GET finds what HEAD finds"));
    assert_eq!(head.e_tag, seen_tag, "entity tag of {key:?}");
    let file = id.map(|id| &model.files[&id]);
    let expected = file.map_or(&[][..], |file| &file.content);
    assert_eq!(head.content_length(), i64::try_from(expected.len()).ok(), "HEAD's size of {key:?}");
    assert!(seen == expected, "GET's content of {key:?}{}", differ(&seen, expected));
    let note = head.metadata().and_then(|all| all.get(METADATA));
    assert_eq!(note, file.and_then(|file| file.metadata.as_ref()), "metadata of {key:?}");
    if let Some(id) = id {
        tag(model, id, key, seen_tag.as_deref());
    }
}

/// Compares the open files, which keep their content except for changes by the mount.
fn held(both: &Both, model: &Model) {
    for (number, (seen, id)) in both.held_contents().zip(&model.held).enumerate() {
        let expected = &model.files[id].content;
        assert!(seen == *expected, "content of open file {number}{}", differ(&seen, expected));
    }
}

fn differ(seen: &[u8], expected: &[u8]) -> String {
    let at = seen.iter().zip(expected).position(|(one, two)| one != two);
    let at = at.unwrap_or(seen.len().min(expected.len()));
    format!(": {} bytes, {} expected; they differ from byte {at} on", seen.len(), expected.len())
}
